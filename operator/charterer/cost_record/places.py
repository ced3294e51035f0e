"""What a place for a record of costs can do, and why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol


class RecordUnavailable(Exception):
    """The record cannot be written or read; the message is a sentence with place, cause and what to do."""


MOST_BYTES: Final = 256 * 1024 * 1024
"""Most bytes of a file that is read: what the operator writes at once is far smaller."""


def refuse_large(name: str, size: int) -> None:
    """RecordUnavailable for a file that is too large to be one of the record."""
    if size > MOST_BYTES:
        raise RecordUnavailable(
            f"{name} in the record of costs has {size:,} bytes, which is no file of it: move it away"
        )


class RecordPlace(Protocol):
    """Files below a place, by names with slashes. All methods block, and raise RecordUnavailable.

    ``at_once``: threads that may read at a time.
    """

    at_once: int

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which nobody ever sees in part. What a file of that name has is the same content."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def folders(self, name: str) -> Sequence[str]:
        """The names of the folders in a folder (the empty name: the place itself); none if there is no such folder."""

    def files(self, name: str) -> Sequence[str]:
        """The names of the files in a folder, each with the folder's; none if there is no such folder."""
