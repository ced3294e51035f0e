"""CSV with cells that no spreadsheet executes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from charterer.sentences import visible

_EXECUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of what spreadsheets take for a formula (OWASP, "CSV Injection")."""


def harmless(text: str) -> str:
    """The text with an apostrophe before it, where a spreadsheet would execute it; it shows the text then.

    What a terminal would obey is an escape.
    """
    text = visible(text)
    return f"'{text}" if text.startswith(_EXECUTED) else text


def write_csv(header: Sequence[str], lines: Iterable[Sequence[str]], file: TextIO) -> None:
    """The lines below a header, as RFC 4180 with line feeds."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
