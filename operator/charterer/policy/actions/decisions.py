"""What was decided of one budget so far, in the order in which it was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Command, PoolVerdict, Reason, ReasonCode, Release, TargetOutlook, Verdict
from charterer.domain.time import Instant
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.solve.phase_dp import key_of


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
        given = self.places[job.id] = Allocate(job.id, allocation, why, self._predicted(job, option))
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

    def _predicted(self, job: Job, option: Option) -> Money | None:
        """Expected cost of a job that never had GPUs if it starts on this option; None where that is not on its menu.

        At the price that is paid, as its cost is counted. κ is not in it: κ is learned from it. An interactive job has
        no end, and so no cost up to that.
        """
        assignment = None if job.last_run or job.interactive is not None else self.solution.assignment(job)
        if assignment is None:
            return None
        projections = assignment.values.entering(assignment.position(job))
        dollars = next(
            (projection.paid_dollars for projection in projections if key_of(projection.option) == key_of(option)), None
        )
        return None if dollars is None else Money.of(dollars)


def _of_pods(placements: tuple[Placement, ...], option: Option, each: int) -> tuple[Placement, ...]:
    """The places of the option's pods, in the order of their indexes, from those of its nodes.

    ``placements``: a node's GPUs each, or a former run's pods, which stay as they are. ``each``: GPUs of a pod; 0: it
    has all that its job has of its node. Pods go evenly onto nodes, which each take as many (``domain.nodes.packing``).
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
