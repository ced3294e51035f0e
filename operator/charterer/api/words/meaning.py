"""The meaning of a word, and what a person can do about it."""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """``means``: one sentence. ``remedy``: what to do; empty where there is nothing to do."""

    means: str
    remedy: str = ""
