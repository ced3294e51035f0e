"""A GPUPoolSet: which GPUPools there are to be, as its lists say, and what each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from charterer.domain.ids import PoolId, PoolSetId
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType, Cloud, Commitment, Pool
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class DeclaredPool:
    """What the spec and the labels of a GPUPool say; see ``Pool``."""

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
        """What a pool says, as its object was read: before anything was joined to it."""
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
        """Whether both say the same of what cannot be changed: the cloud, and the capacity type."""
        return self.cloud == other.cloud and self.capacity_type is other.capacity_type


@dataclass(frozen=True, slots=True)
class PoolSet:
    """A GPUPoolSet as the user declared it, with all the pools that follow from its lists."""

    id: PoolSetId
    uid: str
    generation: int
    created: Instant
    deleting: bool
    pools: Mapping[PoolId, DeclaredPool]
