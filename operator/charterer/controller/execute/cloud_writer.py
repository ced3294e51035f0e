"""Mutations of clouds, each followed by a survey of the pool, also after a failure, since it may have happened."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from charterer.controller.surveys import Surveys
from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts
from charterer.providers.errors import ProviderError
from charterer.providers.provider import Drained

T = TypeVar("T")


class CloudWriter:
    """The mutating calls of ``providers.provider.Provider``. All raise ProviderError."""

    def __init__(self, accounts: Accounts, surveys: Surveys) -> None:
        self._accounts = accounts
        self._surveys = surveys

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Ask for the nodes of these orders. Where the cloud refuses the call, each of them counts as refused.

        Not where it does not answer other questions about the pool either, as when credentials have expired: that says
        nothing of the pool, and the call is made again.
        """

        async def asked() -> Reply:
            reply = await self._accounts.account_of(pool).ask(pool, ask)
            self._surveys.note_reply(pool, ask, reply)
            return reply

        try:
            return await self._then_survey(pool, asked())
        except ProviderError as error:
            if error.refuses is not None and pool.id not in self._surveys.errors:
                self._surveys.note_reply(pool, ask, self._refused(pool, ask, error, error.refuses))
                await self._surveys.refresh(pool.id)
            raise

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Give up orders that did not get a node."""
        self._surveys.note_withdrawal(pool, orders)
        await self._then_survey(pool, self._accounts.account_of(pool).withdraw(pool, orders, keep))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End one instance."""

        async def ended() -> None:
            await self._accounts.account_of(pool).terminate(pool, instance, proof)
            self._surveys.note_end(pool, instance)

        await self._then_survey(pool, ended())

    def _refused(self, pool: Pool, ask: Ask, error: ProviderError, kind: RefusalKind) -> Reply:
        """The reply that stands for the refusal of the whole call: the pool cools down, and jobs use others."""
        survey = self._surveys.latest.get(pool.id)
        at = Instant(0) if survey is None else survey.asked
        said = kind, Scope.POOL, pool.id, error.code, error.message, at
        return Reply(refused={order.token: Refusal(*said, order.token) for order in ask.orders})

    async def _then_survey(self, pool: Pool, call: Awaitable[T]) -> T:
        try:
            return await call
        finally:
            await self._surveys.refresh(pool.id)
