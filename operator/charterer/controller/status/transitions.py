"""Events of what changed in a view: waiting, refused and failing states, each told once, when it begins.

A transition is seen between the status that was read before a view is written and the view. So a new process tells
nothing twice, and what was never shown is never told.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import BOTTLENECKS
from charterer.api.models.gpubudget_status import BudgetState
from charterer.api.models.gpupool import PoolState
from charterer.api.models.trainingjob_status import MISLEADING_VARIABLES, JobState
from charterer.api.words.jobs import REASONS
from charterer.cluster.client import RawObject
from charterer.cluster.events import Recorder
from charterer.controller.status.subjects import Subjects, subjects
from charterer.domain.jobs.target import TargetRef
from charterer.domain.plan import ReasonCode

_Status = Mapping[str, Any]

_WAITING: Final = frozenset(
    {
        ReasonCode.WAITING_FOR_BUDGET,
        ReasonCode.WAITING_FOR_NODE,
        ReasonCode.WAITING_FOR_FREE_GPUS,
        ReasonCode.OPERATOR_LIMIT,
        ReasonCode.STOPPED,
        ReasonCode.POOL_FULL,
        ReasonCode.POOL_COOLING,
        ReasonCode.RENTAL_UNREADABLE,
        ReasonCode.PARENT_UNKNOWN,
        ReasonCode.BACK_OFF,
        ReasonCode.HOURLY_LIMIT,
        ReasonCode.HARD_LIMIT,
        ReasonCode.MAX_COST,
        ReasonCode.NOT_ASKED_YET,
        ReasonCode.NO_OPTION,
    }
)
"""Why a job may be Queued."""
_TOLD_OTHERWISE: Final = frozenset({BudgetState.DELETING, PoolState.DELETING, PoolState.COOLING, PoolState.UNKNOWN})
"""States whose beginning has an Event of its own, or is no news."""
_PAUSE_SECONDS: Final = 600.0
"""Seconds in which one reason is told of one object at most once: what goes back and forth must not fill the list."""
_REMEMBERED: Final = 10_000
"""Reasons of objects that are remembered for that."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The beginning of something: a CamelCase word, a sentence, and whether a person must act."""

    reason: str
    note: str
    warning: bool


def transitions(before: _Status, after: _Status) -> Iterator[Transition]:
    """The beginnings that the status ``after`` shows, of an object of any of Charterer's kinds."""
    for kind in (ConditionType.ADMITTED, ConditionType.READY):
        yield from _refused(kind, before, after)
    ready = _condition(after, ConditionType.READY)
    if _fails(_condition(before, ConditionType.READY)) and ready.get("status") == "True":
        yield Transition("Recovered", ready.get("message") or "ready again", warning=False)
    within = _condition(after, ConditionType.WITHIN_BUDGET)
    if after.get("state") == BudgetState.OVERSPENT != before.get("state"):
        yield Transition(BudgetState.OVERSPENT, within.get("message", ""), warning=True)
    elif _fails(within) and not _fails(_condition(before, ConditionType.WITHIN_BUDGET)):
        yield Transition(within["reason"], within["message"], warning=True)
    for kind in (ConditionType.STOPPED, ConditionType.PRICE_HELD, ConditionType.LEFT_RUNNING):
        now = _condition(after, kind)
        if now and now["reason"] != _condition(before, kind).get("reason"):
            yield Transition(now["reason"], now["message"], warning=True)
    yield from _failing(before, after)
    admitted = _condition(after, ConditionType.ADMITTED)
    if admitted.get("reason") == MISLEADING_VARIABLES != _condition(before, ConditionType.ADMITTED).get("reason"):
        yield Transition(MISLEADING_VARIABLES, admitted["message"], warning=True)
    yield from _limits(before, after)
    yield from _held_up(before, after)
    why = after.get("why", "")
    if after.get("state") == JobState.QUEUED and why in _WAITING and why != before.get("why"):
        message = _condition(after, ConditionType.CAPACITY_AVAILABLE).get("message", "")
        yield Transition(why, message, warning=REASONS[why].needs_person)
    if after.get("state") == JobState.RUNNING and why == ReasonCode.NO_OPTION != before.get("why"):
        yield Transition(why, _condition(after, ConditionType.CAPACITY_AVAILABLE).get("message", ""), warning=True)
    pods = _condition(after, ConditionType.PODS_READY)
    if pods.get("reason") == ReasonCode.NOT_STARTING != _condition(before, ConditionType.PODS_READY).get("reason"):
        yield Transition(ReasonCode.NOT_STARTING, pods["message"], warning=True)


