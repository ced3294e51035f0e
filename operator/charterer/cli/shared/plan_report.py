"""A plan with everything that was thought on the way, and its commands as things that happen to nodes and jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import BudgetId, ClassId, PoolId
from charterer.domain.plan import Allocate, Command, PathVerdict, Plan, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.policy.budgets import reasons
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import Frontier, expected
from charterer.policy.planner import plan, standings


class ActionKind(StrEnum):
    """What happens."""

    RENT = "rent"
    RELEASE = "release"
    START = "start"
    MOVE = "move"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that would happen to a pool's nodes, a rental or a job (``subject``), how (``what``), and why.

    ``count``: nodes rented in one go. ``observed``: its budget only observes, so it will not happen.
    """

    kind: ActionKind
    subject: str
    what: str
    why: str
    count: int = 1
    observed: bool = False

    @property
    def key(self) -> tuple[ActionKind, str, str, bool]:
        """What makes two actions the same, whatever the reasons."""
        return self.kind, self.subject, self.what, self.observed


@dataclass(frozen=True, slots=True)
class ClassRow:
    """What the jobs of a class are given, and what one of them then takes and costs on average, mixing included."""

    budget: BudgetId
    class_id: ClassId
    weight: float
    arrivals_per_hour: float
    paths: tuple[PathVerdict, ...]
    seconds: float
    dollars: float


@dataclass(frozen=True, slots=True)
class PlanReport:
    """One snapshot thought through."""

    snapshot: Snapshot
    plan: Plan
    standings: tuple[BudgetSolution, ...]
    actions: tuple[Action, ...]
    frontiers: dict[BudgetId, Frontier]

    @property
    def classes(self) -> list[ClassRow]:
        """The classes of all budgets."""
        return [row for standing in self.standings for row in _classes(standing)]


def plan_report(snapshot: Snapshot) -> PlanReport:
    """What the operator would do and why."""
    decided = plan(snapshot)
    stood = tuple(sorted(standings(snapshot), key=lambda one: one.budget.id))
    actions = (
        *_actions(decided.commands, snapshot, observed=False),
        *_actions(decided.observed_commands, snapshot, observed=True),
    )
    return PlanReport(snapshot, decided, stood, actions, {one.budget.id: Frontier(one) for one in stood})


def _classes(standing: BudgetSolution) -> list[ClassRow]:
    """The only place that knows how a standing tells what a class is given."""
    rows = []
    for verdict, share in zip(standing.classes(), standing.shares.values(), strict=True):
        seconds, dollars = expected(share)
        rows.append(
            ClassRow(
                budget=verdict.budget,
                class_id=verdict.class_id,
                weight=share.group.weight,
                arrivals_per_hour=verdict.arrivals_per_hour,
                paths=verdict.paths,
                seconds=seconds,
                dollars=dollars,
            )
        )
    return rows


def _actions(commands: Iterable[Command], snapshot: Snapshot, *, observed: bool) -> list[Action]:
    """The commands in the words of a person; nodes of a pool rented for one budget are one action."""
    actions: list[Action] = []
    rents: dict[tuple[PoolId, BudgetId], list[Rent]] = {}
    for command in commands:
        match command:
            case Rent():
                rents.setdefault((command.pool, command.budget), []).append(command)
            case Release(rental, reason):
                actions.append(Action(ActionKind.RELEASE, rental, "", reason.message, observed=observed))
            case Allocate():
                actions.append(_of_job(command, snapshot, observed))
    for (pool, budget), alike in rents.items():
        quote = snapshot.pools[pool].quote
        price = "" if quote is None else f" at {quote.price} each"
        nodes = f"{len(alike)} node{'' if len(alike) == 1 else 's'} of {pool}"
        whys = list(dict.fromkeys(rent.reason.message.partition(";")[0] for rent in alike))
        others = f", and {len(whys) - 1} more like it" if len(whys) > 1 else ""
        why = whys[0] + others
        actions.append(Action(ActionKind.RENT, nodes, f"for {budget}{price}", why, len(alike), observed))
    return actions


def _of_job(command: Allocate, snapshot: Snapshot, observed: bool) -> Action:
    job = snapshot.jobs[command.job]
    name, why = f"{job.namespace}/{job.name}", command.reason.message
    before = job.allocation
    if command.allocation is None:
        return Action(
            ActionKind.STOP, name, "" if before is None else f"on {reasons.name(before.option)}", why, 1, observed
        )
    to = reasons.name(command.allocation.option)
    if before is None:
        return Action(ActionKind.START, name, f"on {to}", why, 1, observed)
    return Action(ActionKind.MOVE, name, f"from {reasons.name(before.option)} to {to}", why, 1, observed)
