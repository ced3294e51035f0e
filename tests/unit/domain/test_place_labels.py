"""Labels that each cloud gives its nodes, whoever runs the cluster, and those of AKS."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from charterer.clouds.aws import AwsFleet, AwsGroup
from charterer.clouds.azure import AzureNodePool, AzureScaleSet
from charterer.clouds.fake import FakeGroup
from charterer.clouds.gcp import GcpGroup, GcpTemplate
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.node_demands import NodeDemands, Requirement, misfits
from charterer.domain.offered_node import offered_node
from charterer.domain.pool import CapacityType, Cloud, Offering
from tests import factory as make

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
EBS, PD, DISK = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone"
CLAIM = NodeClaims("karpenter.k8s.aws", "EC2NodeClass", "gpu", "p5.48xlarge", "us-west-2-lax-1a")


def offered(cloud: Cloud, zone: str) -> Mapping[str, tuple[str, ...]]:
    """The labels of a node of that cloud, with their possible values."""
    node = offered_node(make.pool(cloud=cloud, offering=Offering("NVIDIA-L4", 8, "type", zone)))
    assert node is not None
    return dict(node.labels)


@pytest.mark.parametrize(
    ("cloud", "zone", "expected"),
    [
        (
            AwsFleet("eu-west-1", "gpu", "1", ("a", "b"), ("g6.48xlarge",)),
            "eu-west-1a,eu-west-1b",
            {
                ZONE: ("eu-west-1a", "eu-west-1b"),
                REGION: ("eu-west-1",),
                EBS: ("eu-west-1a", "eu-west-1b"),
            },
        ),
        (
            AwsGroup("eu-west-1", "gpu"),
            "eu-west-1a",
            {ZONE: ("eu-west-1a",), REGION: ("eu-west-1",), EBS: ("eu-west-1a",)},
        ),
        (
            GcpGroup("p", "europe-west4-b", "gpu"),
            "europe-west4-b",
            {ZONE: ("europe-west4-b",), REGION: ("europe-west4",), PD: ("europe-west4-b",)},
        ),
        (
            GcpTemplate("p", "us-central1-a", "gpu"),
            "us-central1-a",
            {ZONE: ("us-central1-a",), REGION: ("us-central1",), PD: ("us-central1-a",)},
        ),
        (
            AzureScaleSet("s", "g", "westeurope", "gpu"),
            "westeurope-1,westeurope-2",
            {
                ZONE: ("westeurope-1", "westeurope-2"),
                REGION: ("westeurope",),
                DISK: ("westeurope-1", "westeurope-2"),
            },
        ),
        (
            AzureNodePool("s", "g", "westeurope", "prod", "gpu"),
            "westeurope",
            {ZONE: ("0", "1", "2", "3", "4"), REGION: ("westeurope",), DISK: ("",)},
        ),
        (CLAIM, "us-west-2-lax-1a", {ZONE: ("us-west-2-lax-1a",), REGION: ("us-west-2",), EBS: ("us-west-2-lax-1a",)}),
        (FakeGroup("http://cloud", "g"), "fake-1a", {ZONE: ("fake-1a",)}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Cloud) else "",
)
def test_labels_of_zone_and_region(cloud: Cloud, zone: str, expected: Mapping[str, tuple[str, ...]]) -> None:
    labels = offered(cloud, zone)
    assert {key: labels[key] for key in (ZONE, REGION, EBS, PD, DISK) if key in labels} == expected
    beta = {key.replace("topology.kubernetes", "failure-domain.beta.kubernetes"): key for key in (ZONE, REGION)}
    assert {key: labels.get(key) for key in beta} == {key: labels.get(stable) for key, stable in beta.items()}


@pytest.mark.parametrize(
    ("zones", "asked", "fits"),
    [
        ("westeurope-1", "westeurope-1", True),
        ("westeurope-1", "westeurope-2", False),
        ("westeurope-1,westeurope-2", "westeurope-2", False),
        ("westeurope", "", True),
        ("westeurope", "westeurope-1", False),
    ],
)
def test_a_volume_of_a_zone_is_reached_from_nodes_that_are_all_there(zones: str, asked: str, fits: bool) -> None:
    """A disk without a zone asks for nodes without one: their label is empty."""
    cloud = AzureScaleSet("s", "g", "westeurope", "gpu")
    node = offered_node(make.pool(cloud=cloud, offering=Offering("NVIDIA-L4", 8, "type", zones)))
    assert node is not None
    assert (not misfits(NodeDemands(every=(Requirement(DISK, "In", (asked,)),)), node)) is fits


def test_karpenters_nodes_elsewhere_are_not_known_to_have_labels_of_ec2() -> None:
    for class_group, zone in (("karpenter.example.com", "us-east-1a"), ("karpenter.k8s.aws", "somewhere")):
        cloud = NodeClaims(class_group, "Class", "gpu", "type", zone)
        assert not {REGION, EBS} & offered(cloud, zone).keys()


def test_nodes_of_aks_have_its_reserved_labels_and_those_of_a_scale_set_may_be_anybodys() -> None:
    pool, scale_set = AzureNodePool("s", "g", "westeurope", "prod", "gpu"), AzureScaleSet("s", "g", "westeurope", "gpu")
    node = Offering("NVIDIA-L4", 8, "type", "westeurope")
    assert pool.node_labels(node, CapacityType.SPOT) == {
        "kubernetes.azure.com/agentpool": "gpu",
        "agentpool": "gpu",
        "kubernetes.azure.com/role": "agent",
        "kubernetes.azure.com/accelerator": "nvidia",
        "accelerator": "nvidia",
    }
    assert scale_set.node_labels(node, CapacityType.SPOT) == {}
