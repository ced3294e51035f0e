"""One provider for each account that pools are in, with every call to it counted and timed.

A vendor's library is imported only when a pool needs it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias, TypeVar, assert_never

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import FakeGroup, Pool, Quote, Survey
from charterer.providers.errors import CloudOutcomeUnknown, NotLeading, ProviderError
from charterer.providers.provider import Drained, PreflightFinding, Provider

T = TypeVar("T")

MIN_LEADERSHIP: Final = 1.0
"""Seconds of leadership that must be left for a mutation to be sent: enough for a usual answer."""

CallRecorder: TypeAlias = Callable[[str, str, str, float], None]
"""Takes the vendor, the call, its outcome (``ok`` or the error's reason) and its seconds."""

Environment: TypeAlias = Mapping[str, str]
"""Where credentials come from. ``CHARTERER_FAKECLOUD_TOKEN``: the bearer token for fake clouds, if they ask for one."""


def adapter_for(pool: Pool, environ: Environment) -> Provider:
    """The vendor's adapter for that pool's account."""
    match pool.cloud:
        case FakeGroup(endpoint=endpoint):
            from charterer.providers.fake import FakeCloud

            return FakeCloud(endpoint, environ.get("CHARTERER_FAKECLOUD_TOKEN"))
        case _ as never:
            assert_never(never)


def _account_key(pool: Pool) -> tuple[str, str]:
    """Vendor and account."""
    match pool.cloud:
        case FakeGroup():
            return "fake", pool.cloud.account
        case _ as never:
            assert_never(never)


class Account:
    """The Provider of one account: its adapter, with every call counted and timed."""

    def __init__(self, vendor: str, adapter: Provider, record: CallRecorder, fence: Callable[[], float]) -> None:
        self._vendor = vendor
        self._adapter = adapter
        self._record = record
        self._fence = fence

    async def survey(self, pools: Sequence[Pool]) -> Mapping[PoolId, Survey | ProviderError]:
        """As the adapter answers; each pool counts as one call."""
        began = time.perf_counter()
        answers = await self._adapter.survey(pools)
        seconds = time.perf_counter() - began
        for pool in pools:
            self._record(self._vendor, "survey", _outcome(answers[pool.id]), seconds)
        return answers

    async def quote(self, pool: Pool) -> Quote:
        """As the adapter answers."""
        return await self._counted("quote", self._adapter.quote(pool))

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """As the adapter does."""
        return await self._mutation(pool, "ask", lambda: self._adapter.ask(pool, ask))

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """As the adapter does."""
        await self._mutation(pool, "withdraw", lambda: self._adapter.withdraw(pool, orders, keep))

    async def preflight(self, pool: Pool) -> Sequence[PreflightFinding]:
        """As the adapter answers."""
        return await self._counted("preflight", self._adapter.preflight(pool))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """As the adapter does."""
        await self._mutation(pool, "terminate", lambda: self._adapter.terminate(pool, instance, proof))

    async def close(self) -> None:
        """Close all connections."""
        await self._adapter.close()

    async def _mutation(self, pool: Pool, call: str, send: Callable[[], Awaitable[T]]) -> T:
        """Send a mutation unless the lead ends too soon, and give it up when the lead ends."""
        remaining = self._fence()
        if remaining < MIN_LEADERSHIP:
            raise NotLeading(pool.id, call, "NotLeading", f"not sent: this process leads for {remaining:.1f} s more")
        try:
            async with asyncio.timeout(None if remaining == inf else remaining):
                return await self._counted(call, send())
        except TimeoutError as error:
            raise CloudOutcomeUnknown(pool.id, call, "LeadEnded", "no answer while this process led") from error

    async def _counted(self, call: str, answer: Awaitable[T]) -> T:
        began = time.perf_counter()
        try:
            result = await answer
        except ProviderError as error:
            self._record(self._vendor, call, _outcome(error), time.perf_counter() - began)
            raise
        self._record(self._vendor, call, _outcome(result), time.perf_counter() - began)
        return result


class Accounts:
    """The accounts of all pools, each opened when a pool first needs it and kept until ``close``.

    ``fence`` returns the seconds for which this process may still change anything (the Lease's ``remaining``): no
    mutation is sent that could not end before, and none is waited for any longer.
    """

    def __init__(
        self,
        environ: Environment,
        record: CallRecorder = lambda vendor, call, outcome, seconds: None,
        adapter: Callable[[Pool, Environment], Provider] = adapter_for,
        fence: Callable[[], float] = lambda: inf,
    ) -> None:
        self._fence = fence
        self._environ = environ
        self._record = record
        self._adapter = adapter
        self._accounts: dict[tuple[str, str], Account] = {}

    def account_of(self, pool: Pool) -> Account:
        """The account that the pool is in."""
        key = _account_key(pool)
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(
                key[0], self._adapter(pool, self._environ), self._record, self._fence
            )
        return account

    def by_account(self, pools: Iterable[Pool]) -> Mapping[Account, Sequence[Pool]]:
        """The pools of each account together: one survey can ask about all of them."""
        grouped: dict[Account, list[Pool]] = {}
        for pool in pools:
            grouped.setdefault(self.account_of(pool), []).append(pool)
        return grouped

    async def close(self) -> None:
        """Close every account; none may be used afterwards."""
        accounts = list(self._accounts.values())
        self._accounts.clear()
        await asyncio.gather(*(account.close() for account in accounts))


def _outcome(result: object) -> str:
    return result.reason if isinstance(result, ProviderError) else "ok"
