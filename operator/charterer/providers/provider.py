"""The interface that every cloud's adapter has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from charterer.domain.ids import InstanceId, NodeName, PoolId
from charterer.domain.pool import Pool, Quote, Survey
from charterer.domain.time import Instant
from charterer.providers.errors import ProviderError


@dataclass(frozen=True, slots=True)
class Drained:
    """Proof that an uncached look at ``checked`` found no live pod on ``node`` (None: no Node ever appeared).

    Made only by the controller's check, right before the instance is ended.
    """

    node: NodeName | None
    checked: Instant


class Provider(Protocol):
    """One account of one cloud. Every call may raise a ProviderError.

    Reads are tried again by the adapter, a bounded number of times; a mutation is sent once, and when nobody knows
    whether it took effect it raises OutcomeUnknown: look before repeating it.
    """

    async def survey(self, pools: Sequence[Pool]) -> Mapping[PoolId, Survey | ProviderError]:
        """What the cloud says of each pool, or why it could not be asked: one pool's error hides no other pool."""
        ...

    async def quote(self, pool: Pool) -> Quote:
        """The cloud's price of one node; the pool's own override or adjustment is not applied."""
        ...

    async def raise_target(self, pool: Pool, at_least: int, token: str) -> None:
        """Make the cloud want at least that many nodes; never lowers. The same token again is the same call."""
        ...

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End that one instance and lower the target with it; succeeds when the instance is not there any more."""
        ...

    async def cancel_unfulfilled(self, pool: Pool, keep: int) -> None:
        """Lower the target to ``keep``; never raises it. WouldTerminate when more instances than that exist."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
