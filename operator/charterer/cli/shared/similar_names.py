"""Suggestions for a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from charterer.sentences import is_or_are


def similar_names(name: str, existing: Iterable[str]) -> str:
    """The end of an error message about a missing name: similar names, or otherwise the first eight that exist."""
    names = sorted(existing)
    similar = get_close_matches(name, names, n=3, cutoff=0.5)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    if not names:
        return "there is none"
    return f"there {is_or_are(len(names))} {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}"
