"""What GPUs a pool of Karpenter has: as Nodes say, and until there is one as the spec says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.pool import CapacityType, Offering
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
    w = World(cloud=replace(CLOUD, gpu_type="", gpus=0, instance_type="p9.48xlarge"))
    error = await w.answer()
    assert isinstance(error, InvalidRequest)
    assert "no Node says what GPUs a p9.48xlarge has: set spec.karpenter.gpuType and gpusPerNode" in str(error)


async def test_of_a_type_in_the_table_nothing_has_to_be_declared() -> None:
    w = World(cloud=replace(CLOUD, gpu_type="", gpus=0))
    assert (await w.survey()).offering == Offering("NVIDIA-H100-80GB-HBM3", 8, "p5.48xlarge", "us-east-1a")


async def test_a_declared_count_that_the_table_contradicts_is_told() -> None:
    w = World(cloud=replace(CLOUD, gpus=4))
    [told] = [each for each in await w.karpenter.preflight(w.pool) if each.subject.startswith("GPUs")]
    assert not told.well
    assert told.message == (
        "spec.karpenter says 4 × H100, and by Charterer's table it has 8 × NVIDIA-H100-80GB-HBM3: correct gpusPerNode"
    )


@pytest.mark.parametrize(
    ("gpu_type", "name"),
    [
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx-pro-server-6000"),
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("NVIDIA-T4G", "t4g"),
        ("NVIDIA-R300", "r300"),
    ],
)
def test_nodes_are_labelled_with_ec2s_name_of_the_gpu(gpu_type: str, name: str) -> None:
    labels = CLOUD.node_labels(Offering(gpu_type, 8, "g7e.48xlarge", "us-east-1a"), CapacityType.ON_DEMAND)
    assert labels["karpenter.k8s.aws/instance-gpu-name"] == name


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
