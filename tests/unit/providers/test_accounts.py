"""Every call of a cloud is counted, and none changes anything once another process may lead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from charterer.domain.ids import InstanceId, OrderToken, PoolId
from charterer.domain.order import Ask, Reply
from charterer.domain.pool import AwsFleet, AwsGroup, FakeGroup
from charterer.providers.accounts import Account, Accounts, adapter_for
from charterer.providers.aws.own_cluster import OwnCluster
from charterer.providers.errors import CloudOutcomeUnknown, NotLeading, Transient
from charterer.providers.karpenter.objects import CallFailure, Objects, ObjectsError
from charterer.providers.provider import Drained, Provider
from tests import factory as make
from tests.unit.controller.test_surveys import Cloud
from tests.virtual_time import run_in_virtual_time


class Slow(Cloud):
    """A cloud that takes ``seconds`` for each mutation and counts those that were begun."""

    begun = 0

    async def ask(self, pool: object, ask: Ask) -> Reply:
        await self._change()
        return Reply()

    async def terminate(self, pool: object, instance: InstanceId, proof: Drained) -> None:
        await self._change()

    async def withdraw(self, pool: object, orders: Sequence[OrderToken], keep: int) -> None:
        await self._change()

    async def _change(self) -> None:
        self.begun += 1
        await asyncio.sleep(self.seconds)


def account(cloud: Provider, leads_for: float) -> Account:
    return Accounts({}, adapter=lambda pool, environ: cloud, fence=lambda: leads_for).account_of(make.pool())


MUTATIONS: list[Callable[[Account], Awaitable[object]]] = [
    lambda account: account.ask(make.pool(), Ask((), 1)),
    lambda account: account.withdraw(make.pool(), [], 0),
    lambda account: account.terminate(make.pool(), InstanceId("i1"), Drained(None, make.T0)),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutation_is_not_sent_when_the_lead_is_about_to_end(mutate: Callable[[Account], Awaitable[object]]) -> None:
    async def main() -> None:
        cloud = Slow()
        with pytest.raises(NotLeading, match=r"leads for 0\.5 s more"):
            await mutate(account(cloud, 0.5))
        assert cloud.begun == 0
        await mutate(account(cloud, 5.0))
        assert cloud.begun == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_mutation_is_not_waited_for_longer_than_the_lead_lasts(
    mutate: Callable[[Account], Awaitable[None]],
) -> None:
    async def main() -> None:
        cloud = Slow()
        cloud.seconds = 60.0
        with pytest.raises(CloudOutcomeUnknown):
            await mutate(account(cloud, 5.0))

    run_in_virtual_time(main())


def test_ways_of_writing_one_endpoint_are_one_account() -> None:
    accounts = Accounts({}, adapter=lambda pool, environ: Slow())
    first, second = make.pool(), make.pool(cloud=FakeGroup("HTTP://Cloud:80/", "other"))
    assert accounts.account_of(first) is accounts.account_of(second)


def test_pools_of_one_region_and_role_of_aws_are_one_account() -> None:
    fleet = AwsFleet("us-east-1", "gpu", "$Default", ("subnet-a",), ("p5.48xlarge",))
    clouds = [
        fleet,
        AwsGroup("us-east-1", "g"),
        replace(fleet, region="us-west-2"),
        replace(fleet, assume_role="arn:aws:iam::1:role/r"),
    ]
    accounts = Accounts({}, adapter=lambda pool, environ: Slow())
    first, *others = [accounts.account_of(make.pool(cloud=cloud)) for cloud in clouds]
    assert [other is first for other in others] == [True, False, False]


def test_a_pool_of_aws_needs_a_cluster_whose_uid_its_machines_carry() -> None:
    cloud = AwsGroup("us-east-1", "g")
    with pytest.raises(ValueError, match="tags name the cluster"):
        adapter_for(make.pool(cloud=cloud), {})


@pytest.mark.parametrize(
    ("found", "said"), [(None, "no namespace kube-system"), (ObjectsError(CallFailure.NOT_DONE, "get", "down"), "down")]
)
def test_nothing_is_asked_of_aws_before_the_clusters_uid_is_known(found: ObjectsError | None, said: str) -> None:
    class NoObjects:
        async def get(self, path: str) -> None:
            if found is not None:
                raise found

    async def main() -> None:
        with pytest.raises(Transient, match=said):
            await OwnCluster(cast(Objects, NoObjects()))(PoolId("a"))

    run_in_virtual_time(main())
