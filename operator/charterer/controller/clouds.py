"""The clouds as the controller calls them: every call is counted and timed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TypeVar

from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.pool import Pool, Quote, Survey
from charterer.metrics import Metrics
from charterer.providers.errors import ProviderError
from charterer.providers.provider import Drained
from charterer.providers.registry import Registry

T = TypeVar("T")


class InstrumentedProviders:
    """``providers.provider.Provider`` for all pools, whichever cloud they are in."""

    def __init__(self, registry: Registry, metrics: Metrics) -> None:
        self._registry = registry
        self._metrics = metrics

    def by_account(self, pools: Iterable[Pool]) -> list[list[Pool]]:
        """The pools of each account together: what one call can ask about."""
        accounts: dict[int, list[Pool]] = {}
        for pool in pools:
            accounts.setdefault(id(self._registry.provider_for(pool)), []).append(pool)
        return list(accounts.values())

    async def survey(self, pools: Sequence[Pool]) -> Mapping[PoolId, Survey | ProviderError]:
        """What the clouds say of these pools."""
        began = time.perf_counter()
        answers = await self._registry.survey(pools)
        seconds = time.perf_counter() - began
        for pool in pools:
            self._count(pool, "survey", answers[pool.id], seconds)
        return answers

    async def quote(self, pool: Pool) -> Quote:
        """The price of one node."""
        return await self._counted(pool, "quote", self._registry.provider_for(pool).quote(pool))

    async def raise_target(self, pool: Pool, at_least: int, token: str) -> None:
        """Ask for at least so many nodes."""
        call = self._registry.provider_for(pool).raise_target(pool, at_least, token)
        await self._counted(pool, "raise_target", call)

    async def cancel_unfulfilled(self, pool: Pool, keep: int) -> None:
        """Stop asking for what did not come."""
        await self._counted(pool, "cancel", self._registry.provider_for(pool).cancel_unfulfilled(pool, keep))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End one instance."""
        await self._counted(pool, "terminate", self._registry.provider_for(pool).terminate(pool, instance, proof))

    async def close(self) -> None:
        """Close all connections."""
        await self._registry.close()

    async def _counted(self, pool: Pool, call: str, answer: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            result = await answer
        except ProviderError as error:
            self._count(pool, call, error, time.perf_counter() - began)
            raise
        self._count(pool, call, None, time.perf_counter() - began)
        return result

    def _count(self, pool: Pool, call: str, result: object, seconds: float) -> None:
        outcome = result.reason if isinstance(result, ProviderError) else "ok"
        self._metrics.cloud_called(type(pool.cloud).__name__.removesuffix("Group").lower(), call, outcome, seconds)
