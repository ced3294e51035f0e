"""Pools of one account share its provider, however its endpoint is written."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.fake import FakeGroup
from charterer.domain.ids import PoolId
from charterer.providers.accounts import Accounts, OwnCluster, adapter_for
from charterer.providers.errors import Transient
from charterer.providers.objects import CallFailure, Objects, ObjectsError
from tests import factory as make
from tests.unit.providers.slow_cloud import SlowCloud
from tests.virtual_time import run_in_virtual_time


def test_ways_of_writing_one_endpoint_are_one_account() -> None:
    accounts = Accounts({}, adapter=lambda pool, environ: SlowCloud())
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
    accounts = Accounts({}, adapter=lambda pool, environ: SlowCloud())
    first, *others = [accounts.account_of(make.pool(cloud=cloud)) for cloud in clouds]
    assert [other is first for other in others] == [True, False, False]


def test_pools_of_one_subscription_and_identity_of_azure_are_one_account() -> None:
    scale_set = AzureScaleSet("s", "rg", "westeurope", "gpu")
    clouds = [
        scale_set,
        AzureNodePool("S", "other", "northeurope", "prod", "gpu"),
        replace(scale_set, subscription="t"),
        replace(scale_set, client="c"),
        replace(scale_set, tenant="t"),
    ]
    accounts = Accounts({}, adapter=lambda pool, environ: SlowCloud())
    first, *others = [accounts.account_of(make.pool(cloud=cloud)) for cloud in clouds]
    assert [other is first for other in others] == [True, False, False, False]


def test_a_pool_of_azure_needs_no_cluster() -> None:
    cloud = AzureScaleSet("s", "rg", "westeurope", "gpu")
    assert type(adapter_for(make.pool(cloud=cloud), {})).__name__ == "AzureCloud"


def test_a_pool_of_aws_needs_a_cluster_whose_uid_its_machines_carry() -> None:
    cloud = AwsGroup("us-east-1", "g")
    with pytest.raises(ValueError, match="tags name the cluster"):
        adapter_for(make.pool(cloud=cloud), {})
    assert type(adapter_for(make.pool(cloud=cloud), {}, cast(Objects, object()))).__name__ == "AwsCloud"


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
