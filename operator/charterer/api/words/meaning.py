"""The meaning of a word, and what a person can do about it."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """``means``: one sentence. ``remedy``: what to do; empty where there is nothing to do.

    ``needs_person``: what it is said of does not go on by itself, or not as it should.
    """

    means: str
    remedy: str = ""
    needs_person: bool = False
