"""What the tags of an Auto Scaling group say of its nodes: those that the cluster autoscaler reads, and EKS's own.

https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/aws
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from charterer.providers.node_template import NodeTemplate

_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"
_NODE_GROUP: Final = "eks:nodegroup-name"
"""The tag by which EKS says of a group which managed node group it is."""
_CAPACITY: Final[Mapping[str, str]] = {"OnDemand": "ON_DEMAND", "Spot": "SPOT"}
"""What a managed node group sells, in the words of EKS."""


def node_template(row: Mapping[str, Any], sells: str) -> NodeTemplate:
    """What a group says, as EC2 Auto Scaling describes it. ``sells``: OnDemand or Spot, or both."""
    tags = {tag["Key"]: tag.get("Value", "") for tag in row.get("Tags", ())}
    return NodeTemplate(
        {**_under("label", tags), **_managed(tags, row, sells)},
        tuple(_under("taint", tags).items()),
        _under("resources", tags),
    )


def _under(kind: str, tags: Mapping[str, str]) -> Mapping[str, str]:
    beginning = f"{_TEMPLATE}/{kind}/"
    return {key.removeprefix(beginning): value for key, value in tags.items() if key.startswith(beginning)}


def _managed(tags: Mapping[str, str], row: Mapping[str, Any], sells: str) -> Mapping[str, str]:
    """The labels that EKS gives the nodes of its node groups (the page managed-node-groups of its user guide).

    The capacity type follows from the group only where a policy names the purchase options: a Capacity Block is in the
    launch template.
    """
    if _NODE_GROUP not in tags:
        return {}
    capacity = _CAPACITY.get(sells) if "MixedInstancesPolicy" in row else None
    of_capacity = {} if capacity is None else {"eks.amazonaws.com/capacityType": capacity}
    return {"eks.amazonaws.com/nodegroup": tags[_NODE_GROUP], **of_capacity}
