"""The base class of everything that is read from YAML or JSON, and YAML files that a person names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml
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


_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_VALUES: Final = 1_000_000
"""Most values of a file with all its aliases (*name): a few lines of them may mean more than any memory has."""


class _CountedLoader(yaml.SafeLoader):
    """With an end of merges."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As in YAML, but merges (<<) of merges are counted: each line of them may multiply those before it."""
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > _MOST_VALUES:
            text = f"with its merges (<<) it has more than {_MOST_VALUES:,} values"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)


def read_yaml(path: Path) -> Any:
    """What the file says; ValueError names the file and says why it cannot be read."""
    if not path.is_file():
        raise ValueError(f"{path} is no regular file: save it as one first")
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES:,} bytes: give a smaller file")
    try:
        value = yaml.load(path.read_text("utf-8-sig"), Loader=_CountedLoader)
        _after(value, _MOST_VALUES)
        return value
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error


def _after(value: Any, left: int) -> int:
    """How many of the values that a file may have are left after this one; ValueError if none is."""
    left -= 1
    if left < 0:
        raise ValueError(f"with its aliases it has more than {_MOST_VALUES:,} values")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        left = _after(part, left)
    return left
