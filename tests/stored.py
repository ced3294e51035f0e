"""States of the cluster as a store hands them over: what did not change is the same object again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from charterer.controller.snapshot.cluster_state import ClusterState

Key = TypeVar("Key")
Value = TypeVar("Value")


def as_stored(now: ClusterState, before: ClusterState | None) -> ClusterState:
    """``now`` with all that equals the state ``before`` as the objects of that."""
    if before is None:
        return now
    mappings = [each.name for each in fields(ClusterState) if isinstance(getattr(now, each.name), Mapping)]
    changes: dict[str, Any] = {name: _kept(getattr(before, name), getattr(now, name)) for name in mappings}
    return replace(now, **changes)


def _kept(before: Mapping[Key, Value], now: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """``now`` with the objects of ``before`` where they are equal; ``before`` itself where all are."""
    merged = {key: before[key] if key in before and before[key] == value else value for key, value in now.items()}
    same = len(merged) == len(before) and all(before.get(key) is value for key, value in merged.items())
    return before if same else merged
