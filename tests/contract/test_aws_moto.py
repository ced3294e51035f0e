"""A second opinion: what moto does as AWS does it, the adapter must understand too.

moto launches whatever it is asked for, and knows no stock, no token, no pending state and no price. It is asked only
for what it does right: templates, subnets, instance types, tags, lists and ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.ec2.models.instance_types import INSTANCE_TYPES

from charterer.clouds.aws import AwsFleet
from charterer.domain.pool import InstanceState, Offering
from charterer.providers.aws.calls import Sdk
from charterer.providers.aws.cloud import AwsCloud
from charterer.providers.errors import InvalidRequest
from tests.clouds.aws.catalogue import TYPES
from tests.contract.aws_pools import REGION, AwsMarket, account, aws_pool
from tests.contract.wire import no_pause, of_machine, own_cluster


@pytest.fixture
async def moto(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AwsMarket]:
    """A pool in moto's account."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMOTOMOTOMOTOMOTO")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws():
        ec2 = boto3.client("ec2", region_name=REGION)
        ec2.create_launch_template(LaunchTemplateName="gpu", LaunchTemplateData={"ImageId": "ami-0123456789abcdef0"})
        [subnet] = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1a"]}])["Subnets"]
        fleet = AwsFleet(REGION, "gpu", "$Default", (subnet["SubnetId"],), ("p4d.24xlarge",))
        provider = AwsCloud(REGION, "", own_cluster, Sdk(REGION), sleep=no_pause)
        yield AwsMarket(account(), provider, aws_pool(fleet))
        await provider.close()


async def test_orders_are_launched_listed_and_ended_and_a_wrong_subnet_is_named(moto: AwsMarket) -> None:
    reply = await moto.ask("one", "two")
    survey = await moto.survey()
    assert {i.order: i.id for i in survey.instances} == reply.launched
    machine = of_machine(96, 1_179_648)
    assert survey.offering == Offering("NVIDIA-A100-SXM4-40GB", 8, "p4d.24xlarge", "us-east-1a", traits=machine)
    await moto.terminate(survey.instances[0].id)
    states = {i.id: i.state for i in (await moto.survey()).instances}
    assert states == {
        survey.instances[0].id: InstanceState.ENDED,
        survey.instances[1].id: InstanceState.RUNNING,
    }
    await moto.terminate("i-0123456789abcdef0")
    assert isinstance(moto.pool.cloud, AwsFleet)
    nowhere = aws_pool(replace(moto.pool.cloud, subnets=("subnet-nope",)))
    error = (await moto.provider.survey([nowhere]))[nowhere.id]
    assert isinstance(error, InvalidRequest)
    assert "subnet-nope" in str(error)


def gpus_of(row: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name, MiB and number of an instance type's GPUs of NVIDIA."""
    return [
        (gpu["Name"], gpu["MemoryInfo"]["SizeInMiB"], gpu["Count"])
        for gpu in row.get("GpuInfo", {}).get("Gpus", [])
        if gpu["Manufacturer"] == "NVIDIA"
    ]


def test_our_servers_instance_types_are_those_of_the_vendors_list() -> None:
    for name, facts in TYPES.items():
        row = INSTANCE_TYPES[name]
        assert (row["VCpuInfo"]["DefaultVCpus"], row["MemoryInfo"]["SizeInMiB"]) == (facts.vcpus, facts.memory)
        expected = [] if facts.gpu is None else [(facts.gpu.name, facts.gpu.memory, facts.gpus)]
        assert gpus_of(row) == expected
