"""Conditions: the time of a condition's last transition is kept for as long as its status stays the same."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.names import ANNOTATION_STOP
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import Instant


def condition(
    kind: ConditionType, holds: bool | None, reason: str, message: str, now: Instant, generation: int
) -> Condition:
    """A condition as observed now, by a spec of this generation; ``holds`` None is unknown."""
    status = ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=generation,
    )


def stop_in_words(stop: Stop) -> str:
    """What a stopped operator does."""
    return "nothing is rented and all nodes are ended" if stop is Stop.DRAIN else "nothing is rented"


def stopped(snapshot: Snapshot, generation: int) -> tuple[Condition, ...]:
    """The condition of a budget or pool that a person has stopped the operator; none while it is not stopped."""
    if snapshot.stop is None:
        return ()
    resumed = f"`charterer resume`, which takes the annotation {ANNOTATION_STOP} from the operator's Namespace"
    message = f"a person has stopped the operator: {stop_in_words(snapshot.stop)} until {resumed}"
    reason = "Drained" if snapshot.stop is Stop.DRAIN else "NothingRented"
    return (condition(ConditionType.STOPPED, True, reason, message, snapshot.now, generation),)


def dated(conditions: Iterable[Condition], before: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions; where the status is what it was ``before``, with the time of its last transition from there."""
    earlier = {(condition.type, condition.status): condition.last_transition_time for condition in before}
    return tuple(
        condition
        if (since := earlier.get((condition.type, condition.status))) is None
        else condition.model_copy(update={"last_transition_time": since})
        for condition in conditions
    )
