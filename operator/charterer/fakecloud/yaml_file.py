"""YAML files that a person names, which may be anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_MOST_BYTES: Final = 4 * 1024 * 1024


class _Loader(yaml.SafeLoader):
    """Without aliases: a few lines of them may mean more than any memory has, or have no end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "write it out, an alias (*name) is not read here", mark)
        return super().compose_node(parent, index)


def read_yaml(path: Path) -> Any:
    """What the file says; ValueError names the file and says why it cannot be read."""
    if not path.is_file():
        raise ValueError(f"{path} is no regular file: save it as one first")
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES:,} bytes: give a smaller file")
    try:
        return yaml.load(path.read_text("utf-8-sig"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error
