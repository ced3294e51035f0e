"""Nodes of AWS: launched from a launch template by EC2 fleets, or into an Auto Scaling group."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Rule, ruled
from charterer.clouds.aws import AwsFleet, AwsGroup

_Name = Annotated[str, Field(min_length=1, max_length=255)]


class AwsLaunchTemplate(ApiModel):
    """A launch template of EC2."""

    name: Annotated[str, Field(min_length=3, max_length=128)]
    """Name of the launch template."""
    version: Annotated[str, Field(pattern=r"^([1-9][0-9]{0,8}|\$Default|\$Latest)$", max_length=9)] = "$Default"
    """Version: a number, $Default or $Latest."""


class AwsNodes(ApiModel):
    """Nodes of AWS: from a launch template, in subnets, of instance types; or in an existing Auto Scaling group."""

    model_config = ruled(
        Rule(
            "has(self.launchTemplate) != has(self.autoScalingGroup)",
            "set exactly one of launchTemplate and autoScalingGroup",
        ),
        Rule(
            "has(self.launchTemplate) == has(self.subnets) && has(self.launchTemplate) == has(self.instanceTypes)",
            "a pool with a launchTemplate needs subnets and instanceTypes; an autoScalingGroup has its own",
        ),
        Rule(
            "has(self.launchTemplate) || !(has(self.capacityReservation) || has(self.placementGroup))",
            "capacityReservation and placementGroup need a launchTemplate; a group's are in its own launch template",
        ),
    )

    region: Annotated[str, Field(pattern=r"^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$", max_length=32)]
    """Region, such as us-east-1."""
    launch_template: AwsLaunchTemplate | None = None
    """The launch template: what the nodes boot from, their role, security groups and user data."""
    subnets: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^subnet-[0-9a-z]{1,32}$", max_length=40)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """Ids of the subnets in which nodes may be launched; any of them that has room is used."""
    instance_types: (
        Annotated[
            tuple[Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", max_length=63)], ...],
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    """Instance types with equal GPUs, such as p5.48xlarge; any of them that is in stock is used."""
    auto_scaling_group: _Name | None = None
    """Name of an Auto Scaling group of size 0 that nobody else changes."""
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)] | None = None
    """GPU type, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name.
    Absent: as Charterer knows it of the instance type."""
    capacity_reservation: Annotated[str, Field(pattern=r"^cr-[0-9a-z]{1,32}$", max_length=40)] | None = None
    """Id of the capacity reservation or Capacity Block that all nodes are launched in."""
    placement_group: _Name | None = None
    """Name of the placement group that all nodes are launched in."""
    assume_role: (
        Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$", max_length=2048)] | None
    ) = None
    """ARN of a role to act with, such as one of another account. Absent: the operator's own credentials."""
    queue: (
        Annotated[str, Field(pattern=r"^https://sqs[.-][!-~]+/[0-9]{12}/[-A-Za-z0-9_.]+$", max_length=512)] | None
    ) = None
    """URL of an SQS queue that gets the warnings before nodes are taken back."""
    abandon_after_seconds: Annotated[int, Field(ge=1800, le=31_536_000)] | None = None
    """An instance ends itself when no operator has renewed it for this many seconds. It needs a script in the instance,
    see docs/clouds/aws.md. Absent: only Charterer ends it."""

    def to_domain(self) -> AwsFleet | AwsGroup:
        """The fleet or group."""
        role, queue, gpu_type = self.assume_role or "", self.queue or "", self.gpu_type or ""
        if self.launch_template is None:
            group = self.auto_scaling_group or ""
            return AwsGroup(self.region, group, gpu_type, role, queue, self.abandon_after_seconds)
        return AwsFleet(
            region=self.region,
            launch_template=self.launch_template.name,
            version=self.launch_template.version,
            subnets=self.subnets or (),
            instance_types=self.instance_types or (),
            gpu_type=gpu_type,
            assume_role=role,
            capacity_reservation=self.capacity_reservation or "",
            placement_group=self.placement_group or "",
            queue=queue,
            abandon_seconds=self.abandon_after_seconds,
        )

    @classmethod
    def from_domain(cls, cloud: AwsFleet | AwsGroup) -> Self:
        """The spec that says the same."""
        role, queue, gpu_type = cloud.assume_role or None, cloud.queue or None, cloud.gpu_type or None
        if isinstance(cloud, AwsGroup):
            return cls(
                region=cloud.region,
                auto_scaling_group=cloud.auto_scaling_group,
                gpu_type=gpu_type,
                assume_role=role,
                queue=queue,
                abandon_after_seconds=cloud.abandon_seconds,
            )
        return cls(
            region=cloud.region,
            launch_template=AwsLaunchTemplate(name=cloud.launch_template, version=cloud.version),
            subnets=cloud.subnets,
            instance_types=cloud.instance_types,
            gpu_type=gpu_type,
            capacity_reservation=cloud.capacity_reservation or None,
            placement_group=cloud.placement_group or None,
            assume_role=role,
            queue=queue,
            abandon_after_seconds=cloud.abandon_seconds,
        )
