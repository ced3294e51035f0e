"""Orders that a cloud is asked for one by one, a few at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.order import Order, Refusal, Reply
from charterer.providers.errors import ProviderError

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4


async def in_waves(orders: Sequence[Order], one: Callable[[Order], Awaitable[InstanceId | Refusal | None]]) -> Reply:
    """The reply to orders that are asked for one by one, a few at a time, until the first that gets nothing.

    ``one``: asks for one order; None where it was accepted and a survey will show what became of it. The orders after
    the first that gets nothing are asked for with the next ask. What was answered before an error is told; the error
    is raised only if nothing was.
    """
    launched: dict[OrderToken, InstanceId] = {}
    refused: dict[OrderToken, Refusal] = {}
    answered = False
    for first in range(0, len(orders), _AT_ONCE):
        wave = orders[first : first + _AT_ONCE]
        errors: list[ProviderError] = []
        for order, result in zip(wave, await asyncio.gather(*map(one, wave), return_exceptions=True), strict=True):
            if isinstance(result, ProviderError):
                errors.append(result)
                continue
            if isinstance(result, BaseException):
                raise result
            answered = True
            if isinstance(result, Refusal):
                refused[order.token] = result
            elif result is not None:
                launched[order.token] = result
        if errors and not answered:
            raise errors[0]
        if errors or refused:
            for error in errors:
                logger.warning("%s", error)
            break
    return Reply(launched, refused)
