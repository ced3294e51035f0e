"""Planning in spite of faulty objects: an object that makes planning fail is set aside, and all other objects are
planned.

One faulty object must not block all others. If ``plan`` raises, objects are left out by kind until it succeeds: first
profiles, then jobs, pools and budgets. Bisection finds the faulty object, in about ten plans for a thousand objects.
If the object is a profile, but planning succeeds without one of its jobs, the job is set aside instead. A profile
that is set aside counts as empty. For a job that is set aside, nothing is decided. In a pool, nothing is rented or
released. For a budget, nothing is planned. Running jobs go on. After a pause, the object is tried again; the pause
grows with each failure. Without failures, all this costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId
from charterer.domain.job import Job
from charterer.domain.money import ZERO
from charterer.domain.plan import Plan, Reason, ReasonCode, Verdict
from charterer.domain.profile import Phase, Profile
from charterer.domain.reasons.waits import NoPlan
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.incremental import Memo
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.planner import SolvedPlan, solved_plan

FIRST_PAUSE_SECONDS = 300.0
"""Seconds after which an object that was set aside is tried again. The pause doubles with each further failure."""
LAST_PAUSE_SECONDS = 6 * 3600.0
"""Longest pause in seconds before an object is tried again."""
_MOST_TRIALS = 64
"""Maximum number of plans in one turn to find the faulty object. If the object is not found by then, the next turn
searches again."""


class PlannedKind(StrEnum):
    """The kinds of object that a plan depends on, in the order in which they are left out."""

    PROFILE = "SpeedupProfile"
    JOB = "TrainingJob"
    POOL = "GPUPool"
    BUDGET = "GPUBudget"


class PlannedObject(NamedTuple):
    """One of the objects that a plan depends on. ``id``: its key in the snapshot."""

    kind: PlannedKind
    id: ClassId | JobId | BudgetId | PoolId


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that made planning fail with ``error``. The object is set aside for ``pause``
    seconds, until ``until``."""

    problem: Problem
    error: Exception
    pause: float
    until: Instant


Faults = Mapping[PlannedObject, Fault]


@dataclass(frozen=True, slots=True)
class PlanAroundFaults:
    """A plan, and the objects that it leaves out. ``error``: why there is no plan, if no single object is the cause.

    ``solutions``: the solutions of the budgets from which the plan was made.
    """

    plan: Plan
    faults: Faults
    error: Exception | None = None
    solutions: tuple[BudgetSolution, ...] = ()


def plan_around(snapshot: Snapshot, memo: Memo, faults: Faults) -> PlanAroundFaults:
    """The plan without the objects that were set aside in the previous turn (``faults``) or that make planning fail
    now."""
    present = set(_objects(snapshot)) if faults else set()
    known = {at: fault for at, fault in faults.items() if at in present}
    due = min((at for at in known if known[at].until <= snapshot.now), key=lambda at: known[at].until, default=None)
    if due is not None:
        fault = known.pop(due)
        try:
            return _around(solved_plan(without(snapshot, known), memo), known, snapshot)
        except Exception as error:
            known[due] = _fault(due, error, min(2 * fault.pause, LAST_PAUSE_SECONDS), snapshot)
    trials = _Trials(snapshot, memo)
    while (failure := trials.failure(known)) is not None:
        culprit = trials.culprit(known)
        if culprit is None:
            return _nothing(known, snapshot, failure)
        known[culprit] = _fault(culprit, failure, FIRST_PAUSE_SECONDS, snapshot)
    assert trials.decided is not None
    return _around(trials.decided, known, snapshot)


