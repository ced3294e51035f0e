"""One budget's part of a plan while it is made: its solution, its nodes, and what was decided so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Command, PoolVerdict, Reason, ReasonCode, Release, TargetOutlook, Verdict
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.waits import RoomAllotted
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.policy.actions.triage import JobTriage
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.jobs.groups import JobMoves
from charterer.policy.nodes.placement import GpuClaim
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.move_gate import MoveGate
from charterer.policy.outlook.outlook import Outlook
from charterer.policy.outlook.placer import Placer
from charterer.policy.outlook.whole_nodes import CostInSight, PlannedUse, WholeNodes
from charterer.policy.solve.linear_program import NEAR
from charterer.policy.solve.phase_dp import key_of

# What was decided of one budget so far, in the order in which it was decided.


@dataclass(slots=True)
class Decisions:
    """Commands and verdicts of one budget, and when to plan again; what is rented is with its ``Placer``.

    ``not_rented``: committed pools of which not all nodes are rented, and why. ``awaited``: the nodes that a job will
    be given when all of them are ready.
    """

    solution: BudgetSolution
    stops: list[Command] = field(default_factory=list)
    releases: list[Command] = field(default_factory=list)
    places: dict[JobId, Allocate] = field(default_factory=dict)
    verdicts: dict[JobId, Verdict] = field(default_factory=dict)
    pools: dict[PoolId, PoolVerdict] = field(default_factory=dict)
    not_rented: dict[PoolId, ReasonCode] = field(default_factory=dict)
    awaited: dict[JobId, tuple[RentalId, ...]] = field(default_factory=dict)
    again_at: list[Instant] = field(default_factory=list)

    def commands(self, rents: Sequence[Command]) -> list[Command]:
        """All commands; those that free GPUs and money come first, and what is rented last."""
        return [*self.stops, *self.releases, *self.places.values(), *rents]

    def release(self, rental: RentalId, why: Reason) -> None:
        """End a rental."""
        self.releases.append(Release(rental, why))

    def allocate(self, job: Job, option: Option, run: int, placements: tuple[Placement, ...], why: Reason) -> Allocate:
        """Give the job its place."""
        allocation = Allocation(run, option.as_paid, _of_pods(placements, option, job.widths.each), self.solution.now)
        predicted = self._predicted(job, option)
        cost = None if predicted is None else Money.of(predicted.paid_dollars)
        end = None if predicted is None else after(self.solution.now, predicted.seconds)
        given = self.places[job.id] = Allocate(job.id, allocation, why, cost, end)
        return given

    def stop(self, job: Job, why: Reason) -> None:
        """Take the job's place away."""
        self.stops.append(Allocate(job.id, None, why))

    def judge(self, job: Job, option: Option | None, why: Reason) -> None:
        """Keep the verdict on the job."""
        self.verdicts[job.id] = verdict(job, option, why, self.solution.outlook(job))

    def wait(self, job: Job, option: Option, why: Reason, seconds: float) -> None:
        """Keep the verdict on a job for which GPUs are expected to come free in so many seconds."""
        self.verdicts[job.id] = replace(verdict(job, option, why, self.solution.outlook(job)), starts_in=seconds)

    def stays(self, job: Job) -> bool:
        """Whether nothing but that it runs on as it is was decided about a running job."""
        found, allocation = self.verdicts.get(job.id), job.allocation
        if job.id in self.places or allocation is None or found is None or found.option is None:
            return False
        return key_of(found.option) == key_of(allocation.option)

    def _predicted(self, job: Job, option: Option) -> Projection | None:
        """The way of a job that never had GPUs if it starts on this option; None where that is not on its menu.

        Its cost counts at the price that is paid. κ is not in it: κ is learned from it. An interactive job has no end,
        and so no cost up to that.
        """
        assignment = None if job.last_run or job.interactive is not None else self.solution.assignment(job)
        if assignment is None:
            return None
        projections = assignment.values.entering(assignment.position(job))
        return next((projection for projection in projections if key_of(projection.option) == key_of(option)), None)


