"""Publish each turn as metrics, views and Events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

from charterer.api.models.base import Condition, InvalidObjectView
from charterer.api.models.clouds import cloud_fields
from charterer.api.models.gpupool import PoolState
from charterer.api.models.gpupoolset import GPUPoolSetStatus, PoolSetState
from charterer.api.models.speedupprofile import ProfileState, SpeedupProfileView
from charterer.api.models.trainingjob_status import TrainingJobView
from charterer.api.names import ConditionType
from charterer.api.words.jobs import REASONS
from charterer.cluster import kinds
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.outcome import ActionOutcome
from charterer.controller.status.budgets_and_pools import Tally, attributed, budget_view, pool_states, pool_view
from charterer.controller.status.conditions import condition
from charterer.controller.status.events import Events
from charterer.controller.status.jobs import NO_OPTIONS, JobOptions, job_state, job_view
from charterer.controller.status.view_writer import Urgency, ViewedObject, ViewWriter
from charterer.domain.errors import Problem
from charterer.domain.ids import ClassId, JobId, PoolId, StepKey, StepKind
from charterer.domain.job import FinishKind, Job
from charterer.domain.plan import Command, Plan, Verdict
from charterer.domain.pool_set import PoolSet
from charterer.domain.profile import Profile
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import CreatePool, DeletePool, EditPool, Step, Wait
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo
from charterer.lifecycle.pool_set import Difference, Obstacle, ObstacleKind, pool_set_steps
from charterer.metrics.instruments import Metrics
from charterer.policy.budgets.solution import BudgetSolution
from charterer.providers.errors import ProviderError
from charterer.providers.provider import PreflightFinding
from charterer.sentences import count, is_or_are

# Views of GPUPoolSets, with the GPUPools that differ from what the set declares, and the causes.


FAILING = "Failing"
"""The reason if a step on a pool of a set fails. The Event about it has the same reason."""
_NAMED = 3
"""Most pools that a message names. Of further pools the message gives the number."""
_READY = (PoolState.READY, PoolState.FULL)


class FailedPoolSteps:
    """The error or the obstacle of the last step on each pool of a set, until a step succeeds."""

    def __init__(self) -> None:
        self._messages: dict[PoolId, str] = {}

    def done(self, action: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """Store the outcome of a step on a pool of a set."""
        if not isinstance(action, CreatePool | EditPool | DeletePool):
            return
        if outcome in (ActionOutcome.FAILED, ActionOutcome.HELD):
            self._messages[action.pool] = message
        elif outcome is ActionOutcome.DONE:
            self._messages.pop(action.pool, None)

    def among(self, pools: Collection[PoolId]) -> Mapping[PoolId, str]:
        """The messages about these pools."""
        return {pool: message for pool, message in self._messages.items() if pool in pools}

    def retain(self, snapshot: Snapshot) -> None:
        """Drop the pools that no set declares and that do not exist."""
        sets = snapshot.pool_sets.values()
        for pool in [each for each in self._messages if each not in snapshot.declared_pools]:
            if not any(pool in pool_set.pools for pool_set in sets):
                del self._messages[pool]


def pool_set_view(
    pool_set: PoolSet, failed: FailedPoolSteps, states: Mapping[PoolId, PoolState], snapshot: Snapshot
) -> GPUPoolSetStatus:
    """The view of a set as of now. ``dated`` sets the transition times of its conditions. ``states``: of the pools."""
    own = {name for name, pool in snapshot.declared_pools.items() if pool.set_uid == pool_set.uid}
    state, ready = _state(pool_set, failed, snapshot)
    return GPUPoolSetStatus(
        observed_generation=pool_set.generation,
        state=state,
        pools=len(pool_set.pools),
        ready_pools=sum(states.get(name) in _READY for name in own & pool_set.pools.keys()),
        nodes=sum(each.pool in own and each.phase is not RentalPhase.ENDED for each in snapshot.rentals.values()),
        conditions=(ready,),
    )


def _state(pool_set: PoolSet, failed: FailedPoolSteps, snapshot: Snapshot) -> tuple[PoolSetState, Condition]:
    def ready(holds: bool | None, reason: str, message: str) -> Condition:
        return condition(ConditionType.READY, holds, reason, message, snapshot.now, pool_set.generation)

    if pool_set.deleting:
        message = "being deleted, with its GPUPools: each stays until its rentals have ended"
        return PoolSetState.DELETING, ready(False, "Draining", message)
    differences = pool_set_steps(pool_set.id, snapshot)
    if not differences:
        pools = count(len(pool_set.pools), "GPUPool")
        return PoolSetState.READY, ready(True, "AsDeclared", f"{pools} {is_or_are(len(pool_set.pools))} as declared")
    obstacles = dict(sorted(_obstacles(pool_set, differences, failed, snapshot)))
    if not obstacles:
        pools = count(len(differences), "GPUPool")
        message = f"{pools} {is_or_are(len(differences))} being created, changed or deleted"
        return PoolSetState.CHANGING, ready(None, "Changing", message)
    reason = next(iter(obstacles.values()))[0]
    said = [f"GPUPool {name}: {message}" for name, (_, message) in obstacles.items()]
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return PoolSetState.INCOMPLETE, ready(False, reason, "; ".join(said[:_NAMED]) + more)


def _obstacles(
    pool_set: PoolSet, differences: Mapping[PoolId, Difference], failed: FailedPoolSteps, snapshot: Snapshot
) -> Iterator[tuple[PoolId, tuple[str, str]]]:
    """The pools that need a person, with reason and message of each."""
    messages = failed.among(differences.keys())
    for pool, difference in differences.items():
        if isinstance(difference, Obstacle):
            yield pool, (difference.kind.value, _in_words(pool, difference, pool_set, snapshot))
        elif not isinstance(difference, Wait) and pool in messages:
            yield pool, (FAILING, messages[pool])


def _in_words(pool: PoolId, obstacle: Obstacle, pool_set: PoolSet, snapshot: Snapshot) -> str:
    match obstacle.kind:
        case ObstacleKind.NAME_TAKEN:
            holder = "not this set's" if obstacle.holder is None else f"GPUPoolSet {obstacle.holder}'s"
            return f"is there and is {holder}, so it is left alone: delete it, or rename a value of this set"
        case ObstacleKind.UNREADABLE:
            return "cannot be read, so it is left alone: its own condition Ready says why"
        case ObstacleKind.CANNOT_CHANGE:
            return (
                f"{_changed(pool, pool_set, snapshot)}, which cannot be changed in a GPUPool. Give the value another "
                f"name, which makes another GPUPool and deletes this one; or kubectl delete gpupool {pool}, after "
                "which it is made anew; or take the change back"
            )
        case _ as never:
            assert_never(never)


def _changed(pool: PoolId, pool_set: PoolSet, snapshot: Snapshot) -> str:
    """The first immutable field that differs, with both values, as a clause."""
    there, declared = snapshot.declared_pools[pool], pool_set.pools[pool]
    before = {**cloud_fields(there.cloud), "capacityType": there.capacity_type.value}
    after = {**cloud_fields(declared.cloud), "capacityType": declared.capacity_type.value}
    field, old, new = next(_unequal(before, after, "spec"))
    return f"{field} is {_value(old)} there and {_value(new)} here"


def _unequal(one: Mapping[str, Any], other: Mapping[str, Any], path: str) -> Iterator[tuple[str, object, object]]:
    for key in sorted({*one, *other}):
        old, new = one.get(key), other.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _unequal(old, new, f"{path}.{key}")
        elif old != new:
            yield f"{path}.{key}", old, new


def _value(value: object) -> str:
    return "absent" if value is None else repr(value)


_CHECKED_SOON_SECONDS = 30.0
"""Age in seconds up to which a job has no view while its dry run goes on."""
_ALL_COUNTED = 0.99
"""Smallest fraction of a declared load that counts as the whole load."""

_ObjectName = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class StatusPublisher:
    """The ``loop.TurnObserver`` of production."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        events: Events,
        writer: ViewWriter,
        cloud_errors: Mapping[PoolId, ProviderError],
        preflights: Mapping[PoolId, Sequence[PreflightFinding]],
        last: Callable[[], Snapshot],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._events = events
        self._writer = writer
        self._cloud_errors = cloud_errors
        self._preflights = preflights
        self._last = last
        self._memo = Memo()
        self._options = JobOptions()
        self._failed_pool_steps = FailedPoolSteps()

    def planned(self, snapshot: Snapshot, decided: Plan, solutions: Sequence[BudgetSolution], seconds: float) -> None:
        """Publish the numbers of a plan, and pass the present view of each object to the writer."""
        self._metrics.plan_took(seconds)
        self._events.not_adopted(snapshot)
        self._metrics.observe(snapshot, decided, job_state)
        self._options.planned(snapshot, solutions)
        self._failed_pool_steps.retain(snapshot)
        shown = viewed_objects(snapshot, decided, self._cloud_errors, self._memo, self._preflights, self._options)
        sets = viewed_pool_sets(snapshot, self._cloud_errors, self._failed_pool_steps)
        self._writer.show([*shown, *sets, *invalid_objects(self._store)], snapshot)

    def done(self, action: Command | Step, outcome: ActionOutcome, message: str) -> None:
        """Publish the outcome of a command or step."""
        self._metrics.step_done(action, outcome.value)
        self._failed_pool_steps.done(action, outcome, message)
        if outcome is ActionOutcome.DONE:
            self._events.done(action, self._last())
        elif outcome is ActionOutcome.HELD:
            self._events.held(action, message, self._last())
        elif outcome is ActionOutcome.FAILED:
            self._events.failed(action, message, self._last())

    def turned(self, *, failed: bool) -> None:
        """Count a turn of the loop."""
        self._metrics.turned("failed" if failed else "done")


