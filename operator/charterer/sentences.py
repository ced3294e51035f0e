"""Numbers and names in sentences for a person."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain
from typing import Final


def count(amount: int, word: str) -> str:
    """A number with its noun: ``1 node``, ``2 nodes``."""
    return f"{amount} {word}{'' if amount == 1 else 's'}"


def is_or_are(amount: int) -> str:
    """The verb for a subject of that number."""
    return "is" if amount == 1 else "are"


def names(items: Iterable[str], most: int = 3) -> str:
    """The first ``most`` items in sorted order, and the number of further ones, for a sentence."""
    listed = sorted(items)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def visible(text: str) -> str:
    r"""The text with escapes (``\u001b``) for all characters that a terminal would interpret instead of showing.

    These are control characters (C0 except line break and tab, DEL, C1), characters that change the text direction
    (Unicode Standard Annex 9), line and paragraph separators, and characters without width.
    """
    return text.translate(_OBEYED)


_OBEYED: Final = {
    code: f"\\u{code:04x}"
    for code in chain(
        set(range(0x20)) - {ord("\n"), ord("\t")},
        range(0x7F, 0xA0),
        (0x061C, 0xFEFF),
        range(0x200B, 0x2010),
        range(0x2028, 0x202F),
        range(0x2060, 0x2070),
    )
}
"""Escapes by code point, in JSON's syntax. JSON output contains such characters only within strings."""


def did_you_mean(name: str, existing: Iterable[str]) -> str:
    """``did you mean vit or vits?``: existing names that are similar or contain the name, ignoring case; or empty."""
    there = {each.casefold(): each for each in sorted(existing)}
    asked = name.casefold()
    similar = [there[each] for each in get_close_matches(asked, there, n=3, cutoff=0.5)]
    containing = [each for lower, each in there.items() if asked and asked in lower]
    found = list(dict.fromkeys(similar + containing))[:3]
    return f"did you mean {' or '.join(found)}?" if found else ""


def nearest(word: str, known: Iterable[str], prefix: str) -> str:
    """``did you mean charterer.dev/gpus?``: the most similar known word with the prefix; empty if none is similar."""
    rest = [each.removeprefix(prefix) for each in known]
    near = get_close_matches(word.removeprefix(prefix), rest, 1, cutoff=0.6)
    return f"did you mean {prefix}{near[0]}?" if near else ""


def similar_names(name: str, existing: Iterable[str]) -> str:
    """The end of an error message about a missing name: similar names, or else the first eight existing names."""
    listed = sorted(existing)
    if hint := did_you_mean(name, listed):
        return hint
    if not listed:
        return "there is none"
    return f"there {is_or_are(len(listed))} {', '.join(listed[:8])}{' and more' if len(listed) > 8 else ''}"