class _Trials:
    """Plans of a snapshot without some of its objects. ``decided``: the last successful plan."""

    def __init__(self, snapshot: Snapshot, memo: Memo) -> None:
        self._snapshot = snapshot
        self._memo = memo
        self._left = _MOST_TRIALS
        self.decided: SolvedPlan | None = None

    def failure(self, left_out: Iterable[PlannedObject]) -> Exception | None:
        """The error of planning without these objects; None if planning succeeded."""
        self._left -= 1
        try:
            self.decided = solved_plan(without(self._snapshot, left_out), self._memo)
        except Exception as error:
            return error
        return None

    def culprit(self, known: Faults) -> PlannedObject | None:
        """The faulty object; None if no single object is at fault, or if the object is not found in time."""
        others = [at for at in _objects(self._snapshot) if at not in known]
        left_out = list(known)
        for kind in PlannedKind:
            suspects = [at for at in others if at.kind is kind]
            if suspects and self._left > 0 and self.failure([*left_out, *suspects]) is None:
                found = self._first(left_out, suspects)
                return found if found is None else self._job_of(found, list(known), others) or found
            left_out += suspects
        return None

    def _job_of(
        self, found: PlannedObject, left_out: Sequence[PlannedObject], others: Sequence[PlannedObject]
    ) -> PlannedObject | None:
        """The only job of a class of several jobs without which its profile does no harm; None otherwise."""
        jobs = self._snapshot.jobs
        of_class = [at for at in others if at.kind is PlannedKind.JOB and found.id in jobs[JobId(str(at.id))].classes]
        if len(of_class) < 2 or self._left <= 0 or self.failure([*left_out, *of_class]) is not None:
            return None
        job = self._first(left_out, of_class)
        return job if job is not None and self._left > 0 and self.failure([*left_out, job]) is None else None

    def _first(self, left_out: Sequence[PlannedObject], suspects: Sequence[PlannedObject]) -> PlannedObject | None:
        """The first suspect such that planning succeeds without this suspect and all suspects before it; None if it
        is not found in time."""
        fails, succeeds = 0, len(suspects)
        while succeeds - fails > 1:
            if self._left <= 0:
                return None
            middle = (fails + succeeds) // 2
            if self.failure([*left_out, *suspects[:middle]]) is None:
                succeeds = middle
            else:
                fails = middle
        return suspects[fails]


def without(snapshot: Snapshot, left_out: Iterable[PlannedObject]) -> Snapshot:
    """The snapshot as if these objects had no content; the same snapshot without objects."""
    gone: dict[PlannedKind, set[object]] = {kind: set() for kind in PlannedKind}
    for at in left_out:
        gone[at.kind].add(at.id)
    if not any(gone.values()):
        return snapshot
    profiles, jobs, pools, budgets = (gone[kind] for kind in PlannedKind)
    return replace(
        snapshot,
        profiles={
            name: _unlearned(profile) if name in profiles else profile for name, profile in snapshot.profiles.items()
        },
        jobs={
            name: _silent(job, refused=name in jobs) if name in jobs or profiles.intersection(job.classes) else job
            for name, job in snapshot.jobs.items()
        },
        pools={
            name: replace(pool, offering=None, quote=None, start_seconds=0.0) if name in pools else pool
            for name, pool in snapshot.pools.items()
        },
        surveys={name: survey for name, survey in snapshot.surveys.items() if name not in pools},
        budgets={name: budget for name, budget in snapshot.budgets.items() if name not in budgets},
        unplanned={name: budget for name, budget in snapshot.budgets.items() if name in budgets},
    )


def _unlearned(profile: Profile) -> Profile:
    return replace(
        profile, phases=(Phase(1.0, ()),), declared=(), mean_work=None, arrivals_per_hour=None, reports=0, failed=()
    )


def _silent(job: Job, *, refused: bool) -> Job:
    """The job without its reports. ``refused``: the job gets no other GPUs than it has."""
    return replace(
        job,
        remaining=None,
        progress=None,
        target_completion=None,
        invalid=job.invalid or ("planning fails with this job" if refused else ""),
    )


