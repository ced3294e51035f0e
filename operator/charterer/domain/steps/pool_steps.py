"""Steps on pools: asking the cloud, and matching what it has with what we asked for."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId, OrderToken, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.nodes.waits import NodeStart
from charterer.domain.order import Ask, CoolDown
from charterer.domain.pool import Instance, Offering, Quote
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class AskCloud:
    """Ask the cloud for all orders of the pool that have no instance yet; what it has on record is not repeated."""

    pool: PoolId
    ask: Ask


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Make the cloud give up these orders, none of which has an instance.

    A cloud that only counts gives up what it wants above ``keep``.
    """

    pool: PoolId
    orders: tuple[OrderToken, ...]
    keep: int


@dataclass(frozen=True, slots=True)
class Cool:
    """Record in the pool's status what the cloud refused, and until when no node is asked for."""

    pool: PoolId
    cool_down: CoolDown


@dataclass(frozen=True, slots=True)
class Reopen:
    """Take out of the pool's status the cool-downs that began at these times: nodes were launched since."""

    pool: PoolId
    since: frozenset[Instant]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Write into the rental's status that this instance is its own (phase Starting; a Draining one stays Draining)."""

    rental: RentalId
    instance: Instance


@dataclass(frozen=True, slots=True)
class RecordOrphan:
    """Create a GPURental for an instance of ours that has none, so that it is paid for, and used or ended."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    instance: Instance
    worst: Price


@dataclass(frozen=True, slots=True)
class CloseUnfulfilled:
    """The rental ends: no instance came for it (phase Ended, cost zero, no times)."""

    rental: RentalId
    because: str


@dataclass(frozen=True, slots=True)
class RecordOffer:
    """Record in the pool's status what the cloud last said of one node and its price, for as long as it is silent.

    ``replaces``: the quote that was on record. ``starts``: of nodes that have become ready since the last record.
    """

    pool: PoolId
    offering: Offering | None
    quote: Quote | None
    replaces: Quote | None = None
    starts: tuple[NodeStart, ...] = ()


@dataclass(frozen=True, slots=True)
class CountLifetime:
    """Add a rental that has ended to what the pool's status says of its nodes' lifetimes.

    ``uid``: of the rental, whose node lived ``hours`` and ended ``at``, with ``others`` of the pool still there.
    ``taken``: by the cloud; ``announced``: with a notice. ``there``: uids of the pool's rentals. ``ordinal``: of the
    rental's name.
    """

    pool: PoolId
    uid: str
    hours: float
    at: Instant
    taken: bool
    announced: bool
    others: int
    there: tuple[str, ...]
    ordinal: int


PoolStep = AskCloud | Withdraw | Cool | Reopen | Adopt | RecordOrphan | CloseUnfulfilled | RecordOffer | CountLifetime
