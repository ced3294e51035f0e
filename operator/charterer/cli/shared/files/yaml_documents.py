"""YAML as kubectl reads it (sigs.k8s.io/yaml): what JSON has, without dates and numbers of base 60.

An alias stands for a copy of what it names, so that a few lines may mean more than any memory has: that is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import click
import yaml

_MOST_VALUES: Final = 1_000_000
"""Most values of one file with all its aliases: an object of the API server has 1.5 MB at most."""
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_NUMBERS: Final = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


class _Loader(yaml.SafeLoader):
    """Without YAML 1.1's dates and numbers of base 60, such as 22:00; with 1e3."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As in YAML, but merges (<<) of merges are counted: each line of them may multiply those before it."""
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > _MOST_VALUES:
            text = f"with its merges (<<) it has more than {_MOST_VALUES:,} values"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP and tag not in _NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
    list("-+0123456789."),
)


def documents(name: str, text: str) -> Sequence[Any]:
    """The documents of a file as JSON has them. ClickException names the file and says why they cannot be read."""
    try:
        return [_Plain().of(found) for found in yaml.load_all(text, Loader=_Loader)]
    except _Unusable as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error
    except RecursionError as error:
        raise click.ClickException(f"{name} cannot be used: it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise click.ClickException(f"{name} is no YAML: {' '.join(str(error).split())}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error


class _Unusable(Exception):
    """The sentence's end says why."""


class _Plain:
    """Values without aliases, counted."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._around: set[int] = set()

    def of(self, value: Any) -> Any:
        """The value with a copy in place of each alias."""
        self._left -= 1
        if self._left < 0:
            raise _Unusable(f"with its aliases it has more than {_MOST_VALUES:,} values")
        if isinstance(value, dict | list):
            if id(value) in self._around:
                raise _Unusable("an alias in it names what it stands in")
            self._around.add(id(value))
            try:
                if isinstance(value, list):
                    return [self.of(each) for each in value]
                return {_key(key): self.of(each) for key, each in value.items()}
            finally:
                self._around.discard(id(value))
        if isinstance(value, float) and not math.isfinite(value):
            raise _Unusable(f"{value} is no number that an object can have")
        if value is None or isinstance(value, str | int | float):
            return value
        raise _Unusable(f"a {type(value).__name__} is nothing that an object can have")


def _key(key: Any) -> str:
    """A field's name, as kubectl makes one of a number."""
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str | int | float):
        return str(key)
    raise _Unusable(f"{key!r:.40} is no name of a field")
