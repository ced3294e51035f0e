"""A plan with its reasons: the solutions of its budgets, their frontiers, and its commands as actions for users."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from charterer.cluster.paths import TRAINING_JOBS
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.controller.snapshot.source import volumes_now
from charterer.controller.templates import (
    TRIALS_AT_ONCE,
    Trials,
    Unmet,
    lacks_right,
    may_run_again,
    needs_trial,
)
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId
from charterer.domain.job import Job
from charterer.domain.node_demands import AnyOf
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Command, PathVerdict, Plan, ReasonCode, Release, Rent
from charterer.domain.pool import Pool
from charterer.domain.reasons.phrases import name as option_name
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import common_word
from charterer.incremental import Memo
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.job_facts import GroupKey
from charterer.policy.nodes.pool_room import LaunchWait, launch_waits
from charterer.policy.nodes.rentals import rental_index
from charterer.policy.options.market import MenuKey
from charterer.policy.set_aside import plan_around, without
from charterer.sentences import count
from charterer.tools.commands.shared.cluster import ClusterOptions, read_with
from charterer.tools.frontier import Frontier, PeriodSums, WithoutKind, period_sums, without_each_kind
from charterer.workloads import INDEXED_JOB, RunEnvironment

# Dry runs of the templates that the operator has not tried yet, with the rights of the user.
#
# If the job's conditions already have the verdict on a template, the template is not tried again. A dry run changes
# nothing.


_NOWHERE: Final = RunEnvironment("", "")
"""Environment of runs in a dry run. No pod starts, so there is no progress endpoint to name."""


@dataclass(frozen=True, slots=True)
class TriedState:
    """The state with the templates that are refused and with the demands of the jobs' volumes. Refusals come from
    conditions and from dry runs.

    ``warnings`` has a sentence for each dry run that failed, and for each running job whose next run would be refused.
    """

    state: ClusterState
    warnings: tuple[str, ...] = ()


def with_trials(
    cluster: ClusterOptions, state: ClusterState, written: Mapping[ObjectKey, Mapping[str, Any]]
) -> TriedState:
    """Try the templates of the jobs in ``written``, which has their raw objects, and of waiting jobs that nobody has
    tried.

    Raises ClickException if the API server does not answer.
    """
    known = {
        decoded.job.id: decoded.template_verdict
        for key, decoded in state.jobs.items()
        if decoded.template_verdict and key not in written and needs_trial(decoded.job)
    }
    untried = [
        decoded.job
        for key, decoded in state.jobs.items()
        if (
            may_run_again(decoded.job)
            if key in written
            else decoded.template_verdict is None and decoded.job.id not in state.refusals and needs_trial(decoded.job)
        )
    ]
    trials = _DryRuns(written)
    with_volumes = [each.job for each in state.jobs.values() if each.job.demands.claims or each.job.demands.classes]
    if untried or with_volumes:
        read_with(cluster, lambda client: trials.run(client, untried, with_volumes))
    refusals = {**state.refusals, **known, **trials.refusals}
    tried = replace(state, refusals=refusals, volumes={**state.volumes, **trials.volumes})
    return TriedState(tried, (*trials.warnings, *trials.untried()))


@dataclass(slots=True)
class _DryRuns:
    written: Mapping[ObjectKey, Mapping[str, Any]]
    refusals: dict[JobId, str | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    forbidden: Counter[str] = field(default_factory=Counter)
    """Number of jobs not tried, by the namespace in which the user may not create Jobs."""
    new_namespaces: set[str] = field(default_factory=set)
    """Namespaces of jobs from files that do not exist yet."""
    volumes: dict[JobId, tuple[AnyOf, ...]] = field(default_factory=dict)

    async def run(self, client: Client, jobs: Iterable[Job], with_volumes: Iterable[Job]) -> None:
        """Try all ``jobs``, a few at once, and read the volumes of ``with_volumes``."""
        slots, trials = asyncio.Semaphore(TRIALS_AT_ONCE), Trials(client, INDEXED_JOB, _NOWHERE)

        async def try_one(job: Job) -> None:
            async with slots:
                await self._try(client, trials, job)

        await asyncio.gather(*map(try_one, jobs))
        self.volumes |= await volumes_now(client, with_volumes)

    async def _try(self, client: Client, trials: Trials, job: Job) -> None:
        if self.forbidden[job.namespace]:
            self._taken_as_right(job)
            return
        try:
            refused = await trials.refusal(job, await self._raw(client, job))
        except Unmet as unmet:
            refused = str(unmet)
        except NotFound:
            if ObjectKey(job.namespace, job.name) in self.written:
                self.refusals[job.id] = ""
                self.new_namespaces.add(job.namespace)
            return  # the namespace is only in a file, or the job was deleted meanwhile
        except (Unreachable, Unauthorized):
            raise
        except ApiError as error:
            if isinstance(error, Forbidden) and lacks_right(error):
                self._taken_as_right(job)
            else:
                self.refusals[job.id] = None
                self.warnings.append(f"the template of {job.namespace}/{job.name} cannot be tried now: {error.message}")
            return
        if needs_trial(job):
            self.refusals[job.id] = refused
        elif refused:
            self.warnings.append(f"{job.namespace}/{job.name} runs on, but no further run could start: {refused}")

    def _taken_as_right(self, job: Job) -> None:
        self.forbidden[job.namespace] += 1
        self.refusals[job.id] = ""

    async def _raw(self, client: Client, job: Job) -> Mapping[str, Any]:
        written = self.written.get(ObjectKey(job.namespace, job.name))
        raw: Mapping[str, Any] | RawObject = (
            await client.get(TRAINING_JOBS.one(job.name, job.namespace)) if written is None else written
        )
        return raw

    def untried(self) -> Iterable[str]:
        """Yield a sentence on jobs whose namespace does not exist yet, and one on jobs that the user may not try."""
        if self.new_namespaces:
            where = ", ".join(sorted(self.new_namespaces))
            yield f"templates in namespace {where} are taken to be right without a dry run: it does not exist yet"
        if not self.forbidden:
            return
        jobs, where = self.forbidden.total(), ", ".join(sorted(self.forbidden))
        yield (
            f"you may not create Jobs in namespace{'s' if len(self.forbidden) > 1 else ''} {where}, so the template"
            f"{f's of {jobs} new jobs are' if jobs > 1 else ' of a new job is'} taken to be right without a dry run"
        )


class ActionKind(StrEnum):
    RENT = "rent"
    RELEASE = "release"
    START = "start"
    MOVE = "move"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a pool's nodes, a rental or a job (``subject``), with its details (``what``) and reason (``why``).

    ``count`` is the number of nodes that a Rent asks for. If ``observed`` is true, the budget is in mode Observe and
    the action will not happen.
    """

    kind: ActionKind
    subject: str
    what: str
    why: str
    count: int = 1
    observed: bool = False

    @property
    def key(self) -> tuple[ActionKind, str, str, bool]:
        """Identity of the action. Two actions with the same key differ only in their reasons and their ``count``."""
        return self.kind, self.subject, self.what, self.observed


