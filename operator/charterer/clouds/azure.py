"""Nodes of Azure: VMs of a scale set, or of a node pool of AKS, whose scale set belongs to AKS."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.domain.node_demands import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering

_SIZE: Final = re.compile(r"^(?:Standard|Basic)_([A-Z]+)(\d+)(?:-\d+)?(.*)$", re.IGNORECASE)
_DISK_ZONE: Final = "topology.disk.csi.azure.com/zone"
"""The label that the driver of Azure's disks gives nodes. The driver's volumes require their zone by it."""
_FAULT_DOMAINS: Final = ("0", "1", "2", "3", "4")
"""Fault domains, which stand for the zone of nodes that have no zone. A scale set has at most five."""


class _AzureNodes(Cloud):
    """The common part of scale sets and node pools.

    ``tenant``, ``client``: the identity to act with, or empty for the operator's own.
    """

    __slots__ = ()

    subscription: str
    resource_group: str
    location: str
    tenant: str
    client: str

    @property
    def vendor(self) -> str:
        """Azure."""
        return "azure"

    @property
    def account(self) -> str:
        """The subscription and the identity that acts in it.

        Quotas belong to a region of a subscription, which each LaunchWay names.
        """
        return f"{self.subscription.lower()} {self.tenant.lower()} {self.client.lower()}"

    @property
    def billed_account(self) -> str:
        """The subscription."""
        return self.subscription

    @property
    def billed_region(self) -> str:
        """The location."""
        return self.location

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The size in every zone. If the scale set has no zones, the size in its region."""
        zones = offering.zone.split(",")
        return [of_azure(offering.instance_type, sold, zone, self.location, self.subscription) for zone in zones]

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The place labels of the cloud controller and of the disk driver. If there are no zones, the driver's label is
        empty.
        """
        if offering.zone == self.location:
            return {**place_labels(_FAULT_DOMAINS, self.location), _DISK_ZONE: ("",)}
        return place_labels(offering.zone.split(","), self.location, _DISK_ZONE)

    def quota_units(self, offering: Offering) -> int:
        """Number of virtual CPUs if the size's name says it, otherwise number of GPUs."""
        size = _SIZE.match(offering.instance_type)
        return int(size[2]) if size else offering.machine_gpus


@dataclass(frozen=True, slots=True)
class AzureScaleSet(_AzureNodes):
    """VMs of a scale set, in Uniform or Flexible orchestration, that nobody else changes.

    ``gpu_type``: as in the label nvidia.com/gpu.product, or empty if it is known from the size.
    """

    subscription: str
    resource_group: str
    location: str
    scale_set: str
    gpu_type: str = ""
    tenant: str = ""
    client: str = ""

    @property
    def identity(self) -> Hashable:
        """The scale set. Azure's names do not depend on case."""
        names = self.subscription, self.resource_group, self.scale_set
        return self.vendor, "scaleSet", *(name.lower() for name in names)


@dataclass(frozen=True, slots=True)
class AzureNodePool(_AzureNodes):
    """VMs of a node pool of an AKS cluster. The fields that AzureScaleSet has too mean the same."""

    subscription: str
    resource_group: str
    location: str
    cluster: str
    node_pool: str
    gpu_type: str = ""
    tenant: str = ""
    client: str = ""

    @property
    def identity(self) -> Hashable:
        """The node pool. Azure's names do not depend on case."""
        names = self.subscription, self.resource_group, self.cluster, self.node_pool
        return self.vendor, "nodePool", *(name.lower() for name in names)

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """Labels that AKS reserves for itself (https://learn.microsoft.com/azure/aks/use-labels), and their old names.

        Labels that the node pool itself declares for its nodes are read together with the node pool.
        """
        return {
            "kubernetes.azure.com/agentpool": self.node_pool,
            "agentpool": self.node_pool,
            "kubernetes.azure.com/role": "agent",
            "kubernetes.azure.com/accelerator": "nvidia",
            "accelerator": "nvidia",
        }


def of_azure(size: str, sold: CapacityType, zone: str, location: str, subscription: str) -> LaunchWay:
    """The way to launch a VM of Azure. Spot VMs of all sizes share one quota, so the quota of a spot VM belongs to no
    family.
    """
    return LaunchWay(size, sold.value, zone, series_of(size), location.lower(), account=subscription.lower())


def cpus_of(size: str) -> str:
    """The number in a size's name, as text. It is the number of virtual CPUs: 96 in Standard_NC96ads_A100_v4."""
    parts = _SIZE.match(size)
    return parts[2] if parts else ""


def series_of(size: str) -> str:
    """The name of the sizes that one quota counts together: NCads_A100_v4 for Standard_NC96ads_A100_v4.

    The quota's own name, such as standardNCADSA100v4Family, can be derived from this name only for some series.
    """
    parts = _SIZE.match(size)
    return f"{parts[1]}{parts[3]}" if parts else size
