"""What GPUs a pool of Karpenter has: as Nodes say, and until there is one as the spec says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.pool import Offering
from charterer.providers.errors import InvalidRequest
from tests.unit.providers.claims_world import CLOUD, NODES, World


async def test_nodes_say_what_they_are_and_not_the_spec() -> None:
    w = World()
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    node = {"metadata": {"name": "n", "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "4"}}}
    w.cluster.objects[f"{NODES}/n"] = node
    assert (await w.survey()).offering == Offering("NVIDIA-H100-80GB-HBM3", 4, "p5.48xlarge", "us-east-1a")


@pytest.mark.parametrize(
    ("product", "resource", "places"),
    [("NVIDIA-L40S-SHARED", "nvidia.com/gpu", "16"), ("NVIDIA-L40S", "nvidia.com/gpu.shared", "16")],
    ids=["under-its-own-name", "renamed"],
)
async def test_a_node_whose_gpus_are_shared_has_as_many_as_its_label_says(
    product: str, resource: str, places: str
) -> None:
    w = World()
    labels = {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": "4",
        "nvidia.com/gpu.replicas": "4",
    }
    w.cluster.objects[f"{NODES}/n"] = {
        "metadata": {"name": "n", "labels": labels},
        "status": {"capacity": {resource: places}},
    }
    assert (await w.survey()).offering == Offering("NVIDIA-L40S", 4, "p5.48xlarge", "us-east-1a")


async def test_where_nobody_says_it_the_fields_to_set_are_named() -> None:
    w = World(cloud=replace(CLOUD, gpu_type="", gpus=0))
    error = await w.answer()
    assert isinstance(error, InvalidRequest)
    assert "no Node says what GPUs a p5.48xlarge has: set spec.karpenter.gpuType and gpusPerNode" in str(error)


async def test_a_node_whose_gpus_are_cut_says_nothing() -> None:
    w = World()
    labels = {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "nvidia.com/gpu.product": "NVIDIA-H100-MIG-1g.10gb",
    }
    node = {"metadata": {"name": "n", "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": "56"}}}
    w.cluster.objects[f"{NODES}/n"] = node
    assert (await w.survey()).offering == Offering("H100", 8, "p5.48xlarge", "us-east-1a")


async def test_a_node_without_the_label_or_without_gpus_says_nothing() -> None:
    w = World()
    kind = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    w.cluster.objects[f"{NODES}/a"] = {"metadata": {"name": "a", "labels": kind}}
    w.cluster.objects[f"{NODES}/b"] = {"metadata": {"name": "b", "labels": {**kind, "nvidia.com/gpu.product": "X"}}}
    assert (await w.survey()).offering.gpu_type == "H100"
