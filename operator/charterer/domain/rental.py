"""A rental: one node rented for one budget, from the intent to rent it until its cost is in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import BudgetId, InstanceId, NodeName, PoolId, RentalId
from charterer.domain.money import Money, Price
from charterer.domain.pool import CapacityType, Cloud, PriceSegment
from charterer.domain.time import Instant


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


@dataclass(frozen=True, slots=True)
class Rental:
    """A GPURental. ``reserved`` is its worst-case cost held back from the hard limit until it has ended.

    ``missing_since``: the cloud's time of the first list that should have shown its instance and did not.
    ``worst`` is the most it can cost an hour; ``launched``, ``ended`` and ``segments`` come from the cloud.
    ``released_because``: why it drains; ``released``: since when. ``node`` and ``provider_id`` are known once adopted.
    ``held_by``: pods that Charterer did not start, which kept its machine from being ended at the last look. ``cloud``
    and ``capacity_type`` are the pool's, so that the machine can be ended when the pool's object is gone.
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
    released: Instant | None = None
    held_by: str = ""

    @property
    def billed(self) -> bool:
        """Whether the cloud may be billing it now, according to this object."""
        return self.launched is not None and self.ended is None

    @property
    def price(self) -> Price:
        """Its newest price; the worst one until the cloud has listed a price."""
        return self.segments[-1].price if self.segments else self.worst

    @property
    def dearest(self) -> Price:
        """The most it can cost an hour: what was reserved for, or its newest price where that was raised above it."""
        return max(self.worst, self.price)
