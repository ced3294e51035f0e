"""The state of one budget's plan while it is made: its solution, its nodes, and the decisions so far."""

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

# The decisions about one budget, in the order in which they were made.


@dataclass(slots=True)
class Decisions:
    """Commands and verdicts of one budget, and the times of next plans. The budget's ``Placer`` has its rented nodes.

    ``not_rented``: committed pools with nodes that are not rented, and why. ``awaited``: the nodes that a job gets when
    all of them are ready.
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
        """All commands: first those that free GPUs and money, last the rentals."""
        return [*self.stops, *self.releases, *self.places.values(), *rents]

    def release(self, rental: RentalId, why: Reason) -> None:
        self.releases.append(Release(rental, why))

    def allocate(self, job: Job, option: Option, run: int, placements: tuple[Placement, ...], why: Reason) -> Allocate:
        """Allocate GPUs to the job."""
        allocation = Allocation(run, option.as_paid, _of_pods(placements, option, job.widths.each), self.solution.now)
        predicted = self._predicted(job, option)
        cost = None if predicted is None else Money.of(predicted.paid_dollars)
        end = None if predicted is None else after(self.solution.now, predicted.seconds)
        given = self.places[job.id] = Allocate(job.id, allocation, why, cost, end)
        return given

    def stop(self, job: Job, why: Reason) -> None:
        """Stop the job and clear its allocation."""
        self.stops.append(Allocate(job.id, None, why))

    def judge(self, job: Job, option: Option | None, why: Reason) -> None:
        """Record the verdict on the job."""
        self.verdicts[job.id] = verdict(job, option, why, self.solution.outlook(job))

    def wait(self, job: Job, option: Option, why: Reason, seconds: float) -> None:
        """Record the verdict on a job that waits for GPUs, which are expected to become free in ``seconds``."""
        self.verdicts[job.id] = replace(verdict(job, option, why, self.solution.outlook(job)), starts_in=seconds)

    def stays(self, job: Job) -> bool:
        """Whether the only decision about a running job is that it goes on unchanged."""
        found, allocation = self.verdicts.get(job.id), job.allocation
        if job.id in self.places or allocation is None or found is None or found.option is None:
            return False
        return key_of(found.option) == key_of(allocation.option)

    def _predicted(self, job: Job, option: Option) -> Projection | None:
        """The projection of a job's first run on the option; None if the job's menu does not have the option.

        The projected cost is at the paid price. The cost factor κ is not applied, because κ is learned from this
        prediction. An interactive job has no end and so no projection.
        """
        assignment = None if job.last_run or job.interactive is not None else self.solution.assignment(job)
        if assignment is None:
            return None
        projections = assignment.values.entering(assignment.position(job))
        return next((projection for projection in projections if key_of(projection.option) == key_of(option)), None)


def _of_pods(placements: tuple[Placement, ...], option: Option, each: int) -> tuple[Placement, ...]:
    """The placements of the option's pods, in the order of their indexes, from the placements of its nodes.

    ``placements``: the GPUs on each node, or the pods of an earlier run, which stay unchanged. ``each``: GPUs of a pod;
    0 if one pod gets all GPUs on its node. Pods are spread evenly over nodes (``domain.offered_node``). A node's empty
    GPUs are recorded with its first pod.
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
    """The verdict on a job. The remaining time is known if the job's remaining work is known."""
    left = None if option is None or job.remaining is None else job.remaining / option.speed
    if left is not None and option is not None and job.allocation is None:
        left += option.entry_seconds
    return Verdict(option, why, left, target)


# The allotment of room in pools that are too small for the jobs in sight.


@dataclass(frozen=True, slots=True)
class RoomWait:
    """A job's wait for GPUs that become free in ``seconds``. ``end``: the projection on these GPUs, with the wait.

    ``instead``: the projection on the best option that the job could have now; None without one. ``until``: seconds
    after which the wait no longer pays if no GPUs become free.
    """

    seconds: float
    end: Projection
    instead: Projection | None = None
    until: float = inf

    @property
    def option(self) -> Option:
        """The option that the job waits for."""
        return self.end.option


@dataclass(frozen=True, slots=True)
class RoomAllotment:
    """``starts``: options of waiting jobs that get room. ``narrowed``: new options of running jobs that make room.

    ``waits``: waits of jobs without room, for GPUs that are expected to become free. ``pools``: verdicts on pools
    that are too small. ``waiting``: number of jobs that wait for GPUs. ``making_room``: part of the room for
    ``starts`` is still in use. ``gap``: the largest fraction by which another allotment could be better.
    ``any_price``: a waiting job is late for its target whatever it gets, so that only time counts for it.
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
        """``why``, followed by the allotment of a full pool's room and the value of one more node. Other pools: only
        ``why``."""
        verdict = self.pools.get(pool)
        if verdict is None:
            return why
        gap = self.gap if self.gap > NEAR else None
        return RoomAllotted(why, pool, self.waiting, gap, self.any_price, verdict.node_scarcity, verdict.payable)


@dataclass(frozen=True, slots=True)
class MovableRun:
    """A running job that must move, or that may benefit from moving."""

    assignment: GroupAssignment
    moves: JobMoves


class BudgetPlan:
    """The state that the rules of ``planner`` read and write.

    ``jobs``: the triage of the budget's jobs. ``ending``: rentals that end, with the reason. ``allotment``: the room of
    pools that are too small. ``movable``: running jobs that must move or may benefit from it. ``whole``: the options
    that jobs choose together; None before the choice, and if pools are too small.
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
        """Whether jobs are giving up GPUs for waiting jobs. Then no other run moves in this plan."""
        return self.allotment is not None and self.allotment.making_room

    def choose_together(self, waiting: Sequence[Job]) -> None:
        """Choose options for waiting and running jobs together, by the whole bill of their nodes."""
        running = {name: facts for kept in self.jobs.running for name, facts in kept.runners.items()}
        movable = frozenset(name for kept in self.jobs.running for name in kept.group.movable)
        whole = WholeNodes(self.solution, self.placer, self.gate, waiting, running, movable)
        self.whole = whole if whole.in_force else None

    def in_sight(self) -> CostInSight:
        """The cost of the jobs in sight for the rest of the period, by the plan so far."""
        decided = self.decided
        ended = {release.rental for release in decided.releases if isinstance(release, Release)}
        plan = PlannedUse(decided.places, decided.awaited, decided.verdicts, ended)
        return CostInSight(self.solution, self.placer, plan)

    def claim(self, job: Job, option: Option, *, only_ready: bool = False, without: RentalId | None = None) -> GpuClaim:
        """Free GPUs for a job, or why there are none (``Placer.claim``)."""
        assignment, takes = self.solution.assignment(job), option.takes
        if assignment is not None:
            takes = min(takes, assignment.group.menu.table.narrowest.get(option.pool, takes))
        fewest = self.snapshot.pools[option.pool].nodes(takes)
        return self.placer.claim(job, option, fewest, only_ready=only_ready, without=without)
