"""Nodes for which Karpenter is asked."""

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
"""The group of EC2's node classes, and the prefix of the labels that their nodes get."""
_EC2_FAMILY: Final = re.compile(r"([a-z]+)([0-9]+)[a-z0-9-]*")
_EC2_REGION: Final = re.compile(r"[a-z]+(?:-[a-z]+)+-[0-9]+")
"""How the name of each of EC2's zones begins: with its region's."""


def _ec2_name(gpu_type: str) -> str:
    """The name that EC2 gives a GPU, as Karpenter labels nodes with it: rtx-pro-server-6000.

    Of one that is not in the table, the model in the label: ``NVIDIA-A100-SXM4-80GB``.
    """
    if name := ec2_name(gpu_type):
        return name.lower().replace(" ", "-")
    return next((word for word in gpu_type.lower().split("-") if word not in ("nvidia", "tesla")), "")


@dataclass(frozen=True, slots=True)
class NodeClaims(Cloud):
    """Nodes for which Karpenter is asked, in the cluster of the operator itself, with a NodeClaim for each.

    ``class_group``, ``class_kind`` and ``class_name`` name the node class. ``gpu_type`` is empty and ``gpus`` 0 where
    nobody declared them. ``price_metrics``: the URL of Karpenter's metrics; empty where only the user knows the price.
    ``billing_minimum_seconds``: the least that the cloud bills.
    ``abandon_seconds``: a node ends itself that long after it was asked for; None: never.
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
        """The one Karpenter of the cluster."""
        return ""

    @property
    def marks_machines(self) -> bool:
        """A claim is labelled with its pool."""
        return True

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """The labels of Karpenter's well-known keys (https://karpenter.sh/docs/concepts/scheduling/)."""
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
        """The zone's; on EC2 also the region's, and that of the driver of EBS."""
        region = _EC2_REGION.match(self.zone)
        if self.class_group != _EC2 or region is None:
            return place_labels((self.zone,), "")
        return place_labels((self.zone,), region[0], EBS_ZONE)

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """The one instance type in the one zone."""
        return (self.way(sold),)

    def way(self, sold: CapacityType) -> LaunchWay:
        """A claim. Karpenter says neither region nor quota: a family is a quota of EC2, elsewhere one instance type."""
        family = quota_family(self.instance_type, sold)
        return LaunchWay(self.instance_type, sold.value, self.zone, family, account=self.class_name)

    def quota_units(self, offering: Offering) -> int:
        """Virtual CPUs where the type's name says them as EC2's do, else GPUs."""
        return least_vcpus(offering.instance_type) or offering.machine_gpus