def viewed_objects(
    snapshot: Snapshot,
    decided: Plan,
    cloud_errors: Mapping[PoolId, ProviderError],
    memo: Memo | None = None,
    preflights: Mapping[PoolId, Sequence[PreflightFinding]] | None = None,
    options: JobOptions | None = None,
) -> Iterator[ViewedObject]:
    """The snapshot's objects. With a memo, a job with unchanged inputs is the same object as in its last turn.

    Without ``options``, jobs show none.
    """
    memo = Memo() if memo is None else memo
    problems: dict[_ObjectName, tuple[Problem, ...]] = {}
    for problem in reversed((*snapshot.problems, *decided.problems)):  # of several problems, the first gives the reason
        name = problem.kind, problem.namespace, problem.name
        problems[name] = (*problems.get(name, ()), problem)
    with memo.turn():
        jobs = memo.each(_viewed_job, (snapshot.jobs, decided.jobs, _problems_of_jobs(snapshot, problems)), options)
        tally = Tally.of(snapshot.jobs, snapshot.rentals, decided.jobs, memo)
    yield from (viewed for name, viewed in jobs.items() if not _just_tried(snapshot.jobs[name], snapshot.now))
    yield from _budgets(snapshot, decided, tally)
    for pool in snapshot.pools.values():
        if not pool.uid:  # the pool's object is gone, and only its rentals are left
            continue
        findings = () if preflights is None else preflights.get(pool.id, ())
        yield ViewedObject(
            kind=kinds.GPU_POOLS,
            key=ObjectKey("", pool.id),
            uid=pool.uid,
            urgency=Urgency.FIRST,
            step_key=StepKey(StepKind.POOL, pool.id),
            facts=None,
            estimate=None,
            drifts=True,
            make=partial(pool_view, pool, decided, tally, cloud_errors, findings),
        )
    counted: dict[ClassId, float] = defaultdict(float)
    for verdict in decided.classes:
        counted[verdict.class_id] += verdict.arrivals_per_hour
    for profile in snapshot.profiles.values():
        fault = next(iter(problems.get(("SpeedupProfile", *profile.id), ())), None)
        counts = _declared_counts(profile, counted)
        yield ViewedObject(
            kind=kinds.SPEEDUP_PROFILES,
            key=ObjectKey(*profile.id),
            uid=None,
            urgency=Urgency.FIRST,
            step_key=None,
            facts=(profile, fault, counts),
            estimate=None,
            drifts=False,
            make=partial(_profile_view, profile, fault, counts),
        )


