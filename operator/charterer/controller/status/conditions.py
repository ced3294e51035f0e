"""Conditions: an observation keeps the time of its last change for as long as its status stays the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from charterer.api.view import Condition, ConditionStatus, ConditionType
from charterer.domain.time import Instant


def condition(kind: ConditionType, holds: bool | None, reason: str, message: str, now: Instant) -> Condition:
    """One observation made now; ``holds`` None is unknown."""
    status = ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return Condition(kind, status, reason, message, now)


def dated(conditions: Iterable[Condition], before: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions with ``since`` taken from those before where the status is unchanged."""
    known = {one.type: one for one in before}
    return tuple(
        replace(one, since=known[one.type].since) if one.type in known and known[one.type].status == one.status else one
        for one in conditions
    )
