"""When a status says something noticeably new: numbers drift all the time, and not every drift is worth a write."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any


def differs_by(ratio: float, new: Any, old: Any, ignored: AbstractSet[str] = frozenset()) -> bool:
    """Whether two JSON values differ, numbers (also those in strings) by more than ``ratio`` of the larger one.

    ``ignored``: keys of objects that do not count, at any depth.
    """
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        keys = (new.keys() | old.keys()) - ignored
        return any(differs_by(ratio, new.get(key), old.get(key), ignored) for key in keys)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) != len(old) or any(differs_by(ratio, a, b, ignored) for a, b in zip(new, old, strict=True))
    if new == old:
        return False
    try:
        a, b = float(new), float(old)
    except (TypeError, ValueError):
        return True
    return abs(a - b) > ratio * max(abs(a), abs(b))
