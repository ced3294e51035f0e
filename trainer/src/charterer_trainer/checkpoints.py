"""Checkpoints that are there completely or not at all: written beside their name, summed, then renamed."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

from charterer_trainer import checksums

log = logging.getLogger("charterer_trainer")

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


def _newest_first(directory: Path, pattern: str) -> list[Path]:
    found: list[tuple[tuple[int, int], Path]] = []
    try:
        for path in directory.glob(pattern):
            if not _is_partial(path.name):
                with contextlib.suppress(FileNotFoundError):  # removed by somebody else meanwhile
                    found.append((_age_order(path), path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for _, path in sorted(found, reverse=True)]


def latest_checkpoint(directory: StrPath, pattern: str = "*", *, summed: bool = False) -> Path | None:
    """The newest good checkpoint (file or folder) directly in ``directory``; None when there is none.

    Newest is the highest last number in the name (``step-1200.pt``), because clocks of machines differ; among equals
    or names without numbers, the last modified. Names that begin with ``.`` or end in ``.partial`` or ``.tmp`` are
    not complete. ``pattern`` is a glob for folders that hold other things too.

    A checkpoint of ``save_atomically`` is read and compared with its sum. One that differs, or cannot be read, is left
    out with a warning in the log, and the one before it is the answer. Files without a sum are believed, unless
    ``summed``: then they are left out, as what a killed save of another library left behind.
    """
    for path in _newest_first(Path(directory), pattern):
        try:
            good = checksums.is_good(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("checkpoint %s cannot be read (%s): taking the one before it", path, error)
            continue
        if good or (good is None and not summed):
            return path
        if good is None:
            continue
        log.warning("checkpoint %s is not what was saved (its sum differs): taking the one before it", path)
    return None


def seal_checkpoint(path: StrPath) -> None:
    """Record the sum of a checkpoint (file or folder) that another library wrote to its place and has completed.

    Its contents are on the disk afterwards. ``latest_checkpoint(…, summed=True)`` finds it, and never one that was not
    sealed. Call it on one rank, when all of them have written.
    """
    target = Path(path)
    _sync_tree(target)
    note = checksums.record(target, checksums.sum_of(target))
    checksums.forget(target, but=note)
    _sync(target.parent)
    saves.wrote(target)


def remove_old_checkpoints(directory: StrPath, keep: int, pattern: str = "*") -> None:
    """Remove what ``save_atomically`` saved directly in ``directory``, but for the newest ``keep`` good ones.

    Call it on one rank, after a save. Files that have no sum are neither counted nor removed. Nothing is removed before
    ``keep`` others have been found good, so the last good checkpoint always stays. ValueError if ``keep`` is below 1.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}, and at least the newest checkpoint must stay")
    good = 0
    for path in _newest_first(Path(directory), pattern):
        if not checksums.has_sum(path):
            continue
        if good >= keep:
            _remove(path)
        elif saves.is_own(path) or _is_readable_and_good(path):
            good += 1


def _is_readable_and_good(path: Path) -> bool:
    try:
        return checksums.is_good(path) is True
    except OSError:
        return False


def _remove(path: Path) -> None:
    """What is half removed must not look like a checkpoint."""
    gone = path.with_name(f".{path.name}{_PARTIAL}")
    _discard(gone)
    os.replace(path, gone)
    checksums.forget(path)
    _discard(gone)


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


class SaveClock:
    """What this process saved, when it saved last, and how long saving took: ``seconds`` the last time, and in all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._own: dict[Path, tuple[int, int, int]] = {}
        self.seconds: float | None = None
        self.total_seconds = 0.0

    def wrote(self, path: Path) -> None:
        """This process saved ``path``."""
        self._own[path.absolute()] = _identity(path)

    def is_own(self, path: Path) -> bool:
        """Whether this process saved ``path``, and nobody has touched it since."""
        return self._own.get(path.absolute()) == _identity(path)

    @contextmanager
    def save(self) -> Iterator[None]:
        """Time a save. One that fails took its time, but does not count as a save."""
        begin = self._clock()
        try:
            yield
        finally:
            took = self._clock() - begin
            self.total_seconds += took
        self.saved(took)

    def saved(self, seconds: float) -> None:
        """A save that took that long has ended now."""
        self._since = self._clock()
        self.seconds = seconds

    def due(self, every: float | None) -> bool:
        """Whether the last save, or the start, was that many seconds ago; None: the default."""
        return self._clock() - self._since >= (DEFAULT_INTERVAL_SECONDS if every is None else every)


saves = SaveClock()
"""The saves of this process."""


@contextmanager
def save_atomically(path: StrPath) -> Iterator[Path]:
    """Yields a path to write to (a file, or a folder that you create); at the end it becomes ``path`` at once.

    The contents are on the disk before the name is, and their sum is recorded, by which ``latest_checkpoint`` knows a
    checkpoint that was damaged later. When the block raises, or the disk is full, what it wrote is removed and an older
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
        if target.exists() and not checksums.has_sum(target):
            checksums.record(target, checksums.sum_of(target))  # or the new sum would condemn it, if this ends here
        note = checksums.record(target, checksums.sum_of(partial))
        _sync(target.parent)  # a checkpoint that has its name has its sum
        if partial.is_dir() and target.exists():
            _replace_folder(target, partial, workspace / _REPLACED)
        else:
            os.replace(partial, target)
        _sync(target.parent)
        checksums.forget(target, but=note)
        saves.wrote(target)
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
    """Remove what saves that were killed left behind, and the sums of checkpoints that are gone.

    Call it at the start, on one rank, before anybody saves.
    A save of a folder that was killed while it replaced an older one was complete: its folder gets its name.
    """
    for workspace in Path(directory).glob(f".*{_PARTIAL}"):
        if (workspace / _REPLACED).exists():
            for new in [path for path in workspace.iterdir() if path.name != _REPLACED]:
                if not (target := Path(directory) / new.name).exists():
                    os.replace(new, target)
        _discard(workspace)
    checksums.remove_orphans(Path(directory))


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