@dataclass(frozen=True, slots=True)
class ClassRow:
    """The paths chosen for the jobs of a class, with the mean seconds and dollars of a job over these paths.

    Jobs of one class that differ in ``weight`` or ``menu`` have separate rows. ``jobs`` has the names of the jobs in
    sight as namespace/name, the oldest first.
    """

    budget: BudgetId
    class_id: ClassId
    weight: float
    menu: MenuKey
    arrivals_per_hour: float
    paths: tuple[PathVerdict, ...]
    seconds: float
    dollars: float
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class PlanReport:
    """A snapshot, its plan, and the plan's reasons."""

    snapshot: Snapshot
    plan: Plan
    solutions: tuple[BudgetSolution, ...]
    actions: tuple[Action, ...]
    frontiers: dict[BudgetId, Frontier]

    @cached_property
    def without(self) -> Mapping[BudgetId, tuple[WithoutKind, ...]]:
        """The worth of each kind of capacity, for each budget that has a history and more than one kind."""
        found = {
            solution.budget.id: without_each_kind(solution)
            for solution in self.solutions
            if self.frontiers[solution.budget.id].told
        }
        return {budget: kinds for budget, kinds in found.items() if kinds}

    @property
    def period(self) -> str:
        """The word for the period that the budgets have in common."""
        return common_word(solution.budget.calendar for solution in self.solutions)

    @cached_property
    def sums(self) -> Mapping[BudgetId, PeriodSums]:
        """The parts of each budget's forecast."""
        return {solution.budget.id: period_sums(self.plan.budgets[solution.budget.id]) for solution in self.solutions}

    @cached_property
    def _job_problems(self) -> Mapping[tuple[str, str], Sequence[Problem]]:
        found: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.snapshot.problems:
            if problem.kind == "TrainingJob":
                found.setdefault((problem.namespace, problem.name), []).append(problem)
        return found

    def problems_of(self, job: Job) -> Sequence[Problem]:
        """Return the problems of the job's object."""
        return self._job_problems.get((job.namespace, job.name), ())

    @cached_property
    def given(self) -> Mapping[JobId, Option]:
        """The options of jobs that have GPUs now, get them now, or get them once nodes are ready."""
        return given(self.plan, self.snapshot)

    @cached_property
    def late_pools(self) -> Mapping[PoolId, LaunchWait]:
        """The pools whose next node is expected late."""
        return launch_waits(self.snapshot, rental_index(self.snapshot.rentals, Memo()))

    @cached_property
    def classes(self) -> list[ClassRow]:
        """The rows of all budgets' classes."""
        return [row for solution in self.solutions for row in _classes(solution)]


