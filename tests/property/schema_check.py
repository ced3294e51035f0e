"""Whether the API server would take a status: by the CRD's schema, and by its size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from charterer.api.models.base import LARGEST_OBJECT_BYTES, stored_bytes, structural
from charterer.api.models.kinds import KINDS

_STATUS = {kind.kind: {**structural(kind.status, defaults=False), "required": []} for kind in KINDS}


def check(kind: str, status: Mapping[str, Any]) -> None:
    """Fail where the API server would refuse this status, or could not store it."""
    faults = list(_faults(_STATUS[kind], status, "status"))
    assert not faults, f"{kind}: {faults[:3]}"
    assert stored_bytes(status) < LARGEST_OBJECT_BYTES


def _faults(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    match value:
        case dict():
            known = schema.get("properties", {})
            yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
            for name, child in value.items():
                if name not in known:
                    yield f"{path}.{name} is unknown"
                else:
                    yield from _faults(known[name], child, f"{path}.{name}")
        case list():
            if len(value) > schema.get("maxItems", len(value)):
                yield f"{path} has {len(value)} items"
            if len(value) < schema.get("minItems", 0):
                yield f"{path} has only {len(value)} items"
            for index, child in enumerate(value):
                yield from _faults(schema["items"], child, f"{path}[{index}]")
        case str() if not _text_fits(schema, value):
            yield f"{path} is {value[:60]!r}"
        case float() | int() if not isinstance(value, bool) and not _number_fits(schema, value):
            yield f"{path} is {value!r}"


def _text_fits(schema: Mapping[str, Any], text: str) -> bool:
    short = len(text) <= schema.get("maxLength", len(text))
    return short and bool(re.search(schema.get("pattern", ""), text)) and text in schema.get("enum", [text])


def _number_fits(schema: Mapping[str, Any], number: float) -> bool:
    least, most = schema.get("minimum", number), schema.get("maximum", number)
    above = number > least if schema.get("exclusiveMinimum") else number >= least
    return above and number <= most and -9.2e18 < number < 9.2e18
