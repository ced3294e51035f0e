"""Nodes that Karpenter launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from charterer.clouds.aws import EBS_ZONE, least_vcpus, quota_family
from charterer.domain.node_demands import NodeTaint, place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering
from charterer.gpu_types.accelerators import ec2_name

_EC2: Final = "karpenter.k8s.aws"
"""The API group of EC2's node classes, and the prefix of the labels that their nodes get."""
_EC2_FAMILY: Final = re.compile(r"([a-z]+)([0-9]+)[a-z0-9-]*")
_EC2_REGION: Final = re.compile(r"[a-z]+(?:-[a-z]+)+-[0-9]+")
"""The pattern for the name of a region of EC2, with which the names of its zones begin."""


def _ec2_name(gpu_type: str) -> str:
    """EC2's name of a GPU, in the form of Karpenter's node labels, such as rtx-pro-server-6000.

    If the table does not have the GPU, the name is the model in the GPU's label, such as that of
    ``NVIDIA-A100-SXM4-80GB``.
    """
    if name := ec2_name(gpu_type):
        return name.lower().replace(" ", "-")
    return next((word for word in gpu_type.lower().split("-") if word not in ("nvidia", "tesla")), "")


@dataclass(frozen=True, slots=True)
class NodeClaims(Cloud):
    """Nodes that Karpenter launches in the operator's own cluster, with a NodeClaim for each.

    ``class_group``, ``class_kind``, ``class_name``: the node class.
    ``gpu_type``, ``gpus``: type and number of the GPUs. If nobody declared them, empty and 0.
    ``price_metrics``: the URL of Karpenter's metrics. Empty if only the user knows the price.
    ``abandon_seconds``: seconds from the request for a node until the node ends itself. None if it never does.
    ``billing_minimum_seconds``: the least seconds that the cloud bills.
    """

    class_group: str
    class_kind: str
    class_name: str
    instance_type: str
    zone: str
    gpu_type: str = ""
    gpus: int = 0
    taints: tuple[NodeTaint, ...] = ()
    price_metrics: str = ""
    abandon_seconds: int | None = None
    billing_minimum_seconds: int = 60

    @property
    def vendor(self) -> str:
        """Karpenter."""
        return "karpenter"

    @property
    def account(self) -> str:
        """An empty name: a cluster has only one Karpenter, so no name is needed."""
        return ""

    @property
    def marks_machines(self) -> bool:
        """True, because a claim is labelled with its pool."""
        return True

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """Labels with Karpenter's well-known keys (https://karpenter.sh/docs/concepts/scheduling/)."""
        capacity = {"karpenter.sh/capacity-type": "spot" if sold is CapacityType.SPOT else "on-demand"}
        family, _, size = self.instance_type.partition(".")
        named = _EC2_FAMILY.fullmatch(family)
        if self.class_group != _EC2 or named is None:
            return capacity
        gpus = {
            "instance-gpu-manufacturer": "nvidia",
            "instance-gpu-count": str(offering.machine_gpus),
            "instance-gpu-name": _ec2_name(offering.gpu_type),
        }
        words = {
            "instance-category": named[1],
            "instance-generation": named[2],
            "instance-family": family,
            "instance-size": size,
            **gpus,
        }
        return {**capacity, **{f"{_EC2}/{word}": value for word, value in words.items()}}

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The labels of the zone. On EC2 also the labels of the region and of the EBS driver."""
        region = _EC2_REGION.match(self.zone)
        if self.class_group != _EC2 or region is None:
            return place_labels((self.zone,), "")
        return place_labels((self.zone,), region[0], EBS_ZONE)

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The instance type in the zone."""
        return (self.way(sold),)

    def way(self, sold: CapacityType) -> LaunchWay:
        """The way to launch a claim.

        Karpenter shows no quota. So the family is the quota's group on EC2, and the instance type elsewhere.
        """
        family = quota_family(self.instance_type, sold)
        return LaunchWay(self.instance_type, sold.value, self.zone, family, account=self.class_name)

    def quota_units(self, offering: Offering) -> int:
        """Number of virtual CPUs if the type's name says it, as the names of EC2's types do. Otherwise number of
        GPUs.
        """
        return least_vcpus(offering.instance_type) or offering.machine_gpus
