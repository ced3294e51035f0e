"""Cells of CSV that no spreadsheet executes."""

from __future__ import annotations

from typing import Final

_EXECUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of what spreadsheets take for a formula (OWASP, "CSV Injection")."""


def harmless(text: str) -> str:
    """The text with an apostrophe before it, where a spreadsheet would execute it; it shows the text then."""
    return f"'{text}" if text.startswith(_EXECUTED) else text
