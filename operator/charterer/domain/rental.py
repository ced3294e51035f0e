"""A rental: one node rented for one budget, from the intent to rent it until its cost is in the ledger.

A gang is a set of rentals whose nodes a job needs at once (docs/development/adr/0013).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from charterer.domain.cost_row import RecordedCost, Use
from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.pool import CapacityType, Cloud, Instance, PriceSegment
from charterer.domain.time import Instant, after

SEGMENTS_KEPT: Final = 2_000
"""Maximum number of recorded price segments: enough for years of spot prices that change a few times a day. Older
segments are merged (``billing.abridged``). A changed ``spec.price`` may lead to more segments; then the last recorded
one is extended."""
SHORTEST_WAIT_SECONDS: Final = 30.0
"""Minimum seconds to wait for an incomplete gang, because clouds launch or refuse machines one by one."""


class RentalPhase(StrEnum):
    """The phase of a rental, which only moves forward.

    REQUESTED: the object is written; the cloud may or may not have got the request. STARTING: an instance was adopted.
    READY: its node takes pods. DRAINING: the rental is to be ended by intent, or its instance vanished. ENDED: the
    cloud reports that the instance has ended, or no instance ever came; ``cost`` is final.
    """

    REQUESTED = "Requested"
    STARTING = "Starting"
    READY = "Ready"
    DRAINING = "Draining"
    ENDED = "Ended"


INSTANCE_ENDED: Final = "InstanceEnded"
"""Why a rental ended that nobody had released: the cloud reports that its instance has ended."""
VANISHED: Final = "Vanished"
"""Why a rental ended that nobody had released: its instance disappeared from the cloud's lists."""
ENDED_BY_ITSELF: Final = frozenset((INSTANCE_ENDED, VANISHED))


@dataclass(frozen=True, slots=True)
class Gang:
    """Nodes that ``job`` needs at once: it cannot start with fewer than ``nodes`` new nodes.

    ``name``: unique among gangs as long as a rental of this gang exists. ``job_name``: namespace/name, for people.
    """

    name: str
    job: JobId
    job_name: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Rental:
    """A GPURental. ``reserved``: its worst-case cost, which is held back from the hard limit until it has ended.

    ``named``: when the cloud's reply named its instance. ``missing_since``: the cloud's time of the first list that
    should have shown its instance but did not. ``worst``: the most that the rental can cost per hour. ``launched``,
    ``ended``, ``segments``: data from the cloud. ``released_because``, ``released``: why and since when it drains.
    ``node``, ``provider_id``: known after an instance was adopted. ``held_by``: pods not started by Charterer that, at
    the last check, kept its machine from being ended. ``cloud``, ``capacity_type``: copied from its pool, so that the
    machine can be ended after the pool's object is deleted. ``gang``: the gang of the rental; None if the node is
    useful alone. ``uses``: the uses of its GPUs, in order. Some uses that ended before ``uses_since`` are missing
    (None: all uses are there). ``recorded``: the part of its cost that is in the record of costs. ``gpu_type``: the GPU
    type of its node, as it was with the first use. ``dropped_gpu_time``: GPU-microseconds, since ``dropped_from``
    (None: ever), of the uses that are missing.
    """

    id: RentalId
    uid: str
    resource_version: str
    pool: PoolId
    cloud: Cloud
    capacity_type: CapacityType
    budget: BudgetId
    created: Instant
    phase: RentalPhase
    reserved: Money
    worst: Price
    billing_minimum_seconds: int
    segments: tuple[PriceSegment, ...]
    instance: InstanceId | None
    provider_id: str
    node: NodeName | None
    launched: Instant | None
    ready: Instant | None
    ended: Instant | None
    cost: Money | None
    released_because: str
    deleting: bool
    missing_since: Instant | None = None
    named: Instant | None = None
    released: Instant | None = None
    held_by: str = ""
    gang: Gang | None = None
    uses: tuple[Use, ...] = ()
    uses_since: Instant | None = None
    recorded: RecordedCost | None = None
    gpu_type: str = ""
    dropped_gpu_time: int = 0
    dropped_from: Instant | None = None

    def dropped_since(self, start: Instant) -> int:
        """GPU-microseconds since ``start`` of the uses that are missing. All of it if some of them ended later."""
        return self.dropped_gpu_time if self.uses_since is not None and self.uses_since > start else 0

    def without_uses(self, dropped: Sequence[Use]) -> Rental:
        """The rental without some of its uses, which have ended; their GPU-time is kept. They are in order of their
        ends."""
        gone = {id(use) for use in dropped}
        kept = tuple([use for use in self.uses if id(use) not in gone])
        start = self.dropped_from or 0
        held = [use.gpus * max((use.until or use.since) - max(use.since, start), 0) for use in dropped]
        time = self.dropped_gpu_time + sum(held)
        return replace(self, uses=kept, uses_since=dropped[-1].until, dropped_gpu_time=time)

    @property
    def ordinal(self) -> int:
        """The number at the end of its name ``<pool>-<ordinal>``; 0 for another form of name, such as an orphan's."""
        pool, _, number = self.id.rpartition("-")
        return int(number) if pool == self.pool and number.isascii() and number.isdecimal() else 0

    @property
    def stays(self) -> bool:
        """Whether the rental has not ended and is not to be ended."""
        return self.phase not in (RentalPhase.DRAINING, RentalPhase.ENDED) and not self.deleting

    @property
    def billed(self) -> bool:
        """Whether the cloud may be billing the rental now, according to this object."""
        return self.launched is not None and self.ended is None

    def launch(self, machine: Instance) -> Instant:
        """When ``machine`` was first launched. EC2 reports a later time after an instance was stopped and started
        again."""
        return machine.launched if self.launched is None else min(self.launched, machine.launched)

    def as_listed(self, machine: Instance) -> Rental:
        """The rental with the data of its ``machine`` in the cloud's list. A known provider id or node is never
        removed."""
        return replace(
            self,
            instance=machine.id,
            provider_id=machine.provider_id or self.provider_id,
            node=machine.node or self.node,
            launched=self.launch(machine),
            segments=machine.segments[:SEGMENTS_KEPT],
            billing_minimum_seconds=machine.billing_minimum_seconds,
        )

    @property
    def price(self) -> Price:
        """The newest price per hour; the worst price until the cloud has listed one."""
        return self.segments[-1].price if self.segments else self.worst

    @property
    def dearest(self) -> Price:
        """The most that the rental can cost per hour: its worst price, or its newest price if that
        was raised above it."""
        return max(self.worst, self.price)


