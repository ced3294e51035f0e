"""Kubernetes Events for users, on decisions about jobs and on changes of nodes."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charterer.api.manifests import EventSubject
from charterer.api.models.base import BOTTLENECKS
from charterer.api.models.gpubudget_status import BudgetState
from charterer.api.models.gpupool import PoolState
from charterer.api.models.trainingjob_status import MISLEADING_VARIABLES, JobState
from charterer.api.names import API_VERSION, ConditionType
from charterer.api.words.jobs import REASONS
from charterer.cluster.client import RawObject
from charterer.cluster.events import Recorder
from charterer.domain.billing import spent
from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, JobId, PoolId, PoolSetId, RentalId
from charterer.domain.job import RunOutcome
from charterer.domain.money import ZERO, Money
from charterer.domain.plan import Allocate, Command, ReasonCode, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    AdoptTarget,
    Cool,
    CreatePool,
    DeletePool,
    EditPool,
    LetGo,
    MarkEnded,
    MarkReady,
    OpenPeriod,
    RecordOffer,
    RecordOrphan,
    RecordRun,
    SetFinalizer,
    Step,
)
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant
from charterer.lifecycle.adopted import not_adopted_because
from charterer.policy.budgets.solution import of_first_period
from charterer.sentences import count

# The objects on which Events about one of Charterer's objects are recorded.


Subjects = Sequence[EventSubject]


def subjects(kind: str, name: str, uid: str, namespace: str = "", target: TargetRef | None = None) -> Subjects:
    """The object itself, and for a TrainingJob also its ``target``, at which the job's owner looks."""
    own = EventSubject(API_VERSION, kind, namespace, name, uid)
    return (own,) if target is None else (own, target_subject(target, namespace))


def target_subject(ref: TargetRef, namespace: str) -> EventSubject:
    """The subject of an object that is adopted or is to be adopted."""
    return EventSubject(ref.api_version, ref.kind, namespace, ref.name, ref.uid)


# Events are recorded for some changes in a view. An object that begins to wait, to be refused or to fail gets one Event
# when it begins.
#
# A transition is a difference between two statuses: the status that was read before a view is written, and the view. So
# a new process repeats no Event, and a state that was never shown has no Event.


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
"""Reasons why a job may be Queued."""
_TOLD_OTHERWISE: Final = frozenset({BudgetState.DELETING, PoolState.DELETING, PoolState.COOLING, PoolState.UNKNOWN})
"""States whose beginning has another Event, or needs no Event."""
_PAUSE_SECONDS: Final = 600.0
"""Seconds in which an object gets at most one Event with the same reason. Without this limit, a state that flips would
fill the list of Events.
"""
_REMEMBERED: Final = 10_000
"""Most pairs of object and reason whose last Event is stored for this limit."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The beginning of a state, with a CamelCase reason, a sentence, and whether a person must act."""

    reason: str
    note: str
    warning: bool


def transitions(before: _Status, after: _Status) -> Iterator[Transition]:
    """The transitions from one status to the next, of an object of any of Charterer's kinds."""
    # a job that is not Ready only waits or has failed, which other Events say
    if _condition(after, ConditionType.ADMITTED):
        yield from _refused(ConditionType.ADMITTED, before, after)
    else:
        yield from _refused(ConditionType.READY, before, after)
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
    """Transitions of a job's own limits, which can no longer be met or can be met again."""
    for kind in (ConditionType.ON_TARGET, ConditionType.WITHIN_MAX_COST):
        now, then = _condition(after, kind), _condition(before, kind)
        waits = after.get("state") == JobState.QUEUED and after.get("why") == now.get("reason")  # has its own Event
        if _fails(now) and not _fails(then) and not waits:
            yield Transition(now["reason"], now["message"], warning=True)
        if _fails(then) and now.get("status") == "True":
            yield Transition(now["reason"], now["message"], warning=False)


