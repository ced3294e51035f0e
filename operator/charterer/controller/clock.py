"""The time to plan and account by: the operator's own clock, for as long as other clocks agree with it.

A clock that jumps over the end of a month would open the next one and forget what was spent; one that is behind would
not see what runs cost. So the own clock counts only while it is near the median of all clocks: the own one, the API
server's, and each cloud's. Between two answers the others are carried on by the monotonic clock, which nobody sets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from charterer.domain.time import Instant, after, seconds_between

_log = logging.getLogger(__name__)

TOLERATED_SECONDS = 30.0
"""Difference of the own clock from the median that is left alone: answers come late, and show whole seconds."""


class Reading(NamedTuple):
    """The time of another clock, and the monotonic clock's seconds when its answer came."""

    time: Instant
    seconds: float


class TrustedClock:
    """Gives the time. ``own`` is the operator's clock, ``monotonic`` its seconds since any start; ``others`` gives the
    last reading of each other clock."""

    def __init__(
        self,
        own: Callable[[], Instant],
        monotonic: Callable[[], float],
        others: Callable[[], Iterable[Reading]],
    ) -> None:
        self._own = own
        self._monotonic = monotonic
        self._others = others
        self._wrong = False

    def now(self) -> Instant:
        """The own clock's time, or the median of all clocks (of an even number the earlier) where it is far from it."""
        own, seconds = self._own(), self._monotonic()
        times = sorted([own, *(after(read.time, seconds - read.seconds) for read in self._others())])
        median = times[(len(times) - 1) // 2]
        wrong = abs(seconds_between(median, own)) > TOLERATED_SECONDS
        if wrong and not self._wrong:
            message = "the operator's clock is %+.0f s off: it is not used until it agrees with others"
            _log.error(message, seconds_between(median, own))
        self._wrong = wrong
        return median if wrong else own