# --- gangs ------------------------------------------------------------------------------------------------------------


def by_gang(rentals: Iterable[Rental]) -> dict[str, list[Rental]]:
    """The rentals that belong to gangs, by name of the gang and in the given order."""
    gangs: dict[str, list[Rental]] = {}
    for rental in rentals:
        if rental.gang is not None:
            gangs.setdefault(rental.gang.name, []).append(rental)
    return gangs


def has_machine(rental: Rental) -> bool:
    """Whether the rental has or had a machine, as far as recorded."""
    return rental.instance is not None or rental.launched is not None


def gang_pending(gang: Gang, members: Iterable[Rental], jobs: Mapping[JobId, Job]) -> bool:
    """Whether the gang's job waits, and got no GPUs since the gang's first rental was created."""
    job = jobs.get(gang.job)
    if job is None or not job.wants_to_run:
        return False
    made = min(rental.created for rental in members)
    given = [*(() if job.allocation is None else (job.allocation,)), *job.replaced]
    return all(run.since < made for run in (*given, *job.records))


def incomplete_gangs(rentals: Iterable[Rental], jobs: Mapping[JobId, Job]) -> Mapping[str, Sequence[Rental]]:
    """The gangs with too few machines whose job still waits for them: by name, their rentals."""
    return {
        name: members
        for name, members in by_gang(rentals).items()
        if (gang := members[0].gang) is not None
        and sum(rental.stays and has_machine(rental) for rental in members) < gang.nodes
        and gang_pending(gang, members, jobs)
    }


def gang_deadline(members: Iterable[Rental], start_seconds: float) -> Instant:
    """The time until which machines of an incomplete gang are kept, which is as long as starting them again would
    take.

    The time counts from the creation of the gang's last rental. To keep something until keeping it has cost as much
    as getting it again is at most twice as expensive as the best decision with knowledge of the future (Karlin et al.
    1988, "Competitive snoopy caching").
    """
    return after(max(rental.created for rental in members), max(start_seconds, SHORTEST_WAIT_SECONDS))
