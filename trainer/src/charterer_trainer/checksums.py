"""Checksums of checkpoints: a CRC-32 and the size in bytes, in the name of an empty file beside the checkpoint.

Checksums detect accidents such as a truncated file or a flipped bit (1 in 4 billion is missed), but no forgery. An
empty file needs no space on a full disk, and its name appears atomically.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_SUFFIX = ".crc32"
_READERS = 8
"""Number of files that are read at a time. Threads help, because zlib and disk reads release Python's lock."""
_CHUNK = 1 << 22
"""Bytes that are read at a time. This many bytes stay in the processor's cache until they are summed."""


def sum_of(path: Path) -> str:
    """A checksum such as ``1f2e3d4c-1073741824``, of a file, or of a folder's names and contents. Raises OSError."""
    entries = list(_entries(path, ""))
    files = [entry for entry, _, kind in entries if kind == "file"]
    with ThreadPoolExecutor(max(1, min(_READERS, len(files)))) as readers:
        of_files = iter(list(readers.map(_file, files)))
    total, size = 0, 0
    for entry, name, kind in entries:
        content = ""
        if kind == "file":
            crc, count = next(of_files)
            content = f"{crc:08x}-{count}"
            size += count
        elif kind == "link":
            content = os.readlink(entry)
        total = zlib.crc32(os.fsencode(f"{name}\0{kind}\0{content}\0"), total)
    return f"{total:08x}-{size}"


def _entries(path: Path, name: str) -> Iterator[tuple[Path, str, str]]:
    """The entries of ``path`` in a fixed order: path, name relative to the whole, and kind."""
    if path.is_symlink():
        yield path, name, "link"
    elif path.is_dir():
        yield path, name, "folder"
        for entry in sorted(os.listdir(path)):
            yield from _entries(path / entry, f"{name}/{entry}")
    else:
        yield path, name, "file"


def _file(path: Path) -> tuple[int, int]:
    """CRC-32 and size in bytes of a file."""
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    crc, size = 0, 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            crc = zlib.crc32(view[:count], crc)
            size += count
    return crc, size


def _size(path: Path) -> int:
    if path.is_symlink():
        return 0
    if path.is_dir():
        return sum(_size(entry) for entry in path.iterdir())
    return path.stat().st_size


def _recorded(path: Path) -> Iterator[tuple[Path, str]]:
    """The files with checksums of ``path``. If a save was killed while it replaced ``path``, there are two of them."""
    begin = f".{path.name}."
    for entry in os.listdir(path.parent):
        if entry.startswith(begin) and entry.endswith(_SUFFIX):
            total = entry[len(begin) : -len(_SUFFIX)]
            if total.count("-") == 1 and "." not in total:
                yield path.parent / entry, total


def record(path: Path, total: str) -> Path:
    """Record this checksum for ``path``, which need not exist yet. Checksums of former contents of ``path`` stay."""
    note = path.with_name(f".{path.name}.{total}{_SUFFIX}")
    note.touch()
    return note


def forget(path: Path, but: Path | None = None) -> None:
    """Remove the checksums of ``path``, except ``but``."""
    for note, _ in _recorded(path):
        if note != but:
            note.unlink()


def has_sum(path: Path) -> bool:
    """Whether a checksum of ``path`` was recorded."""
    return any(True for _ in _recorded(path))


def is_good(path: Path) -> bool | None:
    """Whether ``path`` matches a recorded checksum, or None if no checksum is recorded. Raises OSError if ``path``
    cannot be read.
    """
    sums = {total for _, total in _recorded(path)}
    if not sums:
        return None
    if str(_size(path)) not in {total.partition("-")[2] for total in sums}:
        return False
    return sum_of(path) in sums


def remove_orphans(directory: Path) -> None:
    """Remove the checksums of checkpoints that no longer exist."""
    for note in directory.glob(f".*{_SUFFIX}"):
        name, _, total = note.name[1 : -len(_SUFFIX)].rpartition(".")
        if total.count("-") == 1 and not os.path.lexists(directory / name):
            note.unlink()
