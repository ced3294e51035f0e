"""Nodes of AWS: launched from a launch template by EC2 fleets, or into an Auto Scaling group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from charterer.clouds.ec2_quotas import least_vcpus, quota_family
from charterer.domain.nodes.place_labels import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering

EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
"""The label that the driver of EBS gives nodes, and by which its older volumes ask for their zone."""


class _AwsNodes(Cloud):
    """What both kinds have in common."""

    __slots__ = ()

    region: str
    assume_role: str

    @property
    def vendor(self) -> str:
        """AWS."""
        return "aws"

    @property
    def account(self) -> str:
        """The region and the role: quotas and credentials are of one region."""
        return f"{self.region} {self.assume_role}"

    @property
    def billed_account(self) -> str:
        """The account of the role, which its ARN ``arn:aws:iam::<account>:role/<name>`` names."""
        parts = self.assume_role.split(":")
        return parts[4] if len(parts) > 5 else ""

    @property
    def billed_region(self) -> str:
        """The region."""
        return self.region

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """Each instance type in each zone."""
        types, zones = offering.instance_type.split(","), offering.zone.split(",")
        return [of_ec2(kind, sold, zone, self.region) for kind, zone in product(types, zones)]

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """Those of the cloud controller and of the driver of EBS."""
        return place_labels(offering.zone.split(","), self.region, EBS_ZONE)

    def quota_units(self, offering: Offering) -> int:
        """Virtual CPUs where the types' names say them, else GPUs."""
        return least_vcpus(offering.instance_type) or offering.machine_gpus


@dataclass(frozen=True, slots=True)
class AwsFleet(_AwsNodes):
    """Instances that EC2 fleets of type instant launch from a launch template.

    ``subnets``: where they may be launched, in any of them. ``instance_types``: of equal GPUs. ``version``: of the
    template; a number, $Default or $Latest. ``gpu_type``: as in the label nvidia.com/gpu.product, where it is not known
    of the types. ``assume_role``: the role to act with, otherwise the SDK's own credentials. ``queue``: the URL of the
    SQS queue that gets the interruption warnings. Empty: none. ``abandon_seconds``: an instance ends itself when no
    operator has renewed it for that long; None: never.
    """

    region: str
    launch_template: str
    version: str
    subnets: tuple[str, ...]
    instance_types: tuple[str, ...]
    gpu_type: str = ""
    assume_role: str = ""
    capacity_reservation: str = ""
    placement_group: str = ""
    queue: str = ""
    abandon_seconds: int | None = None

    @property
    def marks_machines(self) -> bool:
        """An instance is tagged with its pool."""
        return True

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """Each instance type in each zone; none in a reservation."""
        return () if self.capacity_reservation else _AwsNodes.ways(self, offering, sold)


@dataclass(frozen=True, slots=True)
class AwsGroup(_AwsNodes):
    """Instances that are launched into an existing Auto Scaling group. The other fields are as those of AwsFleet."""

    region: str
    auto_scaling_group: str
    gpu_type: str = ""
    assume_role: str = ""
    queue: str = ""
    abandon_seconds: int | None = None


def of_ec2(instance_type: str, sold: CapacityType, zone: str, region: str) -> LaunchWay:
    """An instance of EC2."""
    return LaunchWay(instance_type, sold.value, zone, quota_family(instance_type, sold), region, account=region)
