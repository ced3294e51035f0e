"""Tags of an Auto Scaling group, as EC2 Auto Scaling describes them, and what they say of its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.providers.aws.group import node_template
from charterer.providers.provider import NO_TEMPLATE

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
MIXED = {"InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0}}


def group(tags: dict[str, str], **fields: Any) -> dict[str, Any]:
    """A group's row. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TagDescription.html"""
    of_group = {"ResourceId": "gpu", "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False}
    return {"Tags": [{"Key": key, "Value": value, **of_group} for key, value in tags.items()], **fields}


def test_the_tags_are_those_that_the_cluster_autoscaler_reads() -> None:
    row = group(
        {
            f"{TEMPLATE}/label/example.com/team": "research",
            f"{TEMPLATE}/taint/dedicated": "ml:NoSchedule",
            f"{TEMPLATE}/resources/vpc.amazonaws.com/efa": "32",
            f"{TEMPLATE}/autoscaling-options/scaledownunneededtime": "10m0s",
            "k8s.io/cluster-autoscaler/enabled": "true",
            "team": "billing",
        }
    )
    assert node_template(row, "OnDemand").traits({}) == NodeTraits(
        (("example.com/team", "research"),),
        (NodeTaint("dedicated", "ml", "NoSchedule"),),
        (("vpc.amazonaws.com/efa", 32_000),),
    )


@pytest.mark.parametrize(
    ("sells", "policy", "capacity"),
    [
        ("OnDemand", {"MixedInstancesPolicy": MIXED}, "ON_DEMAND"),
        ("Spot", {"MixedInstancesPolicy": MIXED}, "SPOT"),
        ("OnDemand and Spot", {"MixedInstancesPolicy": MIXED}, None),
        ("OnDemand", {}, None),  # it may be a Capacity Block, which the launch template says
    ],
)
def test_nodes_of_a_managed_node_group_have_the_labels_of_eks(
    sells: str, policy: dict[str, Any], capacity: str | None
) -> None:
    labels = dict(
        node_template(group({"eks:nodegroup-name": "gpu", "eks:cluster-name": "prod"}, **policy), sells).labels
    )
    assert labels.pop("eks.amazonaws.com/nodegroup") == "gpu"
    assert labels == ({} if capacity is None else {"eks.amazonaws.com/capacityType": capacity})


def test_a_group_without_such_tags_says_nothing() -> None:
    assert node_template({}, "OnDemand") == NO_TEMPLATE
    assert node_template(group({"Name": "gpu"}), "Spot").traits({}) == NodeTraits()
