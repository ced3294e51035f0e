"""A GPUPoolSet: the GPUPools that its lists declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Cloud, Commitment, Pool
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class DeclaredPool:
    """The spec and the labels of a GPUPool; see ``Pool``."""

    cloud: Cloud
    capacity_type: CapacityType
    max_nodes: int
    start_seconds: float
    cooldown_seconds: float
    price_override: Price | None
    price_adjustment: int
    price_adjusted_until: Instant | None
    committed: Commitment | None
    learns_waits: bool
    labels: Mapping[str, str]

    @classmethod
    def of(cls, pool: Pool) -> DeclaredPool:
        """The declaration in a pool as its object was read, before other data was joined to it."""
        return cls(
            cloud=pool.cloud,
            capacity_type=pool.capacity_type,
            max_nodes=pool.max_nodes,
            start_seconds=pool.start_seconds,
            cooldown_seconds=pool.cooldown_seconds,
            price_override=pool.price_override,
            price_adjustment=pool.price_adjustment,
            price_adjusted_until=pool.price_adjusted_until,
            committed=pool.committed,
            learns_waits=pool.learns_waits,
            labels=pool.labels,
        )

    def sells_as(self, other: DeclaredPool) -> bool:
        """Whether both have the same immutable fields: cloud and capacity type."""
        return self.cloud == other.cloud and self.capacity_type is other.capacity_type


@dataclass(frozen=True, slots=True)
class PoolSet:
    """A GPUPoolSet as the user declared it. ``pools``: all pools that follow from its lists."""

    id: PoolSetId
    uid: str
    generation: int
    created: Instant
    deleting: bool
    pools: Mapping[PoolId, DeclaredPool]
