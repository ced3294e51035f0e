"""The Provider of Azure: all pools of one subscription and identity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply, Traits
from charterer.domain.pool import Pool, Quote, Survey
from charterer.providers.azure.autoscale import Autoscale
from charterer.providers.azure.calls import Answer, Calls, Params, Sdk
from charterer.providers.azure.groups import Group
from charterer.providers.azure.hardware import AzureHardware
from charterer.providers.azure.listing import LAG_SECONDS
from charterer.providers.azure.node_pools import NodePools
from charterer.providers.azure.permissions import Call
from charterer.providers.azure.preflight import Preflight
from charterer.providers.azure.prices import Prices
from charterer.providers.azure.scale_sets import ScaleSets
from charterer.providers.azure.scaling import Scaling
from charterer.providers.errors import CloudOutcomeUnknown, InvalidRequest, ProviderError, UnknownCode
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding
from charterer.providers.threads import Sleep
from charterer.providers.understood import understood

TRAITS: Final = Traits(named=False, keeps_trying=True, together=False, lag_seconds=LAG_SECONDS, listed_seconds=0.0)
"""A set that grows may bring VMs until its operation is over, so that what is not wanted is withdrawn."""


class AzureCloud:
    """The Provider of one subscription and identity.

    ``send``: sends a call; by default the SDK. ``clock``: seconds that only grow. ``sleep``: waits between tries.
    """

    def __init__(
        self,
        subscription: str,
        tenant: str,
        client: str,
        send: Callable[[Call, Params], Answer] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._calls = Calls(send or Sdk(subscription, tenant, client), sleep)
        self._clock = clock
        self._hardware = AzureHardware(self._calls, clock)
        self._prices = Prices(self._calls, clock)
        autoscale = Autoscale(self._calls, clock)
        self._sets = ScaleSets(self._calls)
        self._pools = NodePools(self._calls, clock)
        self._scaling = Scaling(self._calls, autoscale)
        self._preflight = Preflight(self._calls, self._hardware, self._prices, autoscale)
        self._sizes: dict[PoolId, str] = {}

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        """Two reads for each pool. VMs are found by their scale set, which no mark that can be lost decides."""
        answers = await asyncio.gather(*(self._survey_or_error(pool) for pool in pools))
        return {pool.id: answer for pool, answer in zip(pools, answers, strict=True)}

    async def _survey_or_error(self, pool: Pool) -> Survey | ProviderError:
        try:
            with understood(pool.id, "survey", UnknownCode):
                return await self._survey(pool)
        except ProviderError as error:
            return error

    async def _survey(self, pool: Pool) -> Survey:
        group, cloud = self._group_of(pool)
        state = await self._scaling.read(pool, group)
        self._sizes[pool.id] = state.size
        offering = await self._hardware.offering(pool, cloud.location, state, cloud.gpu_type)
        return Survey(
            pool=pool.id,
            target=state.wanted,
            ordered=frozenset(),
            instances=tuple([vm.to_domain(state.asked) for vm in state.vms if not (vm.hostless or vm.unnamed)]),
            refusals=tuple(await self._scaling.refusals(pool, state)),
            notices=(),
            asked=state.asked,
            traits=TRAITS,
            offering=offering,
        )

    async def quote(self, pool: Pool) -> Quote:
        """The retail price of the size that the scale set has."""
        with understood(pool.id, "quote", UnknownCode):
            group, cloud = self._group_of(pool)
            if pool.id not in self._sizes:
                self._sizes[pool.id] = (await self._scaling.read(pool, group)).size
            return await self._prices.quote(pool, self._sizes[pool.id], cloud.location)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Raise the capacity to what is wanted, if it is lower; the same orders again change nothing."""
        with understood(pool.id, "ask", CloudOutcomeUnknown):
            return await self._scaling.ask(pool, self._group_of(pool)[0], ask)

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Delete what found no host, or lower the capacity to ``keep``, never below the VMs there are."""
        with understood(pool.id, "withdraw", CloudOutcomeUnknown):
            await self._scaling.withdraw(pool, self._group_of(pool)[0], keep)

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """Delete that VM, if it is in the pool's scale set; the capacity is lowered with it."""
        with understood(pool.id, "terminate", CloudOutcomeUnknown):
            await self._scaling.terminate(pool, self._group_of(pool)[0], instance)

    async def renew(self, pools: Sequence[Pool]) -> None:
        """Nothing: VMs of Azure do not end themselves."""

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """Find what would fail, or cost money by surprise, before the first dollar is spent."""
        with understood(pool.id, "preflight", UnknownCode):
            return await self._preflight.findings(pool, self._group_of(pool)[0])

    async def close(self) -> None:
        """End the threads."""
        self._calls.close()

    def _group_of(self, pool: Pool) -> tuple[Group, AzureScaleSet | AzureNodePool]:
        match pool.cloud:
            case AzureScaleSet() as cloud:
                return self._sets, cloud
            case AzureNodePool() as cloud:
                return self._pools, cloud
            case _:
                raise InvalidRequest(pool.id, "spec", "NotAzure", "this is no pool of Azure")
