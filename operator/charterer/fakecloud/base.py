"""The base class of everything that is read from YAML or JSON."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel


class Written(BaseModel):
    """A frozen value with camelCase names outside; an unknown field is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


_SHOWN: Final = 5
"""Mistakes that are told; of more, the number is."""


def problems(error: ValidationError) -> str:
    """A validation error as one line: each field by its written name, what is wrong, and the value."""
    said = [
        f"{'.'.join(str(step) for step in detail['loc']) or 'value'}: {detail['msg']} (got {detail['input']!r:.80})"
        for detail in error.errors(include_url=False)
    ]
    more = len(said) - _SHOWN
    return "; ".join([*said[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
