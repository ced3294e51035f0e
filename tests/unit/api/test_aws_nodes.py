"""``spec.aws`` of pools and rentals, to domain values and back."""

from __future__ import annotations

import pytest

from charterer.api.models.clouds import AwsNodes, cloud_fields
from charterer.clouds.aws import AwsFleet, AwsGroup

SMALLEST = AwsFleet("us-east-1", "gpu", "$Default", ("subnet-0a",), ("p5.48xlarge",))
LARGEST = AwsFleet(
    region="us-gov-west-1",
    launch_template="gpu",
    version="7",
    subnets=("subnet-0a", "subnet-0b"),
    instance_types=("p5.48xlarge", "p5e.48xlarge"),
    gpu_type="NVIDIA-H100-80GB-HBM3",
    assume_role="arn:aws:iam::444455556666:role/renter",
    capacity_reservation="cr-0a",
    placement_group="near",
    queue="https://sqs.us-east-1.amazonaws.com/444455556666/charterer",
    abandon_seconds=21_600,
)


@pytest.mark.parametrize(
    "cloud", [SMALLEST, LARGEST, AwsGroup("eu-west-1", "gpu"), AwsGroup("eu-west-1", "g", "A", abandon_seconds=1800)]
)
def test_what_is_written_is_what_is_read(cloud: AwsFleet | AwsGroup) -> None:
    assert AwsNodes.model_validate(cloud_fields(cloud)["aws"]).to_domain() == cloud


def test_a_spec_has_no_field_that_says_nothing() -> None:
    assert cloud_fields(AwsGroup("eu-west-1", "gpu")) == {"aws": {"region": "eu-west-1", "autoScalingGroup": "gpu"}}
