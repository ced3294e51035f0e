"""Labels of objects: their keys, their values, and maps of both."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_NAME = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = rf"^([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}$"
_VALUE = f"^({_NAME})?$"


def _label_key(key: str) -> str:
    if re.fullmatch(_KEY, key) is None:
        raise ValueError(
            f"{key!r} is no key of a label: write letters, digits, '-', '_' and '.', at most 63, such as gpu or "
            "example.com/gpu"
        )
    return key


def _label_value(value: str) -> str:
    if re.fullmatch(_VALUE, value) is None:
        raise ValueError(f"{value!r} is no value of a label: write letters, digits, '-', '_' and '.', at most 63")
    return value


def is_label(key: str, value: str) -> bool:
    """Whether an object may have that label."""
    return re.fullmatch(_KEY, key) is not None and re.fullmatch(_VALUE, value) is not None


def _label_map(labels: dict[str, str]) -> dict[str, str]:
    return {_label_key(key): _label_value(value) for key, value in labels.items()}


LabelKey = Annotated[str, AfterValidator(_label_key), Field(max_length=317, json_schema_extra={"pattern": _KEY})]
"""The key of a label, with or without a prefix."""
LabelValue = Annotated[str, AfterValidator(_label_value), Field(max_length=63, json_schema_extra={"pattern": _VALUE})]
"""The value of a label; it may be empty."""
Labels = Annotated[
    dict[str, Annotated[str, Field(max_length=63, json_schema_extra={"pattern": _VALUE})]],
    Field(max_length=32),
    AfterValidator(_label_map),
]
"""Labels with their values."""
