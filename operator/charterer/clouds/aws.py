"""Nodes of AWS: launched from a launch template by EC2 fleets, or into an Auto Scaling group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from charterer.domain.node_demands import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering

# EC2's quotas of virtual CPUs for instances with GPUs, and how much of a quota an instance uses.
#
# The quotas are described in the EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas". The codes come
# from ``aws service-quotas list-service-quotas --service-code ec2``, as quoted by many projects, and from the links of
# the table "EC2 quotas" of the AWS General Reference. No documented quota includes P6 on spot.


_XLARGE_VCPUS: Final = 4
_SIZE: Final = re.compile(r"\.(\d*)xlarge$")


@dataclass(frozen=True, slots=True)
class VcpuQuota:
    """A quota of virtual CPUs in a region.

    ``group``: the part of the quota's name that says which instance types count.
    ``capacity``: how instances must be sold to count.
    ``families``: the instance types that count, as filters of EC2.
    """

    code: str
    name: str
    group: str
    capacity: CapacityType
    families: tuple[str, ...]

    def counts(self, instance_type: str, sold: str) -> bool:
        """Whether an instance of that type, such as p5.48xlarge, counts if it is sold in that way. ``sold``: a
        CapacityType.
        """
        named = "." in instance_type and instance_type.startswith(tuple(each.rstrip("*") for each in self.families))
        return named and sold == self.capacity


_ON_DEMAND, _SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT
_OLDER_P: Final = ("p4*", "p3*", "p2*")

QUOTAS: Final = (
    VcpuQuota("L-417A185B", "Running On-Demand P instances", "P", _ON_DEMAND, ("p*",)),
    VcpuQuota("L-DB2E81BA", "Running On-Demand G and VT instances", "G and VT", _ON_DEMAND, ("g*", "vt*")),
    VcpuQuota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "P4, P3 and P2", _SPOT, _OLDER_P),
    VcpuQuota("L-C4BD4855", "All P5 Spot Instance Requests", "P5", _SPOT, ("p5*",)),
    VcpuQuota("L-3819A6DF", "All G and VT Spot Instance Requests", "G and VT", _SPOT, ("g*", "vt*")),
)


def quota_family(instance_type: str, sold: str) -> str:
    """The name of the types that one quota counts together. It is the quota's ``group``, or without a quota the part of
    the type before the dot.
    """
    groups = (quota.group for quota in QUOTAS if quota.counts(instance_type, sold))
    return next(groups, instance_type.split(".")[0])


def _vcpus(instance_type: str) -> int | None:
    """The number of virtual CPUs of a quota that an instance uses, or None if the type's name does not say it.

    An xlarge has 4 virtual CPUs, and an nxlarge has n times as many. This is true for all types with GPUs that EC2
    lists with such a size.
    """
    size = _SIZE.search(instance_type)
    return None if size is None else _XLARGE_VCPUS * int(size[1] or 1)


def least_vcpus(instance_types: str) -> int | None:
    """The number of virtual CPUs of the smallest of these instance types. Types whose name does not tell the number do
    not count; None if no name tells it. ``instance_types``: names, separated by commas.
    """
    known = [vcpus for name in instance_types.split(",") if (vcpus := _vcpus(name)) is not None]
    return min(known, default=None)


EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
"""The label that the EBS driver gives nodes. Older volumes of the driver require their zone by it."""


class _AwsNodes(Cloud):
    """The common part of fleets and groups."""

    __slots__ = ()

    region: str
    assume_role: str

    @property
    def vendor(self) -> str:
        """AWS."""
        return "aws"

    @property
    def account(self) -> str:
        """The region and the role: quotas and credentials belong to one region."""
        return f"{self.region} {self.assume_role}"

    @property
    def billed_account(self) -> str:
        """The account in the role's ARN ``arn:aws:iam::<account>:role/<name>``."""
        parts = self.assume_role.split(":")
        return parts[4] if len(parts) > 5 else ""

    @property
    def billed_region(self) -> str:
        """The region."""
        return self.region

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """Every instance type in every zone."""
        types, zones = offering.instance_type.split(","), offering.zone.split(",")
        return [of_ec2(kind, sold, zone, self.region) for kind, zone in product(types, zones)]

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The place labels of the cloud controller and of the EBS driver."""
        return place_labels(offering.zone.split(","), self.region, EBS_ZONE)

    def quota_units(self, offering: Offering) -> int:
        """Number of virtual CPUs if the types' names say it, otherwise number of GPUs."""
        return least_vcpus(offering.instance_type) or offering.machine_gpus


@dataclass(frozen=True, slots=True)
class AwsFleet(_AwsNodes):
    """Instances that EC2 fleets of type instant launch from a launch template.

    ``version``: version of the template: a number, $Default or $Latest.
    ``subnets``: an instance is launched in any of them.
    ``instance_types``: types with equal GPUs.
    ``gpu_type``: as in the label nvidia.com/gpu.product, or empty if it is known from the types.
    ``assume_role``: the role to act with, or empty for the SDK's own credentials.
    ``queue``: the URL of the SQS queue that gets the interruption warnings, or empty for none.
    ``abandon_seconds``: seconds without renewal after which an instance ends itself, or None if it never does.
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
        """True, because an instance is tagged with its pool."""
        return True

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """Every instance type in every zone. In a reservation there is no way."""
        return () if self.capacity_reservation else _AwsNodes.ways(self, offering, sold)


@dataclass(frozen=True, slots=True)
class AwsGroup(_AwsNodes):
    """Instances that are launched into an existing Auto Scaling group.

    The fields that AwsFleet has too mean the same.
    """

    region: str
    auto_scaling_group: str
    gpu_type: str = ""
    assume_role: str = ""
    queue: str = ""
    abandon_seconds: int | None = None


def of_ec2(instance_type: str, sold: CapacityType, zone: str, region: str) -> LaunchWay:
    """The way to launch an instance of EC2."""
    return LaunchWay(instance_type, sold.value, zone, quota_family(instance_type, sold), region, account=region)