def _of_pods(placements: tuple[Placement, ...], option: Option, each: int) -> tuple[Placement, ...]:
    """The places of the option's pods, in the order of their indexes, from those of its nodes.

    ``placements``: a node's GPUs each, or a former run's pods, which stay as they are. ``each``: GPUs of a pod; 0: it
    has all that its job has of its node. Pods go evenly onto nodes, which each take as many (``domain.offered_node``).
    A node's empty GPUs are written beside the first pod there.
    """
    if any(place.empty for place in placements) or not (each or option.empty):
        return placements
    size = each or option.gpus
    if not option.empty:
        return tuple([Placement(place.rental, size) for place in placements for _ in range(place.gpus // size)])
    found: list[Placement] = []
    fewest, more = divmod(option.gpus // size, len(placements))
    for number, place in enumerate(placements):
        pods = fewest + (number < more)
        found.append(Placement(place.rental, size, place.gpus - pods * size))
        found += [Placement(place.rental, size)] * (pods - 1)
    return tuple(found)


def verdict(job: Job, option: Option | None, why: Reason, target: TargetOutlook | None = None) -> Verdict:
    """The verdict on a job; its time left is known where its work is."""
    left = None if option is None or job.remaining is None else job.remaining / option.speed
    if left is not None and option is not None and job.allocation is None:
        left += option.entry_seconds
    return Verdict(option, why, left, target)


# How the room of pools that are too small is allotted to the jobs in sight.


@dataclass(frozen=True, slots=True)
class RoomWait:
    """A job's wait for GPUs that come free in ``seconds``. ``end``: on them to its end, the wait included.

    ``instead``: what it could have now, to its end; None where there is nothing. ``until``: seconds after which the
    wait no longer pays, if nothing comes free.
    """

    seconds: float
    end: Projection
    instead: Projection | None = None
    until: float = inf

    @property
    def option(self) -> Option:
        """What it waits for."""
        return self.end.option


@dataclass(frozen=True, slots=True)
class RoomAllotment:
    """``starts``: the options of waiting jobs that get room. ``narrowed``: of running jobs that make it.

    ``waits``: of jobs that get none, for GPUs that are expected to come free. ``pools``: the verdicts on those that
    are too small. ``waiting``: jobs that want their GPUs. ``making_room``: not all of the room of ``starts`` is there
    yet. ``gap``: by which fraction a better answer could be better at most.
    ``any_price``: whether a job waits that is late for its target whatever it gets, so that only time counts for it.
    """

    starts: Mapping[JobId, Option]
    narrowed: Mapping[JobId, Option]
    waits: Mapping[JobId, RoomWait]
    pools: Mapping[PoolId, PoolVerdict]
    waiting: int
    making_room: bool
    gap: float
    any_price: bool = False

    def about(self, pool: PoolId, why: Fact) -> Fact:
        """How a full pool's room is allotted, and what one more node would bring, told after ``why``; only that for
        other pools.
        """
        verdict = self.pools.get(pool)
        if verdict is None:
            return why
        gap = self.gap if self.gap > NEAR else None
        return RoomAllotted(why, pool, self.waiting, gap, self.any_price, verdict.node_scarcity, verdict.payable)


@dataclass(frozen=True, slots=True)
class MovableRun:
    """A running job that must move or may gain by it."""

    assignment: GroupAssignment
    moves: JobMoves


class BudgetPlan:
    """What the rules of ``planner`` read and write.

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
        assignment, takes = self.solution.assignment(job), option.takes
        if assignment is not None:
            takes = min(takes, assignment.group.menu.table.narrowest.get(option.pool, takes))
        fewest = self.snapshot.pools[option.pool].nodes(takes)
        return self.placer.claim(job, option, fewest, only_ready=only_ready, without=without)
