"""The server of AWS checks what the SDK does not: it is only worth as much as what it refuses."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from charterer.providers.aws.calls import Sdk
from tests.clouds.aws.protocol import Fault, answer, model_of
from tests.clouds.aws.server import AwsServer
from tests.contract.aws_pools import TYPE, account
from tests.patience import PATIENCE

FLEET: dict[str, Any] = {
    "Type": "instant",
    "ClientToken": "t",
    "LaunchTemplateConfigs": [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "gpu", "Version": "1"},
            "Overrides": [{"InstanceType": TYPE, "SubnetId": "subnet-a"}],
        }
    ],
    "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
}
GROUP: dict[str, Any] = {"AutoScalingGroupName": "gpu-group", "RequestedCapacity": 1, "RetryStrategy": "none"}


def said(call: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**params)
    return str(caught.value)


@pytest.fixture
def ec2(aws_server: AwsServer, aws_clients: Sdk) -> Any:
    """The SDK's client, with an account of this test's own behind it."""
    aws_server.account = account()
    return aws_clients.client("ec2")


def test_a_word_that_is_not_in_the_models_enum_is_refused(ec2: Any) -> None:
    options = {"AllocationStrategy": "cheapest"}
    message = said(ec2.create_fleet, **FLEET, OnDemandOptions=options)
    assert "CreateFleet.OnDemandOptions.AllocationStrategy: 'cheapest' is not in the model's enum" in message


def test_a_token_that_is_too_long_or_has_other_characters_is_refused(ec2: Any, aws_clients: Sdk) -> None:
    launch = aws_clients.client("autoscaling").launch_instances
    zone = {"AvailabilityZones": ["us-east-1a"]}
    assert "ClientToken: 65 > 64" in said(launch, **GROUP, **zone, ClientToken="x" * 65)
    assert "ClientToken: 'a b' does not match" in said(launch, **GROUP, **zone, ClientToken="a b")


def test_a_token_with_other_parameters_is_refused_and_with_the_same_launches_nothing(
    ec2: Any, aws_server: AwsServer
) -> None:
    first, again = ec2.create_fleet(**FLEET), ec2.create_fleet(**FLEET)
    assert first["Instances"] == again["Instances"]
    other = FLEET | {"TargetCapacitySpecification": {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "spot"}}
    assert "IdempotentParameterMismatch" in said(ec2.create_fleet, **other)
    assert len(aws_server.account.machines) == 1


def test_what_ec2_forbids_together_is_refused(ec2: Any) -> None:
    assert "needs SingleInstanceType" in said(ec2.create_fleet, **FLEET, OnDemandOptions={"MinTargetCapacity": 1})
    reserved = {"CapacityReservationTarget": {"CapacityReservationIds": ["cr-1"]}}
    assert "need each other" in said(ec2.create_fleet, **FLEET, ReservedCapacityOptions=reserved)
    assert "exclude each other" in said(ec2.describe_instances, InstanceIds=["i-0"], MaxResults=5)
    ec2.create_fleet(**FLEET)
    assert "filter 'tagg' is invalid" in said(ec2.describe_instances, Filters=[{"Name": "tagg", "Values": ["x"]}])


def test_a_field_that_is_not_in_the_model_is_refused(aws_server: AwsServer) -> None:
    aws_server.account = account()
    where = http.client.HTTPConnection(urlsplit(aws_server.url).netloc, timeout=PATIENCE)
    signed = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20261101/us-east-1/ec2/aws4_request",
        "X-Amz-Date": "20261101T000000Z",
    }
    where.request("POST", "/", "Action=DescribeInstances&Version=2016-11-15&InstanceIds.1=i-0", signed)
    reply = where.getresponse()
    assert (reply.status, b"fields that are not in the model" in reply.read()) == (400, True)
    where.close()


def test_an_answer_that_the_sdk_would_not_read_back_is_found(aws_server: AwsServer) -> None:
    operation = model_of("ec2").operation_model("CreateFleet")
    with pytest.raises(AssertionError, match="fields outside the model"):
        answer(operation, {"Nonsense": 1})
    assert Fault("Code").message == "Code"