def _held_up(before: _Status, after: _Status) -> Iterator[Transition]:
    """Transitions to a bottleneck of the job's run."""
    for kind in sorted(BOTTLENECKS):
        now = _condition(after, kind)
        if now and not _condition(before, kind):
            yield Transition(now["reason"], now["message"], warning=True)


def _refused(kind: ConditionType, before: _Status, after: _Status) -> Iterator[Transition]:
    """The transition of an object that cannot be used any more, or cannot be used for another reason than before."""
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
    """Transitions of conditions that became False and whose reason names the cause."""
    for kind in (ConditionType.COSTS_RECORDED, ConditionType.CURRENCY_RATE_CURRENT, ConditionType.TEMPLATE_CURRENT):
        now = _condition(after, kind)
        if _fails(now) and not _fails(_condition(before, kind)):
            yield Transition(now["reason"], now["message"], warning=kind is not ConditionType.TEMPLATE_CURRENT)


class TransitionEvents:
    """Records an Event for each transition, unless an action has just recorded one with the same reason.

    ``clock``: monotonic, in seconds.
    """

    def __init__(self, recorder: Recorder, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._clock = clock
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()

    def shown(self, kind: str, before: _Status, written: RawObject) -> None:
        """Record the transitions from the status ``before`` to that of the written object."""
        told = _subjects_of_raw(kind, written)
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


def _subjects_of_raw(kind: str, raw: RawObject) -> Subjects:
    metadata, said = raw["metadata"], (raw.get("spec") or {}).get("targetRef")
    target = None if said is None else TargetRef(said["apiVersion"], said["kind"], said["name"], said["uid"])
    return subjects(kind, metadata["name"], metadata["uid"], metadata.get("namespace", ""), target)


_BAD = frozenset({RunOutcome.FAILED, RunOutcome.INTERRUPTED, RunOutcome.NOT_STARTED, RunOutcome.STALLED})
"""Outcomes of runs that are recorded as Warnings."""
_FOR_A_PERSON = frozenset(
    {
        ReasonCode.NOT_STARTING,
        ReasonCode.STALLED,
        ReasonCode.POOL_DELETED,
        ReasonCode.BUDGET_DELETED,
        ReasonCode.HARD_LIMIT,
        ReasonCode.MAX_COST,
        ReasonCode.STOPPED,
        ReasonCode.INVALID,
        ReasonCode.NOT_BELIEVED,
        ReasonCode.NOT_RECORDED,
    }
)
"""Reasons why GPUs or nodes were lost, if a person caused the loss or must act on it."""
_LET_ADOPT = (
    "Let the operator make TrainingJobs in this namespace (the chart's value namespaces), or take the label "
    "charterer.dev/adopt off and set spec.suspend to false"
)
"""The remedy for an object for which no TrainingJob can be created."""
_POOL_OF_SET = {CreatePool: "PoolCreated", EditPool: "PoolChanged", DeletePool: "PoolRemoved"}
"""The reasons of Events on a GPUPoolSet about one of its GPUPools."""


class Events:
    """Records an Event for each action, on the object at which a user would look."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._deleted: dict[BudgetId, tuple[Instant, Money]] = {}
        """The budgets that this process let be deleted, with the time and their spending in the period."""
        self._told: dict[TargetRef, tuple[str, str]] = {}

    def done(self, action: Command | Step, snapshot: Snapshot) -> None:
        """Record an Event for a command or step that took effect."""
        match action:
            case Allocate():
                self._allocated(action, snapshot)
            case Rent():
                self._say(
                    _budget(action.budget, snapshot), "Renting", f"{action.rental}: {action.reason.message}", "Rent"
                )
            case Release():
                bad = action.reason.code in _FOR_A_PERSON
                reason = action.reason.code.value if bad else "Releasing"
                self._say(_rental(action.rental, snapshot), reason, action.reason.message, "Release", warning=bad)
            case Cool():
                cooled = action.cool_down
                note = f"{cooled.code}: {cooled.message}"
                self._say(_pool(action.pool, snapshot), cooled.kind.value, note, "Cool", warning=True)
            case RecordOffer():
                self._priced(action, snapshot)
            case RecordOrphan():
                instance = f"instance {action.instance.id}"
                note = f"{instance} runs in the group but was not asked for: it gets a rental of its own"
                self._say(_pool(action.pool, snapshot), "UnknownInstance", note, "Adopt", warning=True)
            case MarkReady():
                note = f"node {action.after.node} is ready"
                self._say(_rental(action.rental, snapshot), "NodeReady", note, "MarkReady")
            case MarkEnded():
                note = f"ended at a cost of {action.after.cost}" + (
                    " (the cloud no longer knew when)" if action.estimated else ""
                )
                self._say(_rental(action.rental, snapshot), "Ended", note, "MarkEnded", warning=action.estimated)
            case RecordRun():
                self._run_ended(action, snapshot)
            case CreatePool() | EditPool() | DeletePool():
                said = _POOL_OF_SET[type(action)]
                self._say(_pool_set(action.pool_set, snapshot), said, f"GPUPool {action.pool}", type(action).__name__)
            case SetFinalizer() | OpenPeriod():
                self._budget_came_or_went(action, snapshot)
            case _:
                return

    def not_adopted(self, snapshot: Snapshot) -> None:
        """Record one Event for each labelled object that gets no TrainingJob or has annotations that cannot be granted.

        If the object's budget spends no money, nothing is written, and so no Event is recorded.
        """
        said = {}
        for each in snapshot.candidates:
            budget = None if each.budget is None else snapshot.budgets.get(each.budget)
            if each.target.ended is None and (budget is None or budget.mode is Mode.ENFORCE):
                said[each.target.ref] = each.target.namespace, not_adopted_because(each, snapshot)
        for job in snapshot.jobs.values():
            if job.adopted is not None and job.finish is None:
                said[job.adopted.ref] = job.namespace, job.adopted.problem or job.adopted.warning
        for ref, (namespace, text) in said.items():
            if text and self._told.get(ref) != (namespace, text):
                self._say((target_subject(ref, namespace),), "NotAdopted", text, "Adopt", warning=True)
        self._told = said

    def held(self, action: Command | Step, message: str, snapshot: Snapshot) -> None:
        """Record an Event for a step that something outside Charterer prevents."""
        reason = "NotAdopted" if isinstance(action, AdoptTarget) else "Held"
        self._say(_subjects(action, snapshot), reason, message, type(action).__name__, warning=True)

    def failed(self, action: Command | Step, message: str, snapshot: Snapshot) -> None:
        """Record an Event for a command or step that failed and will be tried again."""
        reason, note = "Failing", f"{type(action).__name__}: {message}"
        if isinstance(action, AdoptTarget):
            reason, note = "NotAdopted", f"its TrainingJob cannot be made, so it waits: {message}. {_LET_ADOPT}"
        self._say(_subjects(action, snapshot), reason, note, type(action).__name__, warning=True)

    def _budget_came_or_went(self, action: SetFinalizer | OpenPeriod, snapshot: Snapshot) -> None:
        """Record that a budget that is deleted and created again starts from zero. Nobody expects that of a hard
        limit.
        """
        if isinstance(action, SetFinalizer):
            budget = snapshot.budgets.get(BudgetId(action.name))
            if action.kind == "GPUBudget" and not action.present and budget is not None:
                used = spent(budget, snapshot.rentals.values(), snapshot.now)
                self._deleted[budget.id] = snapshot.now, used
                if used > ZERO:
                    note = (
                        f"{used} of this period were spent, which a new GPUBudget {budget.id} does not know: create "
                        f'it with spec.openingSpend "{used.decimal()}" if it should count them'
                    )
                    self._say(_budget(budget.id, snapshot), "SpentUntilDeletion", note, type(action).__name__)
            return
        if action.last_start is not None:
            return
        budget = snapshot.budgets.get(action.budget)
        if budget is not None and (told := of_first_period(budget, action.start)):
            self._say(_budget(action.budget, snapshot), "AmountProrated", told, "OpenPeriod")
        deleted, spent_then = self._deleted.pop(action.budget, (None, ZERO))
        if deleted is not None and deleted >= action.start and spent_then > ZERO:
            note = (
                f"a former GPUBudget {action.budget} had spent {spent_then} of this period when it was deleted, which "
                f'does not count here: create it again with spec.openingSpend "{spent_then.decimal()}" if it should'
            )
            self._say(_budget(action.budget, snapshot), "SpentBefore", note, "OpenPeriod", warning=True)

    def _priced(self, action: RecordOffer, snapshot: Snapshot) -> None:
        """Record a price that a person changed. The cloud's own changes have no Event."""
        quote, before = action.quote, action.replaces
        pool = snapshot.pools.get(action.pool)
        if quote is None or before is None or pool is None or quote.price == before.price:
            return
        if quote.source != before.source or pool.price_override is not None:
            note = f"a node costs {quote.price} instead of {before.price} from now on ({quote.source})"
            self._say(_pool(action.pool, snapshot), "PriceChanged", note, "RecordOffer")

    def _allocated(self, action: Allocate, snapshot: Snapshot) -> None:
        reason = action.reason.code.value if action.allocation is None else "Allocated"
        warning = action.allocation is None and action.reason.code in _FOR_A_PERSON
        self._say(_job(action.job, snapshot), reason, action.reason.message, "Allocate", warning=warning)

    def _run_ended(self, action: RecordRun, snapshot: Snapshot) -> None:
        record = action.record
        note = f"run {record.number} on {count(record.option.gpus, 'GPU')}: {record.message or record.outcome.value}"
        bad = action.warning is not None or record.outcome in _BAD
        reason = action.warning or f"Run{record.outcome.value}"
        self._say(_job(action.job, snapshot), reason, note, "RecordRun", warning=bad)
        if action.finish is not None and not action.finish.done:
            self._say(_job(action.job, snapshot), action.finish.reason, action.finish.message, "Finish", warning=True)

    def _say(self, told: Subjects, reason: str, note: str, action: str, *, warning: bool = False) -> None:
        for subject in told:
            self._recorder.record(subject, reason, note or reason, action=action, warning=warning)


def _subjects(action: Command | Step, snapshot: Snapshot) -> Subjects:
    """The objects that a command or step concerns. If it concerns objects of several kinds, the most specific kind is
    returned.
    """
    if isinstance(action, AdoptTarget | LetGo):
        return (target_subject(action.target.ref, action.target.namespace),)
    finders = ("job", _job), ("rental", _rental), ("pool_set", _pool_set), ("pool", _pool), ("budget", _budget)
    for field, find in finders:
        found = find(getattr(action, field), snapshot) if hasattr(action, field) else ()
        if found:
            return found
    return ()


def _job(job_id: JobId, snapshot: Snapshot) -> Subjects:
    job = snapshot.jobs.get(job_id)
    return () if job is None else subjects("TrainingJob", job.name, job.id, job.namespace, job.target)


def _budget(budget_id: BudgetId, snapshot: Snapshot) -> Subjects:
    budget = snapshot.budgets.get(budget_id)
    return () if budget is None else subjects("GPUBudget", budget.id, budget.uid)


def _pool(pool_id: PoolId, snapshot: Snapshot) -> Subjects:
    pool = snapshot.pools.get(pool_id)
    return () if pool is None else subjects("GPUPool", pool.id, pool.uid)


def _rental(rental_id: RentalId, snapshot: Snapshot) -> Subjects:
    rental = snapshot.rentals.get(rental_id)
    return () if rental is None else subjects("GPURental", rental.id, rental.uid)


def _pool_set(name: PoolSetId, snapshot: Snapshot) -> Subjects:
    pool_set = snapshot.pool_sets.get(name)
    return () if pool_set is None else subjects("GPUPoolSet", pool_set.id, pool_set.uid)
