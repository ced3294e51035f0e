"""Numbers and names in sentences for a person."""

from __future__ import annotations

from collections.abc import Iterable


def count(amount: int, word: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{amount} {word}{'' if amount == 1 else 's'}"


def is_or_are(amount: int) -> str:
    """The verb after that many things."""
    return "is" if amount == 1 else "are"


def names(items: Iterable[str], most: int = 3) -> str:
    """The first few of them and how many more there are, for a sentence."""
    listed = sorted(items)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
