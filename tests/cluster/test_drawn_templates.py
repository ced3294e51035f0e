"""What random templates ask of nodes, through a whole operator: the real scheduler judges each place and each refusal.

Beside the pools stands a Node like those of each pool, tainted by somebody else. A job that runs has its pods on nodes
that were rented once, for it. For a job that is told that no pool fits, a pod of its template is made for each of these
Nodes, and the scheduler binds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import pytest

from charterer.cluster.paths import NODES, PODS
from charterer.tools.fakecloud.config import GroupSpec
from charterer.tools.fakecloud.nodes import manifest
from charterer.tools.fakecloud.records import Machine
from tests import lanes
from tests.cluster.drawn_templates import EFA, GPUS, PIN, Json, judged, pinned_pod, template
from tests.testbed.bed import Bed, group

STRANGERS: Final = {"key": "example.com/not-yours", "value": "", "effect": "NoSchedule"}
DEDICATED: Final = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
A100, T4 = GPUS[0], GPUS[1]
DRAWS: Final = lanes.examples(100)
GPUS_EACH: Final = 4
"""GPUs of each job: a whole node, so that each has a node of its own."""


def _group(name: str, gpu: tuple[str, int], zone: str, price: str, **fields: Any) -> Mapping[str, Any]:
    """A group whose Nodes show what NVIDIA's feature discovery does, beside labels of its owner."""
    gpu_type, memory = gpu
    labels = {"nvidia.com/gpu.memory": str(memory), **fields.pop("labels", {})}
    more = {"gpuType": gpu_type, "instanceType": "g.4", "zone": zone, "hourlyPrice": price, "maxSize": 200}
    return group(name, **{**more, **fields}, labels=labels)


POOLS: Final = (
    _group("a-one", A100, "z1", "12.00", labels={"team": "vision"}),
    _group("a-two", A100, "z2", "13.00", taints=[DEDICATED], resources={EFA: "4"}),
    _group("t-one", T4, "z1", "4.00", cpu="8", memory="30Gi", instanceType="g.8"),
    _group("t-two", T4, "z2", "5.00", labels={"team": "speech", "generation": "7"}),
)


def _template(seed: int) -> Json:
    """A template of one pod, that was written for one of the pools or for another cluster."""
    draw = Random(seed)
    pool = GroupSpec.model_validate(draw.choice(POOLS))
    return template(draw, pool.gpu_type, pool.zone)


async def _nodes_of_strangers(bed: Bed) -> list[str]:
    """A Node like those of each pool, which belongs to nobody and takes no pod that does not ask for it."""
    names = []
    for spec in map(GroupSpec.model_validate, POOLS):
        name = f"{bed.namespace}-like-{spec.name}"
        machine = Machine(name, spec.name, spec.zone, spec.gpu_type, spec.gpus_per_instance, 0, 0, (), 0, 0)
        body = manifest(machine, spec)
        body["metadata"]["labels"][PIN] = name
        body["spec"]["taints"].append(STRANGERS)
        del body["spec"]["providerID"]
        await bed.kube.post(NODES.all(), body)
        names.append(name)
    return names


async def _until_ready(bed: Bed, nodes: Sequence[str]) -> None:
    """The Nodes have no taint but their own three at most."""
    unready = "node.kubernetes.io/not-ready"
    while True:
        there = [node for node in (await bed.kube.list(NODES.all())).items if node["metadata"]["name"] in nodes]
        if not any(unready in str(node["spec"].get("taints")) for node in there):
            return
        await asyncio.sleep(0.2)


async def _takers(bed: Bed, nodes: Sequence[str], templates: Mapping[str, Json]) -> Mapping[str, list[str]]:
    """By job, the Nodes of strangers on which the scheduler puts a pod of its template, one job after the other."""
    taken: dict[str, list[str]] = {}
    strangers = {**STRANGERS, "operator": "Exists"}
    for job, wanted in templates.items():
        names = {f"{job}-{node}": node for node in nodes}
        for name, node in names.items():
            await bed.kube.post(PODS.all(bed.namespace), pinned_pod(name, node, wanted, GPUS_EACH, [strangers]))
        while True:
            pods = [await bed.kube.get(PODS.one(name, bed.namespace)) for name in names]
            if all(judged(pod) for pod in pods):
                break
            await asyncio.sleep(0.1)
        taken[job] = [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
        for name in names:
            await bed.kube.delete(PODS.one(name, bed.namespace), grace=0)
    return taken


@pytest.mark.groups(*POOLS)
async def test_each_drawn_job_runs_on_the_first_nodes_rented_for_it_or_no_pool_would_have_taken_it(bed: Bed) -> None:
    nodes = await _nodes_of_strangers(bed)
    bed.operator()
    for spec in POOLS:
        await bed.pool(str(spec["name"]), maxNodes=DRAWS)
    await bed.budget()
    templates = {f"drawn-{seed}": _template(seed) for seed in range(DRAWS)}
    for job, wanted in templates.items():
        await bed.create("TrainingJob", job, {"gpus": {"min": GPUS_EACH, "max": GPUS_EACH}, "template": wanted})
    refused: set[str] = set()

    def decided() -> bool:
        refused.update(job for job in templates if bed.tj(job).get("why") == "NoOption")
        return all(job in refused or bed.state(job) == "Running" for job in templates)

    await bed.until(decided, 300)
    assert not {job for job in templates if bed.tj(job).get("runs")}, "a run was not taken by the node rented for it"
    assert await bed.launched() == len(templates) - len(refused)
    await _until_ready(bed, nodes)
    takers = await _takers(bed, nodes, {job: templates[job] for job in sorted(refused)})
    assert not {job: on for job, on in takers.items() if on}, "a pool was left out that would have taken the job"
    assert 0 < len(refused) < len(templates)