def _problems_of_jobs(
    snapshot: Snapshot, problems: Mapping[_ObjectName, tuple[Problem, ...]]
) -> Mapping[JobId, tuple[Problem, ...]]:
    if all(kind != "TrainingJob" for kind, _, _ in problems):
        return {}
    found = ((job.id, problems.get(("TrainingJob", job.namespace, job.name))) for job in snapshot.jobs.values())
    return {job: problem for job, problem in found if problem is not None}


def _just_tried(job: Job, now: Instant) -> bool:
    """Whether a new job has no view yet, because its dry run goes on.

    The dry run takes a moment. A view before its end would double the writes for thousands of jobs.
    """
    return job.checking and seconds_between(job.created, now) < _CHECKED_SOON_SECONDS


def _viewed_job(
    job: Job, verdict: Verdict | None, problems: tuple[Problem, ...] | None, options: JobOptions | None
) -> ViewedObject:
    """The viewed job. The view's texts depend on the job, its problems, and the option and kind of reason of its
    verdict.

    The verdict's sentence and remaining time count as numbers. Three things change while these inputs stay equal: the
    cost while the job holds GPUs, the options while the job wants to run, and whether a target has passed.
    """
    holds_gpus = job.allocation is not None or bool(job.replaced)
    words = None
    if verdict is not None:
        met = None if verdict.target is None else verdict.target.met
        words = verdict.option, verdict.reason.code, verdict.remaining_seconds is None, met
    return ViewedObject(
        kind=kinds.TRAINING_JOBS,
        key=ObjectKey(job.namespace, job.name),
        uid=job.id,
        urgency=_urgency(job, verdict, problems),
        step_key=StepKey(StepKind.JOB, job.id),
        facts=(job, problems, words),
        estimate=verdict,
        drifts=holds_gpus or job.wants_to_run or (job.target_completion is not None and not job.finish),
        make=partial(_job_view, job, verdict, problems or (), options),
    )


