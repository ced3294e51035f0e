"""Steps on pools: asking the cloud, and matching what it has with what we asked for."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.pool import Instance, Offering, Quote
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class RaiseTarget:
    """Ask the cloud for at least this many nodes (absolute). ``token`` makes a repeated call one call."""

    pool: PoolId
    at_least: int
    token: str


@dataclass(frozen=True, slots=True)
class CancelUnfulfilled:
    """Lower the target to ``keep``, which the cloud refuses if it would end an existing instance."""

    pool: PoolId
    keep: int


@dataclass(frozen=True, slots=True)
class Cool:
    """Record in the pool's status that no node is asked for before ``until``."""

    pool: PoolId
    until: Instant
    because: str
    message: str


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

    ``replaces``: the quote that was on record.
    """

    pool: PoolId
    offering: Offering | None
    quote: Quote | None
    replaces: Quote | None = None


PoolStep = RaiseTarget | CancelUnfulfilled | Cool | Adopt | RecordOrphan | CloseUnfulfilled | RecordOffer
