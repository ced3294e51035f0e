"""Checkpoints that are either there completely or not at all: written beside their name, renamed when they are done."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

StrPath = Union[str, "os.PathLike[str]"]

DEFAULT_INTERVAL_SECONDS = 1800.0
"""Seconds between two checkpoints where Charterer says nothing: half an hour of work is at stake."""
_PARTIAL = ".partial"
_REPLACED = ".replaced"
_NUMBERS = re.compile(r"\d+")


def _is_partial(name: str) -> bool:
    return name.startswith(".") or name.endswith((_PARTIAL, ".tmp"))


def _age_order(path: Path) -> tuple[int, int]:
    numbers = _NUMBERS.findall(path.stem)
    return (int(numbers[-1]) if numbers else -1, path.stat().st_mtime_ns)


def latest_checkpoint(directory: StrPath, pattern: str = "*") -> Path | None:
    """The newest complete checkpoint (file or folder) directly in ``directory``; None when there is none.

    Newest is the highest last number in the name (``step-1200.pt``), because clocks of machines differ; among equals
    or names without numbers, the last modified. Names that begin with ``.`` or end in ``.partial`` or ``.tmp`` are
    not complete. ``pattern`` is a glob for folders that hold other things too.
    """
    found: list[tuple[tuple[int, int], Path]] = []
    try:
        for path in Path(directory).glob(pattern):
            if not _is_partial(path.name):
                try:
                    found.append((_age_order(path), path))
                except FileNotFoundError:  # removed by somebody else meanwhile
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return None
    return max(found)[1] if found else None


class SaveClock:
    """When this process saved last, and how long that took."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds: float | None = None

    @contextmanager
    def save(self) -> Iterator[None]:
        """Time a save; one that fails does not count."""
        begin = self._clock()
        yield
        self._since = self._clock()
        self.seconds = self._since - begin

    def due(self, every: float | None) -> bool:
        """Whether the last save, or the start, was that many seconds ago; None: the default."""
        return self._clock() - self._since >= (DEFAULT_INTERVAL_SECONDS if every is None else every)


saves = SaveClock()
"""The saves of this process."""


@contextmanager
def save_atomically(path: StrPath) -> Iterator[Path]:
    """Yields a path to write to (a file, or a folder that you create); at the end it becomes ``path`` at once.

    The contents are on the disk before the name is. When the block raises, what it wrote is removed and an older
    ``path`` stays. Every process that saves needs a ``path`` of its own. OSError when nothing was written.
    """
    with saves.save(), _atomically(Path(path)) as partial:
        yield partial


@contextmanager
def _atomically(target: Path) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    workspace = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_PARTIAL, dir=target.parent))
    try:
        partial = workspace / target.name
        yield partial
        if not partial.exists():
            raise FileNotFoundError(f"nothing was written to {partial}; write the checkpoint to the path you are given")
        _sync_tree(partial)
        if partial.is_dir() and target.exists():
            _replace_folder(target, partial, workspace / _REPLACED)
        else:
            os.replace(partial, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _replace_folder(target: Path, new: Path, old: Path) -> None:
    """A folder cannot be renamed onto one with contents, so the old one is moved to ``old`` first."""
    try:
        os.replace(target, old)
        os.replace(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.replace(old, target)
        raise


def remove_partials(directory: StrPath) -> None:
    """Remove what saves that were killed left behind. Call it at the start, on one rank, before anybody saves.

    A save of a folder that was killed while it replaced an older one was complete: its folder gets its name.
    """
    for workspace in Path(directory).glob(f".*{_PARTIAL}"):
        if (workspace / _REPLACED).exists():
            for new in [path for path in workspace.iterdir() if path.name != _REPLACED]:
                if not (target := Path(directory) / new.name).exists():
                    os.replace(new, target)
        shutil.rmtree(workspace, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network and FUSE file systems cannot sync a folder
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _sync_tree(path: Path) -> None:
    if path.is_symlink():  # its target may be missing, or be a folder that holds it; the link is in its folder
        return
    if path.is_dir():
        for entry in path.iterdir():
            _sync_tree(entry)
    _sync(path)
