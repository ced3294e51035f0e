"""The base class of everything that is read from YAML or JSON, and YAML files that a person names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from charterer import bounded_yaml


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


def read_yaml(path: Path) -> Any:
    """What the file says; ValueError names the file and says why it cannot be read."""
    try:
        return bounded_yaml.read(path)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error
