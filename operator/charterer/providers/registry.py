"""Which adapter speaks for which pool; vendors' libraries are imported only when a pool needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import assert_never

from charterer.domain.ids import PoolId
from charterer.domain.pool import FakeGroup, Pool, Survey
from charterer.providers.errors import ProviderError
from charterer.providers.provider import Provider


class Registry:
    """One provider for each account or endpoint, kept until ``close``. Credentials come from ``environ``:

    ``CHARTERER_FAKECLOUD_TOKEN`` is the bearer token for fake clouds, if they want one.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._providers: dict[tuple[str, str], Provider] = {}

    def provider_for(self, pool: Pool) -> Provider:
        """The provider of that pool's account; InvalidRequest when its spec names none that can be."""
        match pool.cloud:
            case FakeGroup(endpoint=endpoint):
                key = ("fake", endpoint.rstrip("/"))
                if key not in self._providers:
                    from charterer.providers.fake import FakeCloud

                    self._providers[key] = FakeCloud(endpoint, self._environ.get("CHARTERER_FAKECLOUD_TOKEN"))
                return self._providers[key]
            case _ as never:
                assert_never(never)

    async def survey(self, pools: Sequence[Pool]) -> Mapping[PoolId, Survey | ProviderError]:
        """Survey pools of any number of accounts at once: an entry for each pool."""
        by_provider: dict[int, tuple[Provider, list[Pool]]] = {}
        for pool in pools:
            provider = self.provider_for(pool)
            by_provider.setdefault(id(provider), (provider, []))[1].append(pool)
        surveys = await asyncio.gather(*(provider.survey(its) for provider, its in by_provider.values()))
        return {pool: survey for part in surveys for pool, survey in part.items()}

    async def close(self) -> None:
        """Close every provider; they may not be used afterwards."""
        providers = list(self._providers.values())
        self._providers.clear()
        await asyncio.gather(*(provider.close() for provider in providers))
