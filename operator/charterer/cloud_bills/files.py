"""What a file is, by its first bytes: Parquet, or CSV that may be packed with gzip."""

from __future__ import annotations

import csv
import gzip
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from charterer.cloud_bills.errors import UnreadableBill

_LONGEST_HEADER: Final = 1_000_000
"""Characters of a first line: CUR has 2,000 columns at most."""
_FOREIGN: Final = {
    b"PK\x03\x04": "this is a ZIP archive: unpack it first",
    b"\xff\xfe": "this is UTF-16: save it as UTF-8",
    b"\xfe\xff": "this is UTF-16: save it as UTF-8",
    b"\x28\xb5\x2f\xfd": "this is packed with Zstandard: unpack it first",
}


class Packing(StrEnum):
    """How a file's rows are written."""

    CSV = "csv"
    CSV_GZ = "csv.gz"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class BillFile:
    """A file of a bill; ``header``: the columns of a CSV file in their order, none of a Parquet file."""

    path: Path
    packing: Packing
    header: Sequence[str]


def recognised(path: Path) -> BillFile:
    """What the file is. UnreadableBill if it cannot be read, is empty, or is something else.

    A pipe is refused: it would be read twice, and one without a writer waits for ever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise UnreadableBill(path, "it is no regular file: save it first")
        with path.open("rb") as file:
            first = file.read(4)
    except OSError as error:
        raise UnreadableBill(path, f"it cannot be read: {error.strerror or error}") from error
    if not first:
        raise UnreadableBill(path, "it is empty: export or download it again")
    for magic, what in _FOREIGN.items():
        if first.startswith(magic):
            raise UnreadableBill(path, what)
    if first == b"PAR1":
        return BillFile(path, Packing.PARQUET, ())
    if path.suffix.lower() == ".parquet":
        raise UnreadableBill(path, "this is no Parquet file, whatever its name says: export or download it again")
    packed = first.startswith(b"\x1f\x8b")
    return BillFile(path, Packing.CSV_GZ if packed else Packing.CSV, _header(path, packed=packed))


def line_ends_differ(file: BillFile) -> bool:
    """Whether some lines of a CSV file end in CRLF and others in LF."""
    with gzip.open(file.path, "rb") if file.packing is Packing.CSV_GZ else file.path.open("rb") as opened:
        ends = (line.endswith(b"\r\n") for line in opened)
        first = next(ends, False)
        return any(end is not first for end in ends)


def _header(path: Path, *, packed: bool) -> Sequence[str]:
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableBill(path, "it ends in its middle, or is damaged: download it again") from error
    except UnicodeDecodeError as error:
        raise UnreadableBill(path, "its first line is not in UTF-8: give the cloud's own export", line=1) from error
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise UnreadableBill(path, f"its first line is no line of a CSV file ({error})", line=1) from error