def _urgency(job: Job, verdict: Verdict | None, problems: tuple[Problem, ...] | None) -> Urgency:
    if job.finish is None:
        waits_for_person = verdict is not None and REASONS[verdict.reason.code].needs_person
        needs_person = bool(problems or job.invalid) or waits_for_person
    else:
        needs_person = job.finish.kind is FinishKind.FAILED
    if needs_person:
        return Urgency.FIRST
    return Urgency.RUNS if job.last_run else Urgency.WAITS


def _job_view(
    job: Job, verdict: Verdict | None, problems: tuple[Problem, ...], options: JobOptions | None, snapshot: Snapshot
) -> TrainingJobView:
    shown = NO_OPTIONS if options is None else options.of(job, verdict, snapshot.now)
    return job_view(job, verdict, problems, snapshot, shown)


def _budgets(snapshot: Snapshot, decided: Plan, tally: Tally) -> Iterator[ViewedObject]:
    """The viewed budgets. This function makes all of a view but its attribution. The ``facts`` are the view's state and
    conditions.
    """
    for budget in snapshot.budgets.values():
        view = budget_view(budget, snapshot, decided, tally)
        words = (view.state, *((shown.type, shown.status, shown.reason) for shown in view.conditions))
        yield ViewedObject(
            kind=kinds.GPU_BUDGETS,
            key=ObjectKey("", budget.id),
            uid=budget.uid,
            urgency=Urgency.FIRST,
            step_key=StepKey(StepKind.BUDGET, budget.id),
            facts=(budget, words),
            estimate=None,
            drifts=True,
            make=partial(attributed, view, budget),
        )


def viewed_pool_sets(
    snapshot: Snapshot, cloud_errors: Mapping[PoolId, ProviderError], failed: FailedPoolSteps
) -> Iterator[ViewedObject]:
    """The GPUPoolSets. Each view is made in each turn, because it counts the states of the set's pools."""
    if not snapshot.pool_sets:
        return
    states = pool_states(cloud_errors, snapshot)
    for pool_set in snapshot.pool_sets.values():
        yield ViewedObject(
            kind=kinds.GPU_POOL_SETS,
            key=ObjectKey("", pool_set.id),
            uid=pool_set.uid,
            urgency=Urgency.FIRST,
            step_key=None,
            facts=None,
            estimate=None,
            drifts=True,
            make=partial(pool_set_view, pool_set, failed, states),
        )


