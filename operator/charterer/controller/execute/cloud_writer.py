"""Mutations of clouds, each followed by a survey of the pool, also after a failure, since it may have happened."""

from __future__ import annotations

from collections.abc import Awaitable

from charterer.controller.surveys import Surveys
from charterer.domain.ids import InstanceId
from charterer.domain.pool import Pool
from charterer.providers.accounts import Accounts
from charterer.providers.provider import Drained


class CloudWriter:
    """The mutating calls of ``providers.provider.Provider``. All raise ProviderError."""

    def __init__(self, accounts: Accounts, surveys: Surveys) -> None:
        self._accounts = accounts
        self._surveys = surveys

    async def raise_target(self, pool: Pool, at_least: int, token: str) -> None:
        """Ask for at least this number of nodes."""
        await self._then_survey(pool, self._accounts.account_of(pool).raise_target(pool, at_least, token))

    async def cancel_unfulfilled(self, pool: Pool, keep: int) -> None:
        """Stop asking for the nodes that did not come."""
        await self._then_survey(pool, self._accounts.account_of(pool).cancel_unfulfilled(pool, keep))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End one instance."""
        await self._then_survey(pool, self._accounts.account_of(pool).terminate(pool, instance, proof))

    async def _then_survey(self, pool: Pool, call: Awaitable[None]) -> None:
        try:
            await call
        finally:
            await self._surveys.refresh(pool.id)
