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

# The quotas by which EC2 counts the virtual CPUs of instances that have GPUs, and what an instance takes of one.
#
# Sources of the quotas: the EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas"; of the codes:
# ``aws service-quotas list-service-quotas --service-code ec2`` as quoted by many projects, and the table "EC2
# quotas" of the AWS General Reference, whose links have them. P6 on spot is in no quota that is documented.


_XLARGE_VCPUS: Final = 4
_SIZE: Final = re.compile(r"\.(\d*)xlarge$")


@dataclass(frozen=True, slots=True)
class VcpuQuota:
    """A quota of a region in virtual CPUs. ``families``: the instance types that count, as filters of EC2.

    ``group``: the part of the name that says which types those are.
    """

    code: str
    name: str
    group: str
    capacity: CapacityType
    families: tuple[str, ...]

    def counts(self, instance_type: str, sold: str) -> bool:
        """Whether an instance of that type, such as p5.48xlarge, counts that is sold so (a CapacityType)."""
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
    """The types that a quota counts together: the type's ``group``, or the name before the dot where none is known."""
    groups = (quota.group for quota in QUOTAS if quota.counts(instance_type, sold))
    return next(groups, instance_type.split(".")[0])


def _vcpus(instance_type: str) -> int | None:
    """The virtual CPUs that an instance takes of a quota; None where its name does not say.

    An xlarge has 4 and an nxlarge n times as many, which is so of all types with GPUs that EC2 lists by such a size.
    """
    size = _SIZE.search(instance_type)
    return None if size is None else _XLARGE_VCPUS * int(size[1] or 1)


def least_vcpus(instance_types: str) -> int | None:
    """The least that one of these takes, whose names are separated by commas; None where no name says it."""
    known = [vcpus for name in instance_types.split(",") if (vcpus := _vcpus(name)) is not None]
    return min(known, default=None)


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