def invalid_objects(store: Store) -> Iterator[ViewedObject]:
    """Objects that cannot be decoded. Nothing is done with them, and their status has the cause."""
    shown: tuple[kinds.AnyKind, ...] = (
        kinds.TRAINING_JOBS,
        kinds.SPEEDUP_PROFILES,
        kinds.GPU_BUDGETS,
        kinds.GPU_POOLS,
        kinds.GPU_POOL_SETS,
    )
    for kind in shown:
        for key, problem in store.view(kind).problems.items():
            stored = store.stored_version(kind, key)
            if stored is None:  # the object was deleted meanwhile
                continue
            yield ViewedObject(
                kind=kind,
                key=key,
                uid=stored.uid,
                urgency=Urgency.FIRST,
                step_key=None,
                facts=(problem, stored.generation),
                estimate=None,
                drifts=False,
                make=partial(_invalid_view, kind is kinds.TRAINING_JOBS, problem, stored.generation),
            )


def _declared_counts(profile: Profile, counted: Mapping[ClassId, float]) -> bool | None:
    """Whether the whole declared load counts, or None if none is declared, or if no budget pays for it."""
    if profile.arrivals_per_hour is None or profile.budget is None:
        return None
    return counted.get(profile.id, 0.0) >= _ALL_COUNTED * profile.arrivals_per_hour


def _profile_view(
    profile: Profile, problem: Problem | None, counts: bool | None, snapshot: Snapshot
) -> SpeedupProfileView:
    now = snapshot.now
    state, ready = ProfileState.READY, _readable(profile, now)
    if problem is not None:
        state = ProfileState.INVALID
        ready = condition(ConditionType.READY, False, problem.reason, problem.message, now, profile.generation)
    borne_out = () if counts is None else (_borne_out(profile, counts, now),)
    return SpeedupProfileView(
        observed_generation=profile.generation,
        state=state,
        mean_work=None if problem is not None or profile.mean_work is None else max(round(profile.mean_work), 1),
        conditions=(ready, *borne_out),
    )


def _borne_out(profile: Profile, counts: bool, now: Instant) -> Condition:
    """The condition on which fraction of the declared load counts in the plan of the class's budget."""
    shown = partial(condition, ConditionType.DECLARED_LOAD_CONFIRMED, counts, now=now, generation=profile.generation)
    if counts:
        return shown("Counted", f"the declared {profile.arrivals_per_hour:g} jobs an hour count")
    message = (
        f"not all of the declared {profile.arrivals_per_hour:g} jobs an hour count: only up to twice as many jobs, and "
        "twice as costly ones, as were seen of this class"
    )
    return shown("NotConfirmed", message)


def _readable(profile: Profile, now: Instant) -> Condition:
    """The condition on the curves with which jobs of the class are planned."""
    ready = partial(condition, ConditionType.READY, True, now=now, generation=profile.generation)
    if profile.unreadable:
        message = f"what was learned is not used, because it cannot be read: {profile.unreadable}"
        return ready("LearnedUnreadable", message)
    if profile.reports:
        return ready("Learned", f"learned from {profile.reports} reports")
    message = "" if profile.declared else "nothing is known yet: jobs run on their preferred number of GPUs"
    return ready("Readable", message)


def _invalid_view(is_job: bool, problem: Problem, generation: int, snapshot: Snapshot) -> InvalidObjectView:
    """The view of an object that cannot be decoded. ``generation``: the object's.

    The conditions have no generation, because they do not describe the state of the spec.
    """
    shown = {ConditionType.READY: False, ConditionType.STALLED: True}
    if is_job:
        shown[ConditionType.ADMITTED] = False
    message = f"{problem.field}: {problem.message}"
    conditions = [condition(kind, holds, problem.reason, message, snapshot.now, 0) for kind, holds in shown.items()]
    return InvalidObjectView(observed_generation=generation, state="Invalid", conditions=tuple(conditions))
