"""Asking the clouds: the last good survey and quote of each pool, and what went wrong where there is none.

A pool in motion (a rental being asked for, started or ended) is asked often, a quiet one rarely. An answer that fails
leaves the last good one standing: the plan goes on with what was known, and the pool's condition says since when.
Accounts are asked apart, so that one whose cloud is slow to answer, or never does, holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from charterer.controller.clouds import InstrumentedProviders
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool, Quote, Survey
from charterer.providers.errors import ProviderError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SurveyPace:
    """Seconds between two questions to a cloud about a quiet pool, about one in motion, and about prices."""

    quiet_seconds: float = 15.0
    moving_seconds: float = 1.0
    quote_seconds: float = 60.0


class Surveys:
    """Keeps ``latest``, ``quotes`` and ``errors`` current until ``run`` is cancelled; main loop only.

    ``changed`` is called after an answer that differs from the one before in more than its time, and after every
    answer about a pool in motion (there time itself may decide).
    """

    def __init__(
        self,
        clouds: InstrumentedProviders,
        pools: Callable[[], Mapping[PoolId, Pool]],
        moving: Callable[[], frozenset[PoolId]],
        changed: Callable[[], None],
        clock: Callable[[], float],
        pace: SurveyPace,
    ) -> None:
        self._clouds = clouds
        self._pools = pools
        self._moving = moving
        self._changed = changed
        self._clock = clock
        self._pace = pace
        self._asked: dict[PoolId, float] = {}
        self._priced: dict[PoolId, float] = {}
        self._in_flight: set[PoolId] = set()
        self._nudge = asyncio.Event()
        self.latest: dict[PoolId, Survey] = {}
        self.quotes: dict[PoolId, Quote] = {}
        self.errors: dict[PoolId, ProviderError] = {}

    def look_again(self) -> None:
        """The pools, or which of them are in motion, may have changed."""
        self._nudge.set()

    async def refresh(self, pool: PoolId) -> None:
        """Ask about this pool now and wait for the answer, so that no decision rests on what was before a change."""
        known = self._pools().get(pool)
        if known is not None:
            self._asked[pool] = self._clock()
            await self._ask([known])

    async def run(self) -> None:
        """Ask whatever is due, forever."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._nudge.clear()
                for account in self._clouds.by_account(self._due()):
                    self._in_flight |= {pool.id for pool in account}
                    tasks.create_task(self._ask_and_tell(account))
                delay = self._next_in()
                if delay > 0:
                    try:
                        async with asyncio.timeout(delay):
                            await self._nudge.wait()
                    except TimeoutError:
                        pass

    def _interval(self, pool: PoolId, moving: frozenset[PoolId]) -> float:
        return self._pace.moving_seconds if pool in moving else self._pace.quiet_seconds

    def _due_in(self, pool: PoolId, moving: frozenset[PoolId]) -> float:
        return self._asked.get(pool, -1e9) + self._interval(pool, moving) - self._clock()

    def _next_in(self) -> float:
        moving = self._moving()
        waits = (self._due_in(pool, moving) for pool in self._pools() if pool not in self._in_flight)
        return max(min(waits, default=self._pace.quiet_seconds), 0.0)

    def _due(self) -> list[Pool]:
        pools, moving = self._pools(), self._moving()
        for gone in [known for known in self._asked if known not in pools]:
            self._drop(gone)
        return [pool for name, pool in pools.items() if name not in self._in_flight and self._due_in(name, moving) <= 0]

    async def _ask_and_tell(self, pools: list[Pool]) -> None:
        names = {pool.id for pool in pools}
        for name in names:
            self._asked[name] = self._clock()
        before = self._told(names)
        try:
            await self._ask(pools)
        finally:
            self._in_flight -= names
            self._nudge.set()
            for gone in names - self._pools().keys():
                self._drop(gone)
        if names & self._moving() or before != self._told(names):
            self._changed()

    def _drop(self, pool: PoolId) -> None:
        for memory in (self._asked, self._priced, self.latest, self.quotes, self.errors):
            memory.pop(pool, None)

    async def _ask(self, pools: list[Pool]) -> None:
        answers, _ = await asyncio.gather(
            self._clouds.survey(pools), asyncio.gather(*(self._price(pool) for pool in pools))
        )
        for pool in pools:
            match answers[pool.id]:
                case Survey() as survey:
                    self._keep(survey)
                    if pool.id in self.quotes:
                        self.errors.pop(pool.id, None)
                case error:
                    if str(self.errors.get(pool.id)) != str(error):
                        _log.warning("%s", error)
                    self.errors[pool.id] = error

    def _keep(self, survey: Survey) -> None:
        """Two questions may cross: a survey never goes back in time."""
        known = self.latest.get(survey.pool)
        if known is None or survey.asked >= known.asked:
            self.latest[survey.pool] = survey

    async def _price(self, pool: Pool) -> None:
        now = self._clock()
        if now - self._priced.get(pool.id, -1e9) < self._pace.quote_seconds:
            return
        try:
            self.quotes[pool.id] = await self._clouds.quote(pool)
            self._priced[pool.id] = now
        except ProviderError as error:
            self.errors[pool.id] = error

    def _told(self, pools: Iterable[PoolId]) -> object:
        """The answers without their times."""
        return {pool: (self._survey(pool), self._quote(pool), str(self.errors.get(pool))) for pool in pools}

    def _survey(self, pool: PoolId) -> object:
        s = self.latest.get(pool)
        if s is None:
            return None
        return s.target, s.instances, s.failures, s.notices, s.lag_seconds, s.listed_seconds, s.offering

    def _quote(self, pool: PoolId) -> object:
        q = self.quotes.get(pool)
        return None if q is None else (q.price, q.worst, q.billing_minimum_seconds)
