"""What ``kubectl apply`` would refuse in a manifest: fields that its kind does not have, values of another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from charterer.api.models.base import Json
from charterer.api.models.kinds import KINDS
from charterer.api.structural import structural
from charterer.cli.shared.files.yaml_documents import documents
from charterer.sentences import similar_names

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
"""What YAML makes of a value that JSON would give the type."""


def schema_faults(kind: str, spec: object) -> Iterator[str]:
    """A sentence for each fault below ``spec`` by the kind's schema; nothing for an unknown kind."""
    for known in KINDS:
        if known.kind == kind:
            yield from _faults("spec", spec, structural(known.spec, defaults=False))


def _faults(path: str, value: object, schema: Json) -> Iterator[str]:
    wanted = schema.get("type")
    if wanted is not None and value is not None and not _fits(value, wanted):
        yield f"{path} is {value!r}, and has to be of type {wanted}{_quotes(value, wanted)}"
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _faults(f"{path}[{number}]", item, schema["items"])
    if not isinstance(value, Mapping):
        return
    fields: Mapping[str, Any] | None = schema.get("properties")
    for name, child in value.items():
        if fields is None:
            if isinstance(schema.get("additionalProperties"), dict):
                yield from _faults(f"{path}.{name}", child, schema["additionalProperties"])
        elif name in fields:
            yield from _faults(f"{path}.{name}", child, fields[name])
        else:
            yield f"unknown field {path}.{name}: {similar_names(str(name), fields)}"


def _quotes(value: object, wanted: str) -> str:
    """What to do about quotes, where they make the difference."""
    if wanted == "string":
        return "" if isinstance(value, dict | list) else ": put it in quotes"
    try:
        needless = isinstance(value, str) and [_fits(each, wanted) for each in documents("", value)] == [True]
    except click.ClickException:
        needless = False
    return ": leave the quotes out" if needless else ""


def _fits(value: object, wanted: str) -> bool:
    """Whether it has the type; times that YAML reads as such are strings."""
    if isinstance(value, bool):
        return wanted == "boolean"
    if isinstance(value, float) and wanted == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[wanted]) or (wanted == "string" and hasattr(value, "isoformat"))
