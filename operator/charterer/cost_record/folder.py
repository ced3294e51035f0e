"""A record of costs in a folder of a disk or volume."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, EINVAL, EIO, ELOOP, ENOENT, ENOSPC, ENOTDIR, ENOTSUP, EPERM, EROFS
from io import FileIO
from pathlib import Path
from secrets import token_hex
from typing import Final

from charterer.cost_record.places import RecordUnavailable, refuse_large

_ADVICE: Final = {
    ENOSPC: "make room there, or enlarge the volume",
    EDQUOT: "make room there, or raise the quota",
    EACCES: "give the user of this process the right to it",
    EPERM: "give the user of this process the right to it",
    EROFS: "mount the volume for writing",
    ENOENT: "mount the volume, or make the folder",
    ENOTDIR: "name a folder",
    EIO: "look at the disk",
    ELOOP: "move the link away that leads to itself",
}


class Folder:
    """A folder of a disk or volume. It must be there: one that is made where a volume is not mounted would be lost.

    Files of a disk come faster than they are decoded, so more threads would only take turns.
    """

    at_once = 1

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, content: bytes) -> None:
        """As the protocol says. Once this returns, the file outlives a power cut, as far as the disk keeps its word."""
        file = self._root / name
        with self._explained("be written"):
            self._root.stat()
            for folder in (file.parent.parent, file.parent):
                if not folder.is_dir():
                    folder.mkdir(exist_ok=True)
                    _sync(folder.parent)
            partial = file.parent / f".{token_hex(8)}.partial"
            try:
                with partial.open("xb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                partial.replace(file)
            except BaseException:
                with suppress(OSError):
                    partial.unlink()
                raise
            _sync(file.parent)

    def read(self, name: str) -> bytes:
        """As the protocol says."""
        with self._explained("be read"), FileIO(f"{self._root}/{name}") as stream:
            refuse_large(name, os.fstat(stream.fileno()).st_size)
            return stream.readall()

    def folders(self, name: str) -> Sequence[str]:
        """As the protocol says."""
        with self._explained("be read"):
            return [entry.name for entry in self._entries(name) if entry.is_dir()]

    def files(self, name: str) -> Sequence[str]:
        """As the protocol says."""
        with self._explained("be read"):
            return [f"{name}/{entry.name}" for entry in self._entries(name) if entry.is_file()]

    def _entries(self, name: str) -> Sequence[os.DirEntry[str]]:
        with self._explained("be read"):
            self._root.stat()
            try:
                with os.scandir(self._root / name) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                if name:
                    return []
                raise

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = "" if error.filename in (None, str(self._root)) else f" ({error.filename})"
            advice = _ADVICE.get(error.errno or 0, "look at the volume")
            cause = error.strerror or str(error)
            message = f"the record of costs in {self._root} cannot {done}: {cause}{where}; {advice}"
            raise RecordUnavailable(message) from error


def _sync(folder: Path) -> None:
    """Put the names of a folder's files on the disk, where the file system can."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):
            raise
    finally:
        os.close(handle)
