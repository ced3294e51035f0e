"""The operator's heartbeat: machines that would end themselves without it are told again and again that it lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.controller.known_pools import known_pools
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.providers.accounts import Accounts
from charterer.providers.errors import CloudCallWithheld, NotLeading, ProviderError
from charterer.providers.guarded import Guarded

_log = logging.getLogger(__name__)


def pools_to_renew(store: Store) -> Mapping[PoolId, Pool]:
    """The pools there are, and those that are gone or cannot be read, as their rentals remember them.

    What cannot be read is no reason to let machines go that jobs run on.
    """
    return known_pools(store.view(kinds.GPU_POOLS).objects, store.view(kinds.GPU_RENTALS).objects)


class Renewals:
    """Renews until ``run`` is cancelled. ``pools`` gives those that have machines (``pools_to_renew``).

    ``every_seconds``: as often as quiet pools are surveyed, because adapters go by what their last list showed.
    """

    def __init__(self, accounts: Accounts, pools: Callable[[], Mapping[PoolId, Pool]], every_seconds: float) -> None:
        self._accounts = accounts
        self._pools = pools
        self._every = every_seconds

    async def run(self) -> None:
        """Renew forever, each account for itself."""
        while True:
            accounts = self._accounts.by_account(self._pools().values())
            await asyncio.gather(*(_renew(account, pools) for account, pools in accounts.items()))
            await asyncio.sleep(self._every)


async def _renew(account: Guarded, pools: Sequence[Pool]) -> None:
    try:
        await account.renew(pools)
    except (CloudCallWithheld, NotLeading):
        return
    except ProviderError as error:
        _log.warning("machines that end themselves without an operator were not all renewed: %s", error)