def _limits(before: _Status, after: _Status) -> Iterator[Transition]:
    """A limit of the job's own can no longer be kept, or can again."""
    for kind in (ConditionType.ON_TARGET, ConditionType.WITHIN_MAX_COST):
        now, then = _condition(after, kind), _condition(before, kind)
        waits = after.get("state") == JobState.QUEUED and after.get("why") == now.get("reason")  # told as such
        if _fails(now) and not _fails(then) and not waits:
            yield Transition(now["reason"], now["message"], warning=True)
        if _fails(then) and now.get("status") == "True":
            yield Transition(now["reason"], now["message"], warning=False)


def _held_up(before: _Status, after: _Status) -> Iterator[Transition]:
    """Something begins to hold the job's run up."""
    for kind in sorted(BOTTLENECKS):
        now = _condition(after, kind)
        if now and not _condition(before, kind):
            yield Transition(now["reason"], now["message"], warning=True)


def _refused(kind: ConditionType, before: _Status, after: _Status) -> Iterator[Transition]:
    """The object cannot be used, and could before, or for another reason."""
    now, then = _condition(after, kind), _condition(before, kind)
    if not _fails(now) or after.get("state") in _TOLD_OTHERWISE:
        return
    if not _fails(then) or then["reason"] != now["reason"]:
        yield Transition(now["reason"], now["message"], warning=True)


def _condition(status: _Status, kind: ConditionType) -> Mapping[str, str]:
    conditions: list[Mapping[str, str]] = status.get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _fails(condition: Mapping[str, str]) -> bool:
    return condition.get("status") == "False"


def _failing(before: _Status, after: _Status) -> Iterator[Transition]:
    """Conditions that hold no more, and say with their reason what began."""
    for kind in (ConditionType.COSTS_RECORDED, ConditionType.CURRENCY_RATE_CURRENT, ConditionType.TEMPLATE_CURRENT):
        now = _condition(after, kind)
        if _fails(now) and not _fails(_condition(before, kind)):
            yield Transition(now["reason"], now["message"], warning=kind is not ConditionType.TEMPLATE_CURRENT)


class TransitionEvents:
    """Records an Event for each transition, unless what was done has been told by the same word just before.

    ``clock``: steady, in seconds.
    """

    def __init__(self, recorder: Recorder, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._clock = clock
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()

    def shown(self, kind: str, before: _Status, written: RawObject) -> None:
        """The object, whose status was ``before``, has been written."""
        told = _subjects(kind, written)
        for began in transitions(before, written["status"]):
            if self._is_news(written["metadata"]["uid"], began.reason):
                note = began.note or began.reason
                for subject in told:
                    if not self._recorder.said(subject, began.reason):
                        self._recorder.record(subject, began.reason, note, action="Observe", warning=began.warning)

    def _is_news(self, uid: str, reason: str) -> bool:
        now = self._clock()
        last = self._told.get((uid, reason))
        if last is not None and now < last + _PAUSE_SECONDS:
            return False
        self._told[uid, reason] = now
        self._told.move_to_end((uid, reason))
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return True


def _subjects(kind: str, raw: RawObject) -> Subjects:
    metadata, said = raw["metadata"], (raw.get("spec") or {}).get("targetRef")
    target = None if said is None else TargetRef(said["apiVersion"], said["kind"], said["name"], said["uid"])
    return subjects(kind, metadata["name"], metadata["uid"], metadata.get("namespace", ""), target)
