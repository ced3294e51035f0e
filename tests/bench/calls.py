"""Calls of AWS by an operator with 20 pools and 1,000 nodes: in an hour without events, and for each node rented.

    python -m tests.bench.calls [--pools 20] [--nodes 900]

Surveys, quotes, preflights and renewals run for an hour of virtual time at their usual pace. Their calls are counted by
the account of the AWS of the tests, without HTTP in between. Then a node is rented, starts in four minutes, runs for
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
from typing import Any, TypeVar, TypeVarTuple

from botocore.exceptions import ClientError

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.controller.execute.cloud_writer import CloudWriter
from charterer.controller.preflights import Preflights
from charterer.controller.renewals import Renewals
from charterer.controller.surveys import SurveyPace, Surveys
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts, Environment
from charterer.providers.aws.calls import Answer, Params
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, ORDER_TAG, POOL_TAG, Call
from charterer.providers.provider import NONE_KNOWN, Drained, Provider
from tests import factory
from tests.clouds.aws.account import Account, Group
from tests.clouds.aws.operations import OPERATIONS
from tests.clouds.aws.protocol import Fault
from tests.clouds.clock import Clock
from tests.virtual_time import VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_HOUR = 3600.0
_TYPE = "p4d.24xlarge"
_REGION = "us-east-1"
_CLUSTER = "11111111-2222-3333-4444-555555555555"
_QUEUE = "https://sqs.us-east-1.amazonaws.com/111122223333/charterer"
_METADATA = {"HttpEndpoint": "enabled", "InstanceMetadataTags": "enabled"}
_RENTED = 5
_SPREAD = 299.3
"""Nodes that each pool rents, at different moments of so many seconds."""
_START, _RUN, _END = 240.0, 600.0, 60.0
"""Seconds from the launch of a node to its readiness, of its job, and until the cloud lists it as ended."""
_KINDS: Mapping[str, tuple[AwsFleet | AwsGroup, CapacityType]] = {
    "fleets": (AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,)), CapacityType.ON_DEMAND),
    "fleets, spot, a queue": (
        AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,), queue=_QUEUE),
        CapacityType.SPOT,
    ),
    "fleets, abandonAfterSeconds 3600": (
        AwsFleet(_REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (_TYPE,), abandon_seconds=3600),
        CapacityType.ON_DEMAND,
    ),
    "groups": (AwsGroup(_REGION, ""), CapacityType.ON_DEMAND),
}


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
    """An account with pools, each with its share of the nodes, and what an operator asks of it."""

    def __init__(self, kind: str, pools: int, nodes: int) -> None:
        loop = asyncio.get_running_loop()
        self.account = account = Account(clock=_LoopClock(loop), pending_seconds=60, ending_seconds=_END)
        for subnet, zone in (("subnet-a", "us-east-1a"), ("subnet-b", "us-east-1b")):
            account.add_subnet(subnet, zone, free=10**6)
            account.set_spot_price(_TYPE, zone, "9.5")
        account.add_template("gpu", MetadataOptions=_METADATA, InstanceInitiatedShutdownBehavior="terminate")
        cloud, capacity = _KINDS[kind]
        self.pools: dict[PoolId, Pool] = {}
        for number in range(pools):
            name = PoolId(f"pool-{number}")
            own: AwsFleet | AwsGroup = cloud
            tags = {CLUSTER_TAG: _CLUSTER, POOL_TAG: name}
            if isinstance(cloud, AwsGroup):
                own = AwsGroup(_REGION, name)
                account.groups[name] = Group(name, "gpu", (_TYPE,), ("subnet-a", "subnet-b"), tags, most=10**6)
            fields: dict[str, Any] = {"id": name, "uid": name, "offering": None, "quote": None}
            self.pools[name] = factory.pool(cloud=own, capacity_type=capacity, **fields)
            for node in range(nodes // pools):
                order = {ORDER_TAG: f"c{number}-{node}"}
                sold = "spot" if capacity is CapacityType.SPOT else "on-demand"
                account.launch(_TYPE, "subnet-a", sold, "", {**tags, **order})
        self.moving: Counter[PoolId] = Counter()
        accounts = Accounts({}, adapter=self._adapter)
        self.surveys = Surveys(
            accounts, lambda: self.pools, self._in_motion, lambda: NONE_KNOWN, lambda: None, SurveyPace()
        )
        self.preflights = Preflights(accounts, lambda: self.pools, lambda: None, lambda: None)
        self.renewals = Renewals(accounts, lambda: self.pools, SurveyPace().quiet_seconds)
        self.clouds = CloudWriter(accounts, self.surveys)

    def _adapter(self, pool: Pool, environ: Environment) -> Provider:
        return AwsCloud(_REGION, "", _own_cluster, self._send, asyncio.get_running_loop().time)

    def _in_motion(self) -> frozenset[PoolId]:
        return frozenset(+self.moving)

    def _send(self, call: Call, params: Params) -> Answer:
        name = call.full_name
        self.account.calls.append((f"{name} (dry run)" if params.get("DryRun") else name, params))
        date = {"ResponseMetadata": {"HTTPHeaders": {"date": f"{self.account.clock.now:%a, %d %b %Y %H:%M:%S GMT}"}}}
        try:
            if params.get("DryRun"):
                raise Fault("DryRunOperation", "", 412)
            sent = {key: value.isoformat() if isinstance(value, datetime) else value for key, value in params.items()}
            return {**OPERATIONS[name](self.account, sent, _REGION), **date}
        except Fault as fault:
            told = {"Error": {"Code": fault.code, "Message": fault.message}, **date}
            raise ClientError(told, call.operation) from fault

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
        await self.clouds.terminate(pool, InstanceId(reply.launched[order.token]), Drained(None, Instant(0)))
        await asyncio.sleep(_END + 1)
        self.moving[pool.id] -= 1


async def _own_cluster(pool: PoolId) -> str:
    return _CLUSTER


async def _measure(kind: str, pools: int, nodes: int) -> None:
    world = _World(kind, pools, nodes)
    operating = asyncio.create_task(world.operate())
    await asyncio.sleep(60)
    world.account.calls.clear()
    await asyncio.sleep(_HOUR)
    idle = Counter(world.account.count())
    print(f"{pools} {kind}, {nodes} nodes: {_told(idle, 1)} in an idle hour", flush=True)
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
    each = ", ".join(f"{number / by:.3g} {name.split(':')[1]}" for name, number in calls.most_common())
    return f"{sum(calls.values()) / by:.3g} calls ({each})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=20, help="how many pools (20)")
    parser.add_argument("--nodes", type=int, default=900, help="how many nodes run all the time (900)")
    given = parser.parse_args()
    for each_kind in _KINDS:
        with asyncio.Runner(loop_factory=_AtOnceLoop) as runner:
            runner.run(_measure(each_kind, given.pools, given.nodes))
