"""Calls of a cloud by an operator with 20 pools and 1,000 nodes: in an hour without events, and for each node rented.

    python -m tests.bench.calls [--cloud aws|gcp] [--pools 20] [--nodes 900]

Surveys, quotes, preflights and renewals run for an hour of virtual time at their usual pace. Their calls are counted by
the account of the tests, without HTTP in between. Then a node is rented, starts in four minutes, runs for
ten and takes one to end; and then five more of each pool within five minutes, 1,000 in all. What that adds to the calls
of the idle time is divided by the number of nodes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import TypeVar, TypeVarTuple

from charterer.controller.execute.cloud_writer import CloudWriter
from charterer.controller.preflights import Preflights
from charterer.controller.renewals import Renewals
from charterer.controller.surveys import SurveyPace, Surveys
from charterer.domain.ids import OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts, Environment
from charterer.providers.provider import NONE_KNOWN, Drained, Provider
from tests.bench._aws_calls import KINDS as AWS_KINDS
from tests.bench._aws_calls import AwsWorld
from tests.bench._gcp_calls import KINDS as GCP_KINDS
from tests.bench._gcp_calls import GcpWorld
from tests.clouds.clock import Clock
from tests.virtual_time import VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_HOUR = 3600.0
_RENTED = 5
_SPREAD = 299.3
"""Nodes that each pool rents, at different moments of so many seconds."""
_START, _RUN, _END = 240.0, 600.0, 60.0
"""Seconds from the launch of a node to its readiness, of its job, and until the cloud lists it as ended."""
_CLOUDS: Mapping[str, type[AwsWorld] | type[GcpWorld]] = {"aws": AwsWorld, "gcp": GcpWorld}
_KINDS = [*(("aws", kind) for kind in AWS_KINDS), *(("gcp", kind) for kind in GCP_KINDS)]


class _AtOnceLoop(VirtualTimeLoop):
    """Runs what others give to threads at once."""

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class _LoopClock(Clock):
    """The loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._began = loop.time()

    @property
    def now(self) -> datetime:
        """The time."""
        return self._now + timedelta(seconds=self._loop.time() - self._began)


class _World:
    """A cloud with pools, each with its share of the nodes, and what an operator asks of it."""

    def __init__(self, cloud: str, kind: str, pools: int, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        self._cloud = _CLOUDS[cloud](kind, pools, nodes, _LoopClock(loop), _END)
        self.account, self.pools = self._cloud.account, self._cloud.pools
        self.moving: Counter[PoolId] = Counter()
        accounts = Accounts({}, adapter=self._adapter)
        self.surveys = Surveys(
            accounts, lambda: self.pools, self._in_motion, lambda: NONE_KNOWN, lambda: None, SurveyPace()
        )
        self.preflights = Preflights(accounts, lambda: self.pools, lambda: None, lambda: None)
        self.renewals = Renewals(accounts, lambda: self.pools, SurveyPace().quiet_seconds)
        self.clouds = CloudWriter(accounts, self.surveys)

    def _adapter(self, pool: Pool, environ: Environment) -> Provider:
        return self._cloud.adapter()

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
        reply = await self.clouds.ask(pool, Ask((order,), 1))
        await asyncio.sleep(_START)
        self.moving[pool.id] -= 1
        await asyncio.sleep(_RUN)
        self.moving[pool.id] += 1
        self.surveys.look_again()
        await self.clouds.terminate(pool, self._cloud.machine(reply, order), Drained(None, Instant(0)))
        await asyncio.sleep(_END + 1)
        self.moving[pool.id] -= 1


async def _measure(cloud: str, kind: str, pools: int, nodes: int) -> None:
    world = _World(cloud, kind, pools, nodes)
    operating = asyncio.create_task(world.operate())
    await asyncio.sleep(60)
    world.account.calls.clear()
    await asyncio.sleep(_HOUR)
    idle = Counter(world.account.count())
    print(f"{cloud}: {pools} {kind}, {nodes} nodes: {_told(idle, 1)} in an idle hour", flush=True)
    names = list(world.pools.values())
    await _rented(world, idle, [(names[0], 0, 0.0)])
    pause = _SPREAD / (pools * _RENTED)
    lives = [
        (pool, at + 1, (number + at * pools) * pause) for number, pool in enumerate(names) for at in range(_RENTED)
    ]
    await _rented(world, idle, lives)
    operating.cancel()
    await asyncio.gather(operating, return_exceptions=True)


async def _rented(world: _World, idle: Counter[str], lives: Sequence[tuple[Pool, int, float]]) -> None:
    """Rent nodes, each after some seconds, and print what that adds to the calls of the idle time."""
    world.account.calls.clear()
    began = world.account.clock.now
    await asyncio.gather(*(world.rent(*life) for life in lives))
    hours = (world.account.clock.now - began).total_seconds() / _HOUR
    more = Counter({name: number - round(idle[name] * hours) for name, number in world.account.count().items()})
    each = "for one node" if len(lives) == 1 else f"for each of {len(lives)} nodes that start within {_SPREAD:.0f} s"
    print(f"  {_told(+more, len(lives))} {each}", flush=True)


def _told(calls: Counter[str], by: int) -> str:
    each = ", ".join(f"{number / by:.3g} {name.split(':')[-1]}" for name, number in calls.most_common())
    return f"{sum(calls.values()) / by:.3g} calls ({each})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=20, help="how many pools (20)")
    parser.add_argument("--nodes", type=int, default=900, help="how many nodes run all the time (900)")
    parser.add_argument("--cloud", choices=[*_CLOUDS], help="the one cloud (all)")
    given = parser.parse_args()
    for each_cloud, each_kind in _KINDS:
        if given.cloud in (None, each_cloud):
            with asyncio.Runner(loop_factory=_AtOnceLoop) as runner:
                runner.run(_measure(each_cloud, each_kind, given.pools, given.nodes))
