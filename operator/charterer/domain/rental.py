"""A rental: one node rented for one budget, from the intent to rent it until its cost is in the ledger.

And gangs: rentals of nodes that a job needs at once (docs/development/adr/0013).
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
"""Most price segments on record: years of spot prices that change some times a day. The oldest of more are summed up
(``billing.abridged``). A changed ``spec.price`` may make more of them; then the last one on record goes on."""
SHORTEST_WAIT_SECONDS: Final = 30.0
"""Seconds for which an incomplete gang is waited for at least: clouds launch machines, or refuse them, one by one."""


class RentalPhase(StrEnum):
    """The phase of a rental; it only moves forward.

    REQUESTED: written, the cloud may or may not have been asked. STARTING: an instance was adopted. READY: its node
    takes pods. DRAINING: it is to be ended (by intent, or because its instance vanished). ENDED: the cloud says the
    instance has ended, or no instance ever came; ``cost`` is final.
    """

    REQUESTED = "Requested"
    STARTING = "Starting"
    READY = "Ready"
    DRAINING = "Draining"
    ENDED = "Ended"


INSTANCE_ENDED: Final = "InstanceEnded"
"""Why a rental ended that nobody had released: the cloud says that its instance has ended."""
VANISHED: Final = "Vanished"
"""The same where the instance left the cloud's lists."""
ENDED_BY_ITSELF: Final = frozenset((INSTANCE_ENDED, VANISHED))


@dataclass(frozen=True, slots=True)
class Gang:
    """Nodes that ``job`` needs at once: it cannot start with fewer than ``nodes`` new ones.

    ``name``: no other gang has it as long as a rental of this one exists. ``job_name``: namespace/name, for people.
    """

    name: str
    job: JobId
    job_name: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Rental:
    """A GPURental. ``reserved`` is its worst-case cost held back from the hard limit until it has ended.

    ``named``: when the cloud's reply named its instance.
    ``missing_since``: the cloud's time of the first list that should have shown its instance and did not.
    ``worst`` is the most it can cost an hour; ``launched``, ``ended`` and ``segments`` come from the cloud.
    ``released_because``: why it drains; ``released``: since when. ``node`` and ``provider_id`` are known once adopted.
    ``held_by``: pods that Charterer did not start, which kept its machine from being ended at the last look. ``cloud``
    and ``capacity_type`` are the pool's, so that the machine can be ended when the pool's object is gone. ``gang``: the
    nodes of which it is one, None where it is of use alone. ``uses``: who held its GPUs, in order, without some that
    ended before ``uses_since`` (None: all are there). ``recorded``: what of its cost is in the record of costs.
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

    @property
    def ordinal(self) -> int:
        """The number at the end of its name ``<pool>-<ordinal>``; 0 of a name that is not so, as of an orphan."""
        pool, _, number = self.id.rpartition("-")
        return int(number) if pool == self.pool and number.isascii() and number.isdecimal() else 0

    @property
    def stays(self) -> bool:
        """Whether it has not ended, and nobody has decided that it is to."""
        return self.phase not in (RentalPhase.DRAINING, RentalPhase.ENDED) and not self.deleting

    @property
    def billed(self) -> bool:
        """Whether the cloud may be billing it now, according to this object."""
        return self.launched is not None and self.ended is None

    def launch(self, machine: Instance) -> Instant:
        """When its ``machine`` was launched first: EC2 tells a later time once it was stopped and started again."""
        return machine.launched if self.launched is None else min(self.launched, machine.launched)

    def as_listed(self, machine: Instance) -> Rental:
        """With what the cloud's list says of its ``machine``; it takes back neither provider id nor node."""
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
        """Its newest price; the worst one until the cloud has listed a price."""
        return self.segments[-1].price if self.segments else self.worst

    @property
    def dearest(self) -> Price:
        """The most it can cost an hour: what was reserved for, or its newest price where that was raised above it."""
        return max(self.worst, self.price)


# --- gangs ------------------------------------------------------------------------------------------------------------


def by_gang(rentals: Iterable[Rental]) -> dict[str, list[Rental]]:
    """The rentals that are of gangs, by the name of the gang and in the order given."""
    gangs: dict[str, list[Rental]] = {}
    for rental in rentals:
        if rental.gang is not None:
            gangs.setdefault(rental.gang.name, []).append(rental)
    return gangs


def has_machine(rental: Rental) -> bool:
    """Whether it has a machine, as far as is on record; it may have ended."""
    return rental.instance is not None or rental.launched is not None


def gang_pending(gang: Gang, members: Iterable[Rental], jobs: Mapping[JobId, Job]) -> bool:
    """Whether the gang's job waits, and was given no GPUs since its first rental was made."""
    job = jobs.get(gang.job)
    if job is None or not job.wants_to_run:
        return False
    made = min(rental.created for rental in members)
    given = [*(() if job.allocation is None else (job.allocation,)), *job.replaced]
    return all(run.since < made for run in (*given, *job.records))


def incomplete_gangs(rentals: Iterable[Rental], jobs: Mapping[JobId, Job]) -> Mapping[str, Sequence[Rental]]:
    """The gangs whose job still waits to start with them and that have too few machines: by name, their rentals."""
    return {
        name: members
        for name, members in by_gang(rentals).items()
        if (gang := members[0].gang) is not None
        and sum(rental.stays and has_machine(rental) for rental in members) < gang.nodes
        and gang_pending(gang, members, jobs)
    }


def gang_deadline(members: Iterable[Rental], start_seconds: float) -> Instant:
    """Until when machines of an incomplete gang are kept: for as long as they would take to start again.

    That counts from the gang's last rental on. Who keeps something for as long as it costs to get it again pays at most
    twice what knowing the future would have cost (Karlin et al. 1988, "Competitive snoopy caching").
    """
    return after(max(rental.created for rental in members), max(start_seconds, SHORTEST_WAIT_SECONDS))
