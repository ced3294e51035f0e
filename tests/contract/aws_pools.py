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
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.aws.permissions import CLUSTER_TAG, POOL_TAG
from tests import factory
from tests.clouds.aws.account import Account, Group, Machine
from tests.contract.wire import CLUSTER, EMPTY, surveyed

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
        return await surveyed(self.provider, self.pool)

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


def later(at: Account, seconds: float) -> str:
    """A time of the account's clock, as an event writes it."""
    return (at.clock.now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
