"""Nodes of Google Cloud: made in a zonal managed instance group, or by bulkInsert from an instance template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.node_demands import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering
from charterer.gpu_types.accelerators import ON_SPOT_ONLY, QUOTAS, accelerator_of

# The GPUs of Compute Engine: by which quota they are counted.
#
# The quotas of newer GPUs on demand are one metric with a dimension for each family, which the Compute Engine API
# does not tell ("Allocation quotas", https://cloud.google.com/compute/resource-usage).


def quota_family(instance_type: str) -> str:
    """The accelerator type, by which quotas count: such as nvidia-l4 of g2-standard-4 and of n1-standard-8+nvidia-l4.

    Where it is not known, the machine family.
    """
    _, attached, accelerator = instance_type.partition("+")
    if attached:
        return accelerator
    return accelerator_of(instance_type) or instance_type.split("-")[0]


def quota_metric(accelerator: str, *, spot: bool) -> str:
    """The quota that counts an accelerator type; empty where the API does not tell it."""
    metric = QUOTAS.get(accelerator, "")
    if spot:
        return f"PREEMPTIBLE_{metric}" if metric else ""
    return "" if accelerator in ON_SPOT_ONLY else metric


_DISK_ZONE: Final = "topology.gke.io/zone"
"""The label that the driver of persistent disks gives nodes, and by which its volumes ask for their zone."""


class _GcpNodes(Cloud):
    """What both kinds have in common."""

    __slots__ = ()

    project: str
    zone: str

    @property
    def vendor(self) -> str:
        """Google Cloud."""
        return "gcp"

    @property
    def account(self) -> str:
        """The project: rights and quotas are of one project."""
        return self.project

    @property
    def region(self) -> str:
        """The region that the zone is in."""
        return region_of(self.zone)

    @property
    def billed_account(self) -> str:
        """The project."""
        return self.project

    @property
    def billed_region(self) -> str:
        """The region that the zone is in."""
        return self.region

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The one machine type in the one zone."""
        return (of_gce(offering.instance_type, sold, self.zone, self.project),)

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """Those of the cloud controller and of the driver of persistent disks."""
        return place_labels((self.zone,), self.region, _DISK_ZONE)


@dataclass(frozen=True, slots=True)
class GcpGroup(_GcpNodes):
    """Instances of an existing zonal managed instance group, each made by its name.

    ``gpu_type``: as in the label nvidia.com/gpu.product, where it is not known of the machine type; empty: as known.
    ``run_seconds``: nodes are asked for by resize requests (flex-start), all of an ask or none, and run for that long;
    None: they are made at once, and run until they are ended.
    """

    project: str
    zone: str
    group: str
    gpu_type: str = ""
    run_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class GcpTemplate(_GcpNodes):
    """Instances that bulkInsert makes from an instance template, all of an ask or none, in no group.

    ``template``: the name of a global template, or ``REGION/NAME`` of a regional one. ``reservation``: the name of the
    only reservation in which they are made; empty: as the template says. The other fields are as those of GcpGroup.
    ``run_seconds``: Google Cloud deletes a node after that long; None: never.
    """

    project: str
    zone: str
    template: str
    gpu_type: str = ""
    reservation: str = ""
    run_seconds: int | None = None

    @property
    def marks_machines(self) -> bool:
        """An instance is labelled with its pool."""
        return True

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The one machine type in the one zone; none in a reservation."""
        return () if self.reservation else _GcpNodes.ways(self, offering, sold)


def of_gce(instance_type: str, sold: CapacityType, zone: str, project: str) -> LaunchWay:
    """An instance of Compute Engine. Quotas of GPUs are of a project and a region."""
    return LaunchWay(instance_type, sold.value, zone, quota_family(instance_type), region_of(zone), account=project)


def region_of(zone: str) -> str:
    """The region of a zone: its name without the last letter."""
    return zone.rpartition("-")[0]
