"""Whether a checkpoint is what was written: a CRC-32 and the size in bytes, in the name of an empty file beside it.

They find accidents (a file cut short, a bit that flipped; 1 in 4 billion is missed) and no forgery. An empty file needs
no room on a disk that is full, and its name appears at once or not at all.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

_SUFFIX = ".crc32"
_CHUNK = 1 << 22
"""Bytes read at a time: they stay in a processor's cache until they are summed."""


class Sum:
    """CRC-32 and number of bytes of a file, or of a folder's names and contents."""

    def __init__(self) -> None:
        self._crc = 0
        self._bytes = 0

    @classmethod
    def of(cls, path: Path) -> str:
        """Such as ``1f2e3d4c-1073741824``. OSError if something cannot be read."""
        total = cls()
        total._add(path, "")
        return f"{total._crc:08x}-{total._bytes}"

    def _add(self, path: Path, name: str) -> None:
        if path.is_symlink():
            self._text(f"{name}\0link\0{os.readlink(path)}")
        elif path.is_dir():
            self._text(f"{name}\0folder")
            for entry in sorted(os.listdir(path)):
                self._add(path / entry, f"{name}/{entry}")
        else:
            self._text(f"{name}\0file")
            self._file(path)

    def _text(self, text: str) -> None:
        self._crc = zlib.crc32(os.fsencode(text) + b"\0", self._crc)

    def _file(self, path: Path) -> None:
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                self._crc = zlib.crc32(view[:count], self._crc)
                self._bytes += count


def _size(path: Path) -> int:
    if path.is_symlink():
        return 0
    if path.is_dir():
        return sum(_size(entry) for entry in path.iterdir())
    return path.stat().st_size


def _recorded(path: Path) -> Iterator[tuple[Path, str]]:
    """The files that hold sums of ``path``, with the sums: two where a save was killed while it replaced ``path``."""
    begin = f".{path.name}."
    for entry in os.listdir(path.parent):
        if entry.startswith(begin) and entry.endswith(_SUFFIX):
            total = entry[len(begin) : -len(_SUFFIX)]
            if total.count("-") == 1 and "." not in total:
                yield path.parent / entry, total


def record(path: Path, total: str) -> Path:
    """Say that ``path``, which need not be there yet, is what has this sum. Sums of what it was before stay."""
    note = path.with_name(f".{path.name}.{total}{_SUFFIX}")
    note.touch()
    return note


def forget(path: Path, but: Path | None = None) -> None:
    """Remove the sums of ``path``, except ``but``."""
    for note, _ in _recorded(path):
        if note != but:
            note.unlink()


def has_sum(path: Path) -> bool:
    """Whether a sum of ``path`` was recorded."""
    return any(True for _ in _recorded(path))


def is_good(path: Path) -> bool | None:
    """Whether ``path`` has a sum that was recorded for it; None where none was. OSError if it cannot be read."""
    sums = {total for _, total in _recorded(path)}
    if not sums:
        return None
    if str(_size(path)) not in {total.partition("-")[2] for total in sums}:
        return False
    return Sum.of(path) in sums


def remove_orphans(directory: Path) -> None:
    """Remove the sums of checkpoints that are no longer there."""
    for note in directory.glob(f".*{_SUFFIX}"):
        name, _, total = note.name[1 : -len(_SUFFIX)].rpartition(".")
        if total.count("-") == 1 and not os.path.lexists(directory / name):
            note.unlink()
