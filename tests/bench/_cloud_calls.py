"""An operator with many pools and nodes, whose calls of a cloud are counted in virtual time, without HTTP."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import TypeVar, TypeVarTuple

from charterer.controller.execute.context import CloudWriter
from charterer.controller.preflights import Preflights
from charterer.controller.surveys import Renewals, SurveyPace, Surveys
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts, Environment
from charterer.providers.errors import Busy
from charterer.providers.provider import NONE_KNOWN, Drained, Provider
from tests.clouds.clock import Clock
from tests.virtual_time import VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_HOUR = 3600.0
_RENTED = 5
_SPREAD = 299.3
"""Nodes that each pool rents, at different moments of so many seconds."""
_START, _RUN = 240.0, 600.0
END_SECONDS = 60.0
"""Seconds from the launch of a node to its readiness, of its job, and until the cloud lists it as ended."""


class AtOnceLoop(VirtualTimeLoop):
    """Runs what others give to threads at once."""

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class LoopClock(Clock):
    """The loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._began = loop.time()

    @property
    def now(self) -> datetime:
        """The time."""
        return self._now + timedelta(seconds=self._loop.time() - self._began)


class CountedCloud(ABC):
    """A cloud with pools, each with its share of the nodes, and what an operator asks of it."""

    def __init__(self, pools: Mapping[PoolId, Pool]) -> None:
        self.pools = pools
        self.moving: Counter[PoolId] = Counter()
        accounts = Accounts({}, adapter=self._adapter)
        self.surveys = Surveys(
            accounts, lambda: self.pools, self._in_motion, lambda: NONE_KNOWN, lambda: None, SurveyPace()
        )
        self.preflights = Preflights(accounts, lambda: self.pools, lambda: None, lambda: None)
        self.renewals = Renewals(accounts, lambda: self.pools, SurveyPace().quiet_seconds)
        self.clouds = CloudWriter(accounts, self.surveys)

    @abstractmethod
    def adapter(self) -> Provider:
        """The cloud's adapter, whose clock is the loop's."""

    @property
    @abstractmethod
    def now(self) -> datetime:
        """The cloud's time."""

    @abstractmethod
    def count(self) -> Mapping[str, int]:
        """The calls by their names since the last ``clear``."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the calls so far."""

    @abstractmethod
    def newest(self, pool: Pool, token: OrderToken) -> InstanceId:
        """The machine that was launched for an order, or where the cloud only counts, the newest of the pool."""

    def wanted(self, pool: Pool) -> int:
        """How many nodes a pool has with one more, for clouds that count."""
        return 1

    def _adapter(self, pool: Pool, environ: Environment) -> Provider:
        return self.adapter()

    def _in_motion(self) -> frozenset[PoolId]:
        return frozenset(+self.moving)

    async def operate(self) -> None:
        """Everything of an operator that calls a cloud by itself."""
        await asyncio.gather(self.surveys.run(), self.preflights.run(), self.renewals.run())

    async def rent(self, pool: Pool, number: int, after: float) -> None:
        """The life of one node. Its pool is in motion while it starts and while it ends."""
        await asyncio.sleep(after)
        order = Order(OrderToken(f"cnew-{pool.id}-{number}"), RentalId(f"{pool.id}-{number}"))
        self.moving[pool.id] += 1
        self.surveys.look_again()
        await _unless_busy(lambda: self.clouds.ask(pool, Ask((order,), self.wanted(pool))))
        launched = self.newest(pool, order.token)
        await asyncio.sleep(_START)
        self.moving[pool.id] -= 1
        await asyncio.sleep(_RUN)
        self.moving[pool.id] += 1
        self.surveys.look_again()
        await _unless_busy(lambda: self.clouds.terminate(pool, launched, Drained(None, Instant(0))))
        await asyncio.sleep(END_SECONDS + 1)
        self.moving[pool.id] -= 1


async def _unless_busy(change: Callable[[], Awaitable[object]]) -> None:
    """Make a change, and again with the next survey while another one runs."""
    while True:
        try:
            await change()
        except Busy:
            await asyncio.sleep(10.0)
        else:
            return


async def measure(what: str, make: Callable[[], CountedCloud], nodes: int) -> None:
    """Print the calls of an idle hour, and what a node that is rented adds."""
    world = make()
    operating = asyncio.create_task(world.operate())
    await asyncio.sleep(60)
    world.clear()
    await asyncio.sleep(_HOUR)
    idle = Counter(world.count())
    print(f"{len(world.pools)} {what}, {nodes} nodes: {_told(idle, 1)} in an idle hour", flush=True)
    names = list(world.pools.values())
    await _rented(world, idle, [(names[0], 0, 0.0)])
    pause = _SPREAD / (len(names) * _RENTED)
    lives = [
        (pool, at + 1, (number + at * len(names)) * pause) for number, pool in enumerate(names) for at in range(_RENTED)
    ]
    await _rented(world, idle, lives)
    operating.cancel()
    await asyncio.gather(operating, return_exceptions=True)


async def _rented(world: CountedCloud, idle: Counter[str], lives: Sequence[tuple[Pool, int, float]]) -> None:
    """Rent nodes, each after some seconds, and print what that adds to the calls of the idle time."""
    world.clear()
    began = world.now
    await asyncio.gather(*(world.rent(*life) for life in lives))
    hours = (world.now - began).total_seconds() / _HOUR
    more = Counter({name: number - round(idle[name] * hours) for name, number in world.count().items()})
    each = "for one node" if len(lives) == 1 else f"for each of {len(lives)} nodes that start within {_SPREAD:.0f} s"
    print(f"  {_told(+more, len(lives))} {each}", flush=True)


def _told(calls: Counter[str], by: int) -> str:
    each = ", ".join(f"{number / by:.3g} {name.split(':')[-1]}" for name, number in calls.most_common())
    return f"{sum(calls.values()) / by:.3g} calls ({each})"
