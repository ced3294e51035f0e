"""A YAML reader for files from users, which limits the number of values before anything else uses them.

An alias stands for a copy of its anchor, and a merge (<<) for the fields of a mapping. So a few lines may stand for
more values than fit in memory, or contain themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a file. A kubeconfig of a thousand clusters has a third of that."""
MOST_VALUES: Final = 1_000_000
"""Maximum number of values of a file with all its aliases expanded. An object of the API server has 1.5 MB at most."""


class UnboundedYAML(ValueError):
    """A file that is too large when expanded, or infinite. The message is the end of a sentence that says why."""


class BoundedLoader(yaml.SafeLoader):
    """A YAML loader that limits merges."""

    _merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Expand merges (<<) as YAML does, but count their values, because each line of merges may multiply the
        previous ones."""
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
    """UnboundedYAML if a value contains itself, or has too many values with all its aliases expanded."""
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
