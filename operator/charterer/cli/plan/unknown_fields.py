"""Fields of a manifest that its kind does not have, as ``kubectl apply`` would refuse them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from charterer.api.models.base import Json
from charterer.api.models.kinds import KINDS
from charterer.api.schema import structural
from charterer.sentences import similar_names


def unknown_fields(kind: str, spec: object) -> Iterator[str]:
    """A sentence for each field below ``spec`` that the kind's schema does not have; nothing for an unknown kind."""
    for known in KINDS:
        if known.kind == kind:
            yield from _unknown("spec", spec, structural(known.spec, defaults=False))


def _unknown(path: str, value: object, schema: Json) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _unknown(f"{path}[{number}]", item, schema["items"])
    if not isinstance(value, Mapping):
        return
    fields: Mapping[str, Any] | None = schema.get("properties")
    for name, child in value.items():
        if fields is None:
            if isinstance(schema.get("additionalProperties"), dict):
                yield from _unknown(f"{path}.{name}", child, schema["additionalProperties"])
        elif name in fields:
            yield from _unknown(f"{path}.{name}", child, fields[name])
        else:
            yield f"unknown field {path}.{name}: {similar_names(str(name), fields)}"
