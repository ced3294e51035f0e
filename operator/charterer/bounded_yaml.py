"""YAML files that a person names: what they mean is counted before anything else reads them.

An alias stands for a copy of what it names, and a merge (<<) for its fields, so that a few lines may mean more than any
memory has, or contain themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

MOST_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of a file that ``read`` reads: a kubeconfig of a thousand clusters has a third of it."""
MOST_VALUES: Final = 1_000_000
"""Most values of a file with all its aliases: an object of the API server has 1.5 MB at most."""


class UnboundedYAML(ValueError):
    """A file that means too much, or has no end. The message is the sentence's end that says why."""


class BoundedLoader(yaml.SafeLoader):
    """With an end of merges."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """As in YAML, but merges (<<) of merges are counted: each line of them may multiply those before it."""
        super().flatten_mapping(node)
        self._merged += len(node.value)
        if self._merged > MOST_VALUES:
            text = f"with its merges (<<) it has more than {MOST_VALUES:,} values"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)


def read(path: Path) -> Any:
    """The value of a YAML file. Raises UnboundedYAML, yaml.YAMLError, OSError and UnicodeDecodeError."""
    if path.exists() and not path.is_file():
        raise UnboundedYAML("it is no regular file: save it as one first")
    if path.stat().st_size > MOST_BYTES:
        raise UnboundedYAML(f"it has more than {MOST_BYTES:,} bytes: give a smaller file")
    try:
        value = yaml.load(path.read_text("utf-8-sig"), Loader=BoundedLoader)
        check(value)
    except RecursionError as error:
        raise UnboundedYAML("it is nested too deeply") from error
    return value


def check(value: Any) -> None:
    """UnboundedYAML for a value that contains itself, or has too many values with all its aliases."""
    _Count().of(value)


class _Count:
    def __init__(self) -> None:
        self._left = MOST_VALUES
        self._around: set[int] = set()

    def of(self, value: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnboundedYAML(f"with its aliases it has more than {MOST_VALUES:,} values")
        if not isinstance(value, dict | list):
            return
        if id(value) in self._around:
            raise UnboundedYAML("an alias in it names what it stands in")
        self._around.add(id(value))
        for part in value.values() if isinstance(value, dict) else value:
            self.of(part)
        self._around.discard(id(value))