def plan_report(snapshot: Snapshot) -> PlanReport:
    """Plan the snapshot as the operator would.

    An object with which planning fails is left out and becomes a problem.
    """
    made = plan_around(snapshot, Memo(), {})
    if made.error is not None:
        raise made.error
    planned = made.plan
    if made.faults:
        snapshot = replace(without(snapshot, made.faults), problems=(*snapshot.problems, *planned.problems))
    snapshot = replace(snapshot, problems=(*snapshot.problems, *_unpriced(snapshot.pools.values())))
    solutions = tuple(sorted(made.solutions, key=lambda solution: solution.budget.id))
    actions = (
        *_actions(planned.commands, snapshot, observed=False),
        *_actions(planned.observed_commands, snapshot, observed=True),
    )
    frontiers = {solution.budget.id: Frontier(solution) for solution in solutions}
    return PlanReport(snapshot, planned, solutions, actions, frontiers)


def given(planned: Plan, snapshot: Snapshot) -> Mapping[JobId, Option]:
    """Return the options of jobs that have GPUs now, get them now, or get them once nodes are ready."""
    found = {job.id: job.allocation.option for job in snapshot.jobs.values() if job.allocation is not None}
    for command in (*planned.commands, *planned.observed_commands):
        if isinstance(command, Allocate):
            if command.allocation is None:
                found.pop(command.job, None)
            else:
                found[command.job] = command.allocation.option
    for job, verdict in planned.jobs.items():
        if verdict.option is not None and verdict.reason.code is ReasonCode.WAITING_FOR_NODE:
            found[job] = verdict.option
    return found


def _unpriced(pools: Iterable[Pool]) -> Iterable[Problem]:
    """Yield a problem for each pool that the plan omits because the price of its nodes is unknown."""
    for pool in pools:
        if pool.lacks_price:
            remedy = pool.trouble or "do what the pool's condition Ready says, or set what a node costs"
            message = f"is empty, and the cloud has told no price, so no node is rented: {remedy}"
            yield Problem("GPUPool", "", pool.id, "spec.price.hourly", "NoPrice", message)


def _classes(solution: BudgetSolution) -> list[ClassRow]:
    """Make a row for each class of the budget."""
    rows = []
    jobs: dict[GroupKey, list[str]] = defaultdict(list)
    for job in sorted(solution.inputs.snapshot.jobs.values(), key=lambda job: (job.created, job.namespace, job.name)):
        if job.budget == solution.budget.id and job.id in solution.inputs.facts:
            jobs[solution.key(job)].append(f"{job.namespace}/{job.name}")
    for verdict, (key, assignment) in zip(solution.classes(), solution.assignments.items(), strict=True):
        rows.append(
            ClassRow(
                budget=verdict.budget,
                class_id=verdict.class_id,
                weight=assignment.group.weight,
                menu=key.menu,
                arrivals_per_hour=verdict.arrivals_per_hour,
                paths=verdict.paths,
                seconds=assignment.mean_seconds,
                dollars=assignment.mean_dollars,
                jobs=tuple(jobs[key]),
            )
        )
    return rows


def _actions(commands: Iterable[Command], snapshot: Snapshot, *, observed: bool) -> list[Action]:
    """Turn commands into actions. All nodes of a pool that one budget rents are one action."""
    actions: list[Action] = []
    rents: dict[tuple[PoolId, BudgetId], list[Rent]] = {}
    for command in commands:
        match command:
            case Rent():
                rents.setdefault((command.pool, command.budget), []).append(command)
            case Release(rental, reason):
                actions.append(Action(ActionKind.RELEASE, rental, "", reason.message, observed=observed))
            case Allocate():
                actions.append(_job_action(command, snapshot, observed))
    for (pool, budget), orders in rents.items():
        quote = snapshot.pools[pool].quote
        price = "" if quote is None else f" at {quote.price} each"
        nodes = f"{count(len(orders), 'node')} of {pool}"
        whys = list(dict.fromkeys(rent.reason.message.partition(";")[0] for rent in orders))
        others = f", and {len(whys) - 1} more like it" if len(whys) > 1 else ""
        why = whys[0] + others
        actions.append(Action(ActionKind.RENT, nodes, f"for {budget}{price}", why, len(orders), observed))
    return actions


def _job_action(command: Allocate, snapshot: Snapshot, observed: bool) -> Action:
    job = snapshot.jobs[command.job]
    name, why = f"{job.namespace}/{job.name}", command.reason.message
    before = job.allocation
    if command.allocation is None:
        return Action(
            ActionKind.STOP, name, "" if before is None else f"on {option_name(before.option)}", why, 1, observed
        )
    to = option_name(command.allocation.option)
    if before is None:
        return Action(ActionKind.START, name, f"on {to}", why, 1, observed)
    return Action(ActionKind.MOVE, name, f"from {option_name(before.option)} to {to}", why, 1, observed)