def _around(solved: SolvedPlan, faults: Faults, snapshot: Snapshot) -> PlanAroundFaults:
    """The plan with the problem of each object that was set aside, also as the reason of the affected jobs."""
    plan = solved.plan
    if not faults:
        return PlanAroundFaults(plan, faults, solutions=solved.solutions)
    concerned = {job.id: fault.problem for job in snapshot.jobs.values() if (fault := _of_job(job, faults)) is not None}
    verdicts = {
        name: replace(verdict, reason=_no_plan(concerned[name].message)) if name in concerned else verdict
        for name, verdict in plan.jobs.items()
    }
    instants = [fault.until for fault in faults.values()] + ([] if plan.again_at is None else [plan.again_at])
    problems = tuple(fault.problem for fault in faults.values())
    told = replace(plan, jobs=verdicts, problems=problems, again_at=min(instants))
    return PlanAroundFaults(told, faults, solutions=solved.solutions)


def _nothing(faults: Faults, snapshot: Snapshot, error: Exception) -> PlanAroundFaults:
    """A plan that changes nothing, because no single object makes planning fail. Every budget gets a problem."""
    why = f"{_failed(error)}; please report it. What runs goes on; nothing is rented, released or moved"
    budgets = [_problem_of(PlannedObject(PlannedKind.BUDGET, name), snapshot, why) for name in snapshot.budgets]
    jobs = {job.id: Verdict(None, _no_plan(why), None) for job in snapshot.jobs.values() if job.finish is None}
    problems = (*(fault.problem for fault in faults.values()), *budgets)
    return PlanAroundFaults(Plan((), {}, {}, (), jobs, (), None, problems), faults, error)


def _no_plan(message: str) -> Reason:
    return Reason(ReasonCode.PLANNING_FAILED, 0.0, ZERO, NoPlan(message))


def _of_job(job: Job, faults: Faults) -> Fault | None:
    """The fault that prevents decisions about the job; None without one."""
    if job.finish is not None or job.deleting:
        return None
    of_budget = None if job.budget is None else faults.get(PlannedObject(PlannedKind.BUDGET, job.budget))
    return faults.get(PlannedObject(PlannedKind.JOB, job.id)) or of_budget


def _objects(snapshot: Snapshot) -> list[PlannedObject]:
    return [
        *(PlannedObject(PlannedKind.PROFILE, name) for name in snapshot.profiles),
        *(PlannedObject(PlannedKind.JOB, name) for name in snapshot.jobs),
        *(PlannedObject(PlannedKind.BUDGET, name) for name in snapshot.budgets),
        *(PlannedObject(PlannedKind.POOL, name) for name in snapshot.pools),
    ]


def _fault(at: PlannedObject, error: Exception, pause: float, snapshot: Snapshot) -> Fault:
    return Fault(_problem(at, error, pause, snapshot), error, pause, after(snapshot.now, pause))


_MEANWHILE = {
    PlannedKind.PROFILE: "until then jobs of the class run on their preferred number of GPUs",
    PlannedKind.JOB: "until then it keeps the GPUs that it has and is given no others",
    PlannedKind.BUDGET: "until then nothing is rented or released for it, and what runs goes on",
    PlannedKind.POOL: "until then nothing is rented or released in it, and what runs goes on",
}


def _problem(at: PlannedObject, error: Exception, pause: float, snapshot: Snapshot) -> Problem:
    why = (
        f"{_failed(error)} with this {at.kind}; please report it. It is tried again after {pause / 60:.0f} minutes; "
        f"{_MEANWHILE[at.kind]}"
    )
    return _problem_of(at, snapshot, why)


def _failed(error: Exception) -> str:
    return f"planning fails ({type(error).__name__}: {str(error)[:200]})"


def _problem_of(at: PlannedObject, snapshot: Snapshot, message: str) -> Problem:
    namespace, name = "", str(at.id)
    if isinstance(at.id, ClassId):
        namespace, name = at.id
    elif at.kind is PlannedKind.JOB:
        job = snapshot.jobs[JobId(at.id)]
        namespace, name = job.namespace, job.name
    return Problem(at.kind, namespace, name, "spec", ReasonCode.PLANNING_FAILED, message)
