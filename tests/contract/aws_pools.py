"""Pools of AWS for contract tests: each test has an account of its own behind one server a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.domain.ids import InstanceId, OrderToken, PoolId, RentalId
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import CapacityType, Pool, Survey
from charterer.domain.time import Instant
from charterer.providers.aws.calls import Answer, Params
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG, Call
from charterer.providers.provider import Drained
from tests import factory
from tests.clouds.aws.account import Account, Group, Machine

EMPTY = Drained(node=None, checked=Instant(0))
CLUSTER = "11111111-2222-3333-4444-555555555555"
REGION = "us-east-1"
QUEUE = "https://sqs.us-east-1.amazonaws.com/111122223333/charterer"
TYPE = "p4d.24xlarge"
FLEET = AwsFleet(REGION, "gpu", "$Default", ("subnet-a", "subnet-b"), (TYPE,))
GROUP = AwsGroup(REGION, "gpu-group")


def account() -> Account:
    """Two subnets in two zones, a launch template and a group that is fit."""
    made = Account()
    made.add_subnet("subnet-a", "us-east-1a")
    made.add_subnet("subnet-b", "us-east-1b")
    made.add_template("gpu")
    tags = {CLUSTER_TAG: CLUSTER, POOL_TAG: "aws"}
    made.groups["gpu-group"] = Group("gpu-group", "gpu", (TYPE,), ("subnet-a", "subnet-b"), tags)
    return made


def aws_pool(cloud: AwsFleet | AwsGroup, capacity: CapacityType = CapacityType.ON_DEMAND, **changes: Any) -> Pool:
    """A pool as its user declared it, with nothing discovered yet."""
    fields = {"id": PoolId("aws"), "uid": "uid-aws", "offering": None, "quote": None, **changes}
    return factory.pool(cloud=cloud, capacity_type=capacity, **fields)


def orders(*names: str) -> tuple[Order, ...]:
    """Orders whose tokens and rentals follow from those names."""
    return tuple([Order(OrderToken(f"c{name}"), RentalId(f"aws-{name}")) for name in names])


@dataclass(frozen=True, slots=True)
class AwsMarket:
    """An account, a pool in it and a provider to reach it by."""

    account: Account
    provider: AwsCloud
    pool: Pool

    async def survey(self) -> Survey:
        """The pool's survey; its error is raised."""
        answer = (await self.provider.survey([self.pool]))[self.pool.id]
        if not isinstance(answer, Survey):
            raise answer
        return answer

    async def ask(self, *names: str, together: bool = False) -> Reply:
        """Ask for those orders."""
        return await self.provider.ask(self.pool, Ask(orders(*names), len(names), together))

    async def terminate(self, instance: str) -> None:
        """End one instance."""
        await self.provider.terminate(self.pool, InstanceId(instance), EMPTY)

    def truth(self) -> Sequence[str]:
        """Ids of the instances that are billed now."""
        return [machine.id for machine in self.account.alive()]

    @property
    def machines(self) -> Sequence[Machine]:
        """All machines that ever were."""
        return list(self.account.machines.values())

    async def held(self) -> Mapping[str, str]:
        """The orders of the instances that a survey lists as alive, by id."""
        return {i.id: i.order or "" for i in (await self.survey()).instances if i.ended is None}


class Wire:
    """Sends calls with clients that all tests of a worker share; ``sent`` has what went out for this test."""

    def __init__(self, clients: Any) -> None:
        self._clients = clients
        self.sent: list[Call] = []

    def __call__(self, call: Call, params: Params) -> Answer:
        self.sent.append(call)
        answer: Answer = self._clients(call, params)
        return answer


async def no_pause(seconds: float) -> None:
    """Do not wait."""


async def own_cluster(pool: PoolId) -> str:
    """The uid of this cluster."""
    return CLUSTER


def later(at: Account, seconds: float) -> str:
    """A time of the account's clock, as an event writes it."""
    return (at.clock.now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
