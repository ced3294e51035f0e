"""Nodes of Google Cloud, made in a zonal managed instance group, or by bulkInsert from an instance template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.node_demands import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering
from charterer.gpu_types.accelerators import ON_SPOT_ONLY, QUOTAS, accelerator_of

# The quotas that count the GPUs of Compute Engine.
#
# The on-demand quotas of newer GPUs are one metric with a dimension for each family. The Compute Engine API does not
# show these dimensions ("Allocation quotas", https://cloud.google.com/compute/resource-usage).


def quota_family(instance_type: str) -> str:
    """The accelerator type, by which quotas count. If it is not known, the machine family.

    The accelerator type is nvidia-l4 for g2-standard-4 and for n1-standard-8+nvidia-l4, for example.
    """
    _, attached, accelerator = instance_type.partition("+")
    if attached:
        return accelerator
    return accelerator_of(instance_type) or instance_type.split("-")[0]


def quota_metric(accelerator: str, *, spot: bool) -> str:
    """The quota that counts an accelerator type. Empty if the API does not show the quota."""
    metric = QUOTAS.get(accelerator, "")
    if spot:
        return f"PREEMPTIBLE_{metric}" if metric else ""
    return "" if accelerator in ON_SPOT_ONLY else metric


_DISK_ZONE: Final = "topology.gke.io/zone"
"""The label that the driver of persistent disks gives nodes. The driver's volumes require their zone by it."""


class _GcpNodes(Cloud):
    """The common part of groups and templates."""

    __slots__ = ()

    project: str
    zone: str

    @property
    def vendor(self) -> str:
        """Google Cloud."""
        return "gcp"

    @property
    def account(self) -> str:
        """The project: rights and quotas belong to one project."""
        return self.project

    @property
    def region(self) -> str:
        """The region of the zone."""
        return region_of(self.zone)

    @property
    def billed_account(self) -> str:
        """The project."""
        return self.project

    @property
    def billed_region(self) -> str:
        """The region of the zone."""
        return self.region

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The machine type in the zone."""
        return (of_gce(offering.instance_type, sold, self.zone, self.project),)

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The place labels of the cloud controller and of the driver of persistent disks."""
        return place_labels((self.zone,), self.region, _DISK_ZONE)


@dataclass(frozen=True, slots=True)
class GcpGroup(_GcpNodes):
    """Instances of an existing zonal managed instance group, each made by its name.

    ``gpu_type``: as in the label nvidia.com/gpu.product. Empty if it is known from the machine type.
    ``run_seconds``: seconds for which nodes run. Nodes are then ordered by resize requests (flex-start), and the group
    makes either all nodes of a request or none. If ``run_seconds`` is None, nodes are made at once and run until they
    are ended.
    """

    project: str
    zone: str
    group: str
    gpu_type: str = ""
    run_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class GcpTemplate(_GcpNodes):
    """Instances that bulkInsert makes from an instance template and that are in no group. Either all nodes of a request
    are made or none.

    ``template``: the name of a global template, or ``REGION/NAME`` of a regional template.
    ``reservation``: the only reservation in which the instances are made. Empty if the template decides.
    ``run_seconds``: seconds after which Google Cloud deletes a node, or None if it never does.

    The fields that GcpGroup has too mean the same.
    """

    project: str
    zone: str
    template: str
    gpu_type: str = ""
    reservation: str = ""
    run_seconds: int | None = None

    @property
    def marks_machines(self) -> bool:
        """True, because an instance is labelled with its pool."""
        return True

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The machine type in the zone. In a reservation there is no way."""
        return () if self.reservation else _GcpNodes.ways(self, offering, sold)


def of_gce(instance_type: str, sold: CapacityType, zone: str, project: str) -> LaunchWay:
    """The way to launch an instance of Compute Engine. Quotas of GPUs belong to a project and a region."""
    return LaunchWay(instance_type, sold.value, zone, quota_family(instance_type), region_of(zone), account=project)


def region_of(zone: str) -> str:
    """The region of a zone: its name without the last letter."""
    return zone.rpartition("-")[0]
