"""One budget's part of a plan while it is made: its solution, its nodes, and what was decided so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.option import Option
from charterer.domain.plan import Reason, Release
from charterer.domain.snapshot import Snapshot
from charterer.policy.actions.decisions import Decisions
from charterer.policy.actions.room_allotment import RoomAllotment
from charterer.policy.actions.triage import JobTriage
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.moves import JobMoves
from charterer.policy.nodes.placement import GpuClaim
from charterer.policy.outlook.cost_in_sight import CostInSight, PlannedUse
from charterer.policy.outlook.move_gate import MoveGate
from charterer.policy.outlook.outlook import Outlook
from charterer.policy.outlook.placer import Placer
from charterer.policy.outlook.whole_nodes import WholeNodes


@dataclass(frozen=True, slots=True)
class MovableRun:
    """A running job that must move or may gain by it."""

    assignment: GroupAssignment
    moves: JobMoves


class BudgetPlan:
    """What the rules of ``budget_actions`` read and write.

    ``jobs``: what is to be done with each. ``ending``: rentals that end, and why. ``allotment``: the room of
    pools that are too small. ``movable``: running jobs that must move or may gain by it. ``whole``: what jobs choose
    together; None before that, and where pools are too small.
    """

    def __init__(
        self, solution: BudgetSolution, placer: Placer, jobs: JobTriage, ending: Mapping[RentalId, Reason]
    ) -> None:
        self.solution = solution
        self.ending = ending
        self.snapshot: Snapshot = solution.inputs.snapshot
        self.placer = placer
        self.jobs = jobs
        self.outlook = Outlook(solution, placer)
        self.gate = MoveGate(solution)
        self.decided = Decisions(solution)
        self.allotment: RoomAllotment | None = None
        self.movable: list[MovableRun] = []
        self.whole: WholeNodes | None = None

    @property
    def making_room(self) -> bool:
        """Whether GPUs are about to be left for jobs that wait: then nobody else moves in this plan."""
        return self.allotment is not None and self.allotment.making_room

    def choose_together(self, waiting: Sequence[Job]) -> None:
        """Find what the jobs that wait, and those that run on, choose with the whole bill of their nodes."""
        running = {name: facts for kept in self.jobs.running for name, facts in kept.runners.items()}
        movable = frozenset(name for kept in self.jobs.running for name in kept.group.movable)
        whole = WholeNodes(self.solution, self.placer, self.gate, waiting, running, movable)
        self.whole = whole if whole.in_force else None

    def in_sight(self) -> CostInSight:
        """What the jobs in sight still cost in the period, as the plan leaves them so far."""
        decided = self.decided
        ended = {release.rental for release in decided.releases if isinstance(release, Release)}
        plan = PlannedUse(decided.places, decided.awaited, decided.verdicts, ended)
        return CostInSight(self.solution, self.placer, plan)

    def claim(self, job: Job, option: Option, *, only_ready: bool = False, without: RentalId | None = None) -> GpuClaim:
        """GPUs for a job, or why there are none (``Placer.claim``)."""
        assignment, nodes = self.solution.assignment(job), self.placer.nodes
        others = () if assignment is None else assignment.group.menu.options
        fewest = min([nodes(each) for each in (option, *others) if each.pool == option.pool])
        return self.placer.claim(job, option, fewest, only_ready=only_ready, without=without)
