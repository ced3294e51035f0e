"""A cloud for tests of what its calls are wrapped in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order, Reply, Traits
from charterer.domain.pool import Pool, Quote, Survey
from charterer.providers.accounts import Accounts
from charterer.providers.errors import (
    ProviderError,
)
from charterer.providers.guarded import CallLimits, Guarded, Guards
from charterer.providers.provider import NONE_KNOWN, Drained, KnownMachines, PreflightFinding
from tests import factory as make

POOL = make.pool()
NAMED = Traits(named=True, keeps_trying=True, together=False, lag_seconds=20.0, listed_seconds=60.0)
COUNTED = replace(NAMED, named=False, lag_seconds=0.0)
LIMITS = CallLimits(survey=5.0, quote=6.0, ask=7.0, withdraw=8.0, terminate=9.0, renew=11.0, preflight=10.0, at_once=2)


class SlowCloud:
    """A cloud whose calls take ``seconds`` each. ``sent``: those that began; ``most``: at the same time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.error: Exception | None = None
        self.price = make.PRICE
        self.running = self.most = 0
        self.sent: list[str] = []
        self.surveys: dict[PoolId, Survey] = {}
        self.reply = Reply()

    async def survey(
        self, pools: Sequence[Pool], known: KnownMachines = NONE_KNOWN
    ) -> Mapping[PoolId, Survey | ProviderError]:
        await self._call("survey")
        return {pool.id: self.surveys.get(pool.id, make.survey(pool=pool.id)) for pool in pools}

    async def quote(self, pool: Pool) -> Quote:
        await self._call("quote")
        return Quote(self.price, self.price, 60, "the list", make.T0)

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        await self._call("ask")
        return self.reply

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        await self._call("withdraw")

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        await self._call("terminate")

    async def renew(self, pools: Sequence[Pool]) -> None:
        await self._call("renew")

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        await self._call("preflight")
        return []

    async def close(self) -> None:
        """Nothing is open."""

    async def _call(self, name: str) -> None:
        self.sent.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
        finally:
            self.running -= 1


def guarded(cloud: SlowCloud, **guards: Any) -> Guarded:
    made = Guards(**({"calls": LIMITS} | guards))
    return Accounts({}, made, adapter=lambda pool, environ: cloud).account_of(POOL)


def ask(*tokens: str, at_least: int | None = None) -> Ask:
    orders = tuple(Order(OrderToken(token), RentalId(f"a100-{token}")) for token in tokens)
    return Ask(orders, len(orders) if at_least is None else at_least)
