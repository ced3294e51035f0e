"""Reads the fields of a report, which a pod may fill with anything.

Refused (400) names the field, its value and what is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from charterer.server.errors import Refused

LARGEST: Final = 10**15


def json_object(body: bytes, example: str) -> dict[str, Any]:
    """The JSON object that the body of a request is."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "InvalidReport", "the body is not JSON") from None
    if not isinstance(content, dict):
        raise Refused(400, "InvalidReport", f"the body is not a JSON object like {example}")
    return content


def bad_field(name: str, value: object, wanted: str) -> Refused:
    """The refusal of a field whose value is not what is wanted."""
    try:
        shown = repr(value)
    except RecursionError:
        shown = "a list of lists"
    return Refused(400, "InvalidReport", f"{name}: {shown[:40]} is not {wanted}")


def number_in(
    body: Mapping[str, object], name: str, largest: float, wanted: str, *, least: float = 0.0
) -> float | None:
    """A number from ``least`` to ``largest``; None where the field is absent."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_field(name, value, wanted)
    if not least <= value <= largest:  # nor if it is not a number; an integer may be too large for a float
        raise bad_field(name, value, wanted)
    return float(value)


def whole_in(body: Mapping[str, object], name: str, least: int = 0, largest: int = LARGEST) -> int | None:
    """A whole number; None where the field is absent."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
        raise bad_field(name, value, f"a whole number from {least} to {largest}")
    return value
