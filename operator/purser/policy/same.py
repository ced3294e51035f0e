"""What is the same object as before is the same thing: snapshots are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def changed(now: Mapping[Key, Value], before: Mapping[Key, Value]) -> list[Key]:
    """The keys of what is new or another object than before."""
    if now is before:
        return []
    was = map(before.get, now)
    return [key for key, one, old in zip(now, now.values(), was, strict=True) if one is not old]
