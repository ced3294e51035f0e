"""Nodes that Charterer did not make: jobs run on them beside what others run there, and they stay as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import GPU_POOLS, NODES, PODS
from tests.testbed.bed import Bed, group

HEARTBEAT = {"kwok.x-k8s.io/node": "fake"}
KIND = "NVIDIA-A100-SXM4-40GB"
LABELS = {"example.com/gpus": "own"}


async def make_node(bed: Bed, name: str, *, gpus: int = 4, **labels: str) -> None:
    """A machine of the team's own joins the cluster; kwok plays its kubelet."""
    resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    system = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}  # Kubernetes adds the second to the first
    named = {"kubernetes.io/hostname": name, **system, "nvidia.com/gpu.product": KIND, **LABELS}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": HEARTBEAT, "labels": {**named, **labels}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }
    await bed.kube.post(NODES.all(), body)


async def strangers_pod(bed: Bed, node: str, gpus: int) -> None:
    limits = {"nvidia.com/gpu": str(gpus)}
    container = {"name": "c", "image": "c", "resources": {"limits": limits, "requests": limits}}
    metadata = {"name": "stranger", "namespace": bed.namespace, "labels": {"app": "stranger"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
    }
    await bed.kube.post(PODS.all(bed.namespace), pod)


def as_it_was_made(node: RawObject) -> Mapping[str, Any]:
    """What Charterer might write on a Node, without what Kubernetes itself writes there after a while."""
    metadata, spec = node["metadata"], node["spec"]
    passing = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
    annotations = {key: value for key, value in metadata["annotations"].items() if not key.startswith("node.alpha.")}
    taints = [taint for taint in spec.get("taints") or () if not taint["key"].startswith(passing)]
    return {
        "uid": metadata["uid"],
        "labels": metadata["labels"],
        "annotations": annotations,
        "finalizers": metadata.get("finalizers"),
        "taints": taints,
        "cordoned": spec.get("unschedulable", False),
    }


def nodes_of(bed: Bed) -> Mapping[str, Mapping[str, Any]]:
    own = [raw for raw in bed.mirror.all(NODES) if LABELS.items() <= raw["metadata"]["labels"].items()]
    return {raw["metadata"]["name"]: as_it_was_made(raw) for raw in own}


async def made(bed: Bed, *names: str) -> Mapping[str, Mapping[str, Any]]:
    """The Nodes once all are seen."""
    return await bed.until(lambda: nodes if set(nodes := nodes_of(bed)) == set(names) else {})


def own_pool(bed: Bed) -> RawObject | None:
    return bed.mirror.one(GPU_POOLS, "own")


async def create_pool(bed: Bed) -> None:
    await bed.create("GPUPool", "own", {"existing": {"nodeSelector": LABELS, "budget": "team"}})


@pytest.mark.groups(group("a100"))
async def test_jobs_run_on_nodes_that_are_there_anyway_before_any_is_rented_and_leave_them_as_they_were(
    bed: Bed,
) -> None:
    await make_node(bed, "own-a")
    await make_node(bed, "own-b")
    await strangers_pod(bed, "own-b", 3)
    await make_node(bed, "own-cordoned")
    await bed.kube.merge_patch(NODES.one("own-cordoned"), {"spec": {"unschedulable": True}})
    await make_node(bed, "own-small", gpus=2)
    await bed.until(lambda: nodes_of(bed).get("own-cordoned", {}).get("cordoned"))
    before = await made(bed, "own-a", "own-b", "own-cordoned", "own-small")
    bed.operator()
    await bed.pool("a100")
    await create_pool(bed)
    await bed.budget()
    await bed.until(lambda: len(bed.rentals("Ready")) == 2)
    said = bed.condition(own_pool(bed), "NodesTakePart")
    assert (said["status"], said["reason"]) == ("False", "OtherGpus")
    assert "Node own-cordoned is cordoned" in said["message"]
    assert "Node own-small offers 2 × NVIDIA-A100-SXM4-40GB" in said["message"]
    await bed.until(lambda: "3 GPUs of Node own-b" in bed.condition(own_pool(bed), "NodesTakePart").get("message", ""))
    await bed.job("whole", gpus=4)
    await bed.job("part", gpus=1)
    await bed.running("whole", "part")
    homes = {name: bed.pods(name)[0]["spec"]["nodeName"] for name in ("whole", "part")}
    assert homes == {"whole": "own-a", "part": "own-b"}
    assert await bed.launched() == 0
    await bed.job("more", gpus=4)
    await bed.running("more")
    assert await bed.launched() == 1
    await bed.finish("part")
    await bed.complete("part")
    await bed.delete("GPUPool", "own")
    await bed.until(lambda: own_pool(bed) is None and nodes_of(bed) == before)
    pod = await bed.kube.get(PODS.one("stranger", bed.namespace))
    assert pod["status"]["phase"] == "Running"
    assert "deletionTimestamp" not in pod["metadata"]
    await bed.running("whole")
    assert bed.pods("whole")[-1]["spec"]["nodeName"] not in before


async def test_without_a_cloud_and_without_money_jobs_run_and_an_uninstalled_operator_leaves_the_nodes_as_they_were(
    bed: Bed,
) -> None:
    await make_node(bed, "own-a")
    before = await made(bed, "own-a")
    operator = bed.operator()
    await bed.budget(amount="0")
    await create_pool(bed)
    await bed.job("train", {"min": 1, "preferred": 4, "max": 4}, resizePolicy="Restart")
    await bed.running("train")
    assert bed.tj("train")["gpus"] == 4
    await bed.kube.merge_patch(NODES.one("own-a"), {"spec": {"unschedulable": True}})
    await bed.until(lambda: bed.condition(own_pool(bed), "NodesTakePart").get("reason") == "NodeCordoned")
    await bed.finish("train")
    await bed.complete("train")
    await bed.until(lambda: not bed.rentals())
    await bed.kube.merge_patch(NODES.one("own-a"), {"spec": {"unschedulable": None}})
    await bed.until(lambda: len(bed.rentals("Ready")) == 1)
    for kind, name in (("TrainingJob", "train"), ("GPUPool", "own"), ("GPUBudget", "team")):
        await bed.delete(kind, name)
    await bed.until(lambda: not bed.rentals() and own_pool(bed) is None and nodes_of(bed) == before)
    await operator.stop()
    assert nodes_of(bed) == before
