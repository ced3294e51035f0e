"""Atomic checkpoints: written beside their name, checksummed, then renamed.

A checkpoint exists completely or not at all.
"""

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
"""Seconds between two checkpoints if Charterer advises no interval. So at most half an hour of work is lost."""
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
                with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
                    found.append((_age_order(path), path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for _, path in sorted(found, reverse=True)]


def latest_checkpoint(directory: StrPath, pattern: str = "*", *, summed: bool = False) -> Path | None:
    """The newest good checkpoint (file or folder) directly in ``directory``, or None if there is none.

    The newest checkpoint has the highest last number in its name (``step-1200.pt``). Times are not compared first,
    because clocks of machines differ. If numbers are equal or absent, the checkpoint that was modified last is the
    newest. Names that begin with ``.`` or end in ``.partial`` or ``.tmp`` are incomplete. If the folder has other
    contents too, ``pattern`` is a glob for the checkpoints.

    A checkpoint of ``save_atomically`` is read and compared with its checksum. If it differs, or cannot be read, it is
    skipped with a warning in the log, and the checkpoint before it is tried. A file without a checksum counts as good.
    With ``summed`` such a file is skipped, because it may be left over from a killed save of another library.
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
    """Record the checksum of a checkpoint (file or folder) that another library wrote in place and has completed.

    The checkpoint's contents are synced to disk first. Then ``latest_checkpoint(…, summed=True)`` can return the
    checkpoint. It never returns an unsealed one. Call this on one rank, after all ranks have written.
    """
    target = Path(path)
    _sync_tree(target)
    note = checksums.record(target, checksums.sum_of(target))
    checksums.forget(target, but=note)
    _sync(target.parent)
    saves.wrote(target)


def remove_old_checkpoints(directory: StrPath, keep: int, pattern: str = "*") -> None:
    """Remove checkpoints of ``save_atomically`` directly in ``directory``, except the newest ``keep`` good ones.

    Call this on one rank, after a save. Files without a checksum are neither counted nor removed. A checkpoint is
    removed only after ``keep`` newer checkpoints were found good, so the last good checkpoint always stays. Raises
    ValueError if ``keep`` is below 1.
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
    """Rename the checkpoint before deleting it, because a half-deleted folder must not look like a checkpoint."""
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
    """The saves of this process. ``seconds`` is the duration of the last save, ``total_seconds`` that of all saves
    together.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._own: dict[Path, tuple[int, int, int]] = {}
        self.seconds: float | None = None
        self.total_seconds = 0.0

    def wrote(self, path: Path) -> None:
        """Record that this process saved ``path``."""
        self._own[path.absolute()] = _identity(path)

    def is_own(self, path: Path) -> bool:
        """Whether this process saved ``path``, and nobody has modified ``path`` since."""
        return self._own.get(path.absolute()) == _identity(path)

    @contextmanager
    def save(self) -> Iterator[None]:
        """Measure the time of a save. A failed save adds its time, but does not count as a save."""
        begin = self._clock()
        try:
            yield
        finally:
            took = self._clock() - begin
            self.total_seconds += took
        self.saved(took)

    def saved(self, seconds: float) -> None:
        """Record that a save of this many seconds has ended now."""
        self._since = self._clock()
        self.seconds = seconds

    def due(self, every: float | None) -> bool:
        """Whether the last save was at least ``every`` seconds ago. Before the first save, the start counts. None means
        the default interval.
        """
        return self._clock() - self._since >= (DEFAULT_INTERVAL_SECONDS if every is None else every)


saves = SaveClock()
"""The saves of this process."""


@contextmanager
def save_atomically(path: StrPath) -> Iterator[Path]:
    """Yield a path to which you write a file, or at which you create a folder. At the end of the block, it is renamed
    to ``path`` atomically.

    The contents are synced to disk before the rename. The checksum of the contents is recorded, so that
    ``latest_checkpoint`` detects later damage. If the block raises or the disk is full, the written data are removed
    and an older ``path`` stays. Every process that saves needs its own ``path``. Raises OSError if nothing was written.
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
            # without this, the old checkpoint would fail after a crash
            checksums.record(target, checksums.sum_of(target))
        note = checksums.record(target, checksums.sum_of(partial))
        _sync(target.parent)  # every checkpoint with its final name has its checksum
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
    """Move the old folder to ``old`` first, because a folder cannot be renamed onto a folder with contents."""
    try:
        os.replace(target, old)
        os.replace(new, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.replace(old, target)
        raise


def remove_partials(directory: StrPath) -> None:
    """Remove the leftovers of killed saves, and the checksums of checkpoints that no longer exist.

    Call this at the start, on one rank, before any save. If the save of a folder was killed while it replaced an older
    folder, the new folder was complete. So it is renamed to its final name instead of removed.
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
    if path.is_symlink():  # the target may be missing or contain the link; the sync of the link's folder covers it
        return
    if path.is_dir():
        for entry in path.iterdir():
            _sync_tree(entry)
    _sync(path)
