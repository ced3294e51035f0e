"""For every CEL rule about pools of AWS, a pool that it accepts and one that it refuses."""

from __future__ import annotations

from typing import Any

from tests.cluster.crd_cases import SMALLEST, Case, Json, make

_FLEET: Json = {
    "region": "us-east-1",
    "launchTemplate": {"name": "gpu"},
    "subnets": ["subnet-0a1b"],
    "instanceTypes": ["p5.48xlarge"],
}
_GROUP: Json = {"region": "us-east-1", "autoScalingGroup": "gpu"}


def aws(kind: str, smallest: Json, **more: Any) -> Json:
    """An object of a kind with nodes of AWS instead of the fake cloud's; None leaves a field out."""
    nodes = {name: value for name, value in {**smallest, **more}.items() if value is not None}
    other = {name: value for name, value in SMALLEST[kind].items() if name != "fake"}
    return {**make(kind), "spec": {**other, "aws": nodes}}


AWS_CASES: tuple[Case, ...] = tuple(
    case
    for kind in ("GPUPool", "GPURental")
    for case in (
        Case(
            kind,
            "set exactly one of launchTemplate and autoScalingGroup",
            aws(kind, _FLEET, placementGroup="pg", capacityReservation="cr-0123", queue=None),
            aws(kind, _FLEET, autoScalingGroup="gpu"),
        ),
        Case(
            kind,
            "a pool with a launchTemplate needs subnets and instanceTypes; an autoScalingGroup has its own",
            aws(kind, _GROUP),
            aws(kind, _FLEET, subnets=None),
        ),
        Case(
            kind,
            "capacityReservation and placementGroup need a launchTemplate; a group's are in its own launch template",
            aws(kind, _GROUP, assumeRole="arn:aws:iam::444455556666:role/renter"),
            aws(kind, _GROUP, placementGroup="pg"),
        ),
    )
)

AWS_REFUSED: dict[str, Json] = {
    "a region with a typing error in its form": aws("GPUPool", _FLEET, region="us_east_1"),
    "a zone for a region": aws("GPUPool", _FLEET, region="us-east-1a"),
    "no subnet": aws("GPUPool", _FLEET, subnets=[]),
    "a name for a subnet": aws("GPUPool", _FLEET, subnets=["private"]),
    "an instance family for a type": aws("GPUPool", _FLEET, instanceTypes=["p5"]),
    "a version that is no number": aws("GPUPool", _FLEET, launchTemplate={"name": "gpu", "version": "latest"}),
    "a role by its name": aws("GPUPool", _FLEET, assumeRole="renter"),
    "a queue by its ARN": aws("GPUPool", _FLEET, queue="arn:aws:sqs:us-east-1:111122223333:charterer"),
}
"""Pools that the schema refuses."""
AWS_ACCEPTED: dict[str, Json] = {
    "all that a fleet can have": aws(
        "GPUPool",
        _FLEET,
        launchTemplate={"name": "gpu", "version": "$Latest"},
        gpuType="NVIDIA-H100-80GB-HBM3",
        placementGroup="pg",
        assumeRole="arn:aws-us-gov:iam::444455556666:role/path/renter",
        queue="https://sqs.us-gov-west-1.amazonaws.com/444455556666/charterer",
        region="us-gov-west-1",
    ),
}
"""Pools that the schema accepts."""
