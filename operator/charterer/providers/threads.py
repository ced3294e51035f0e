"""Calls of an SDK that blocks. Each call has a thread and a time-out. A read that fails is repeated, and a mutation is
sent only once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias, TypeVar, TypeVarTuple

from charterer.domain.ids import InstanceId, OrderToken
from charterer.domain.order import Order, Refusal, Reply
from charterer.domain.time import Instant, instant
from charterer.providers.errors import ProviderError, Transient

# Orders that a cloud accepts only one by one. A few of them are sent at a time.


logger = logging.getLogger(__name__)

_AT_ONCE: Final = 4


async def in_waves(orders: Sequence[Order], one: Callable[[Order], Awaitable[InstanceId | Refusal | None]]) -> Reply:
    """Ask for orders one by one, a few at a time, until an order gets nothing. The remaining orders wait for the next
    ask.

    ``one``: asks for one order. It returns None if the order was accepted and a survey will show the outcome. If an
    error follows some answers, these answers are returned and the error is logged. The error is raised only if there
    was no answer.
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


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

CALLS_AT_ONCE: Final = 8
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 20.0
_LONGEST_SECONDS: Final = 45.0
"""Most seconds for a call. They include everything that the SDK does first, such as looking for credentials."""
NO_ANSWER: Final = f"no answer within {_LONGEST_SECONDS:.0f} s"
_READ_PAUSES: Final = (0.2, 0.8)
"""Seconds before a read's second and third attempt. If the last attempt fails, its error is raised."""


class Threads:
    """The threads of an account.

    ``name``: the beginning of the threads' names. ``sleep``: waits between attempts of a read.
    """

    def __init__(self, name: str, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._executor = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=name)

    async def run(self, send: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Return or raise what ``send`` returns or raises. Raises TimeoutError if that takes too long."""
        async with asyncio.timeout(_LONGEST_SECONDS):
            return await asyncio.get_running_loop().run_in_executor(self._executor, send, *arguments)

    async def patiently(self, once: Callable[[], Awaitable[T]], *, mutation: bool) -> T:
        """The answer to a call. If a read raises Transient, it is tried again."""
        for pause in () if mutation else _READ_PAUSES:
            try:
                return await once()
            except Transient:
                await self._sleep(pause)
        return await once()

    def close(self) -> None:
        """End the threads once their calls have ended."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def time_in(date: str | None) -> Instant:
    """The time in an HTTP header Date, to the second. If there is no header, the earliest instant."""
    return Instant(0) if date is None else instant(parsedate_to_datetime(date))


def seconds_in(retry_after: str | None) -> float | None:
    """The seconds in an HTTP header Retry-After, or None if it has none."""
    return float(retry_after) if retry_after is not None and retry_after.isdigit() else None
