"""The quotas by which EC2 counts the virtual CPUs of instances that have GPUs, and what an instance takes of one.

Sources of the quotas: the EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas"; of the codes: ``aws
service-quotas list-service-quotas --service-code ec2`` as quoted by many projects, and the table "EC2 quotas" of the
AWS General Reference, whose links have them. P6 on spot is in no quota that is documented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from charterer.domain.pool import CapacityType

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
