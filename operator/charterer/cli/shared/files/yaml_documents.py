"""YAML as kubectl reads it (sigs.k8s.io/yaml): what JSON has, without dates and numbers of base 60."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import click
import yaml

from charterer.bounded_yaml import BoundedLoader, UnboundedYAML, check

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_NUMBERS: Final = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


class _Loader(BoundedLoader):
    """Without YAML 1.1's dates and numbers of base 60, such as 22:00; with 1e3."""


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
        found = list(yaml.load_all(text, Loader=_Loader))
        check(found)
        return [_plain(each) for each in found]
    except (_Unusable, UnboundedYAML) as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error
    except RecursionError as error:
        raise click.ClickException(f"{name} cannot be used: it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise click.ClickException(f"{name} is no YAML: {' '.join(str(error).split())}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise click.ClickException(f"{name} cannot be used: {error}") from error


class _Unusable(Exception):
    """The sentence's end says why."""


def _plain(value: Any) -> Any:
    """The value with a copy in place of each alias."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_key(key): _plain(each) for key, each in value.items()}
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
