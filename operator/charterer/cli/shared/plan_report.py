"""A plan with its reasons: the solutions of its budgets, their frontiers, and its commands as actions for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, ClassId, PoolId
from charterer.domain.job import Job
from charterer.domain.plan import Allocate, Command, PathVerdict, Plan, Release, Rent
from charterer.domain.pool import Pool
from charterer.domain.reasons.phrases import name as option_name
from charterer.domain.snapshot import Snapshot
from charterer.incremental import Memo
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.capacity_kinds import WithoutKind, without_each_kind
from charterer.policy.explain.frontier import Frontier
from charterer.policy.explain.month_sums import MonthSums, month_sums
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.nodes.pool_quota import LaunchWait, launch_waits
from charterer.policy.nodes.rental_index import rental_index
from charterer.policy.options.menu_key import MenuKey
from charterer.policy.set_aside import plan_around, without
from charterer.sentences import count


class ActionKind(StrEnum):
    """The kind of an action."""

    RENT = "rent"
    RELEASE = "release"
    START = "start"
    MOVE = "move"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a pool's nodes, a rental or a job (``subject``), with its details (``what``) and reason.

    ``count``: nodes that it rents. ``observed``: its budget is in mode Observe, so it will not happen.
    """

    kind: ActionKind
    subject: str
    what: str
    why: str
    count: int = 1
    observed: bool = False

    @property
    def key(self) -> tuple[ActionKind, str, str, bool]:
        """Two actions with the same key differ only in their reasons."""
        return self.kind, self.subject, self.what, self.observed


@dataclass(frozen=True, slots=True)
class ClassRow:
    """The paths that jobs of a class are given, and the mean seconds and dollars of a job, mixing included.

    Jobs of one class with other terms (``weight``, and what decides the ``menu``) have a row of their own.
    ``jobs``: its jobs in sight, as namespace/name, the oldest first.
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
        """The worth of each kind of capacity to each budget with a history; only of those that have more than one."""
        found = {
            solution.budget.id: without_each_kind(solution)
            for solution in self.solutions
            if self.frontiers[solution.budget.id].told
        }
        return {budget: kinds for budget, kinds in found.items() if kinds}

    @cached_property
    def sums(self) -> Mapping[BudgetId, MonthSums]:
        """What each budget's forecast is made of."""
        return {solution.budget.id: month_sums(self.plan.budgets[solution.budget.id]) for solution in self.solutions}

    @cached_property
    def _job_problems(self) -> Mapping[tuple[str, str], Sequence[Problem]]:
        found: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.snapshot.problems:
            if problem.kind == "TrainingJob":
                found.setdefault((problem.namespace, problem.name), []).append(problem)
        return found

    def problems_of(self, job: Job) -> Sequence[Problem]:
        """The problems of the job's own object."""
        return self._job_problems.get((job.namespace, job.name), ())

    @property
    def late_pools(self) -> Mapping[PoolId, LaunchWait]:
        """The pools whose next node is expected late."""
        return launch_waits(self.snapshot, rental_index(self.snapshot.rentals, Memo()))

    @property
    def classes(self) -> list[ClassRow]:
        """The classes of all budgets."""
        return [row for solution in self.solutions for row in _classes(solution)]


def plan_report(snapshot: Snapshot) -> PlanReport:
    """Plan the snapshot as the operator would. Objects with which planning fails are left out, and are its problems."""
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


def _unpriced(pools: Iterable[Pool]) -> Iterable[Problem]:
    """That a pool is left out, because nobody says what a node costs."""
    for pool in pools:
        if pool.lacks_price:
            remedy = pool.trouble or "do what the pool's condition Ready says, or set what a node costs"
            message = f"is empty, and the cloud has told no price, so no node is rented: {remedy}"
            yield Problem("GPUPool", "", pool.id, "spec.price.hourly", "NoPrice", message)


def _classes(solution: BudgetSolution) -> list[ClassRow]:
    """A row for each class of the budget."""
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
                menu=key[1],
                arrivals_per_hour=verdict.arrivals_per_hour,
                paths=verdict.paths,
                seconds=assignment.mean_seconds,
                dollars=assignment.mean_dollars,
                jobs=tuple(jobs[key]),
            )
        )
    return rows


def _actions(commands: Iterable[Command], snapshot: Snapshot, *, observed: bool) -> list[Action]:
    """The commands as actions; nodes of one pool that are rented for one budget are one action."""
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
