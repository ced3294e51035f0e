"""Refusals by policies of the API server, which are in force a moment after they were installed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from charterer.cluster.errors import Forbidden
from tests.patience import OPERATORS_PATIENCE


async def once_refused(attempt: Callable[[], Awaitable[object]]) -> str:
    """Why a dry run is forbidden, once it is."""
    async with asyncio.timeout(OPERATORS_PATIENCE):
        while True:
            try:
                await attempt()
            except Forbidden as error:
                return str(error)
            await asyncio.sleep(0.05)
