"""Repeating a request without whose answer the process cannot begin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from charterer.cluster.errors import ApiError

T = TypeVar("T")

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


async def until_answered(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Call ``ask`` until it raises no ApiError, and return its answer."""
    while True:
        try:
            return await ask()
        except ApiError as error:
            seconds = max(_RETRY_SECONDS, error.retry_after)
            _log.warning("%s: not yet, again in %g s: %s", what, seconds, error)
            await asyncio.sleep(seconds)
