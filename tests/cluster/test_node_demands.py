"""What pods ask of their nodes, judged by the real scheduler: random templates against nodes of random pools.

Each draw makes a Node as the cloud, Kubernetes and NVIDIA's feature discovery would, and one pod more than it has
GPUs for, kept to that Node. As many of the pods must be bound as the pool was expected to take.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import pytest

from charterer.api.node_demands import node_demands
from charterer.cluster.client import Client
from charterer.cluster.paths import NAMESPACES, NODES, PODS
from charterer.domain.node_demands import NodeTaint, NodeTraits, misfits, pods_beside_each_other
from charterer.domain.offered_node import offered_node, pods_on_node
from charterer.domain.pool import Offering, Pool
from charterer.tools.fakecloud.nodes import HEARTBEAT
from tests import factory, lanes
from tests.cluster import drawn_templates
from tests.cluster.drawn_templates import DECLARED, EFA, GPUS, PIN, Json, judged, pinned_pod
from tests.testbed.controlplane import ControlPlane

_DRAWS: Final = lanes.examples(300)
_TOGETHER: Final = 50
"""Draws whose pods are looked at at once."""
_NAMESPACE: Final = "node-demands"
_TAINTS: Final = (
    NodeTaint("dedicated", "gpu", "NoSchedule"),
    NodeTaint("dedicated", "", "NoExecute"),
    NodeTaint("nvidia.com/gpu", "present", "NoSchedule"),
)


@dataclass(frozen=True)
class Draw:
    """A pool, a Node of it, a template, the GPUs of each pod, and how many pods the pool is expected to take."""

    name: str
    pool: Pool
    node: Json
    template: Json
    each: int
    expected: int

    @property
    def pods(self) -> int:
        """How many pods are made."""
        return self.pool.gpus_per_node // self.each + 1


def _pool(draw: Random) -> tuple[Pool, int]:
    """A pool, and the memory of its GPUs."""
    gpu_type, memory = draw.choice(GPUS)
    offering = Offering(gpu_type, draw.choice([2, 4]), draw.choice(["g.4", "g.8"]), draw.choice(["z1", "z2"]))
    taints = tuple(draw.sample(_TAINTS, draw.choice([0, 0, 1, 2])))
    labels = draw.sample(DECLARED, draw.randrange(3))
    room = {"cpu": draw.choice([8, 32]), "memory": draw.choice([2, 64]) << 30}
    room |= {EFA: 4} if draw.random() < 0.3 else {}
    told = NodeTraits(tuple(labels), taints, tuple(sorted((name, 1000 * amount) for name, amount in room.items())))
    pool = factory.pool(offering=replace(offering, traits=told))
    if draw.random() < 0.5:
        room = {name: 1000 * amount for name, amount in room.items()}
        told = NodeTraits(taints=taints)
        pool = factory.pool(offering=replace(offering, traits=told), node_labels=dict(labels), node_resources=room)
    return pool, memory


def _node(name: str, pool: Pool, memory: int) -> Json:
    """A Node of the pool, as it would come."""
    offering, traits = pool.offering, None if pool.offering is None else pool.offering.traits
    assert offering is not None
    assert traits is not None
    room = {**dict(traits.room), **pool.node_resources}
    resources = {key: f"{amount}m" for key, amount in room.items()}
    resources |= {"pods": "110", "nvidia.com/gpu": str(offering.gpus_per_node), "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "arm64" if "GH200" in offering.gpu_type else "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": offering.instance_type,
        "topology.kubernetes.io/zone": offering.zone,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": offering.gpu_type,
        "nvidia.com/gpu.count": str(offering.gpus_per_node),
        "nvidia.com/gpu.memory": str(memory),
        **dict(traits.labels),
        **pool.node_labels,
        PIN: name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {HEARTBEAT: "fake"}},
        "spec": {"taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in traits.taints]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _drawn(number: int) -> Draw:
    draw, name = Random(number), f"draw-{number}"
    pool, memory = _pool(draw)
    assert pool.offering is not None
    template = drawn_templates.template(draw, pool.offering.gpu_type, pool.offering.zone)
    each = draw.choice([1, 1, 2])
    offered, demands = offered_node(pool), node_demands(template)
    assert offered is not None
    expected = 0
    if not misfits(demands, offered):
        expected = pods_on_node(pool.gpus_per_node, each, pods_beside_each_other(demands, offered))
    return Draw(name, pool, _node(name, pool, memory), template, each, expected)


async def _until_judged(kube: Client, drawn: list[Draw]) -> dict[str, int]:
    """How many pods of each draw were bound."""
    names = {draw.name for draw in drawn}
    while True:
        pods = [pod for pod in (await kube.list(PODS.all(_NAMESPACE))).items if pod["metadata"]["labels"][PIN] in names]
        if all(judged(pod) for pod in pods):
            bound = [pod["metadata"]["labels"][PIN] for pod in pods if pod["spec"].get("nodeName")]
            return {name: bound.count(name) for name in names}
        await asyncio.sleep(0.2)


async def _until_ready(kube: Client, drawn: list[Draw]) -> None:
    """The Nodes have no taint but their own."""
    own = {draw.name: len(draw.node["spec"]["taints"]) for draw in drawn}
    while True:
        nodes = {node["metadata"]["name"]: node for node in (await kube.list(NODES.all())).items}
        if all(len(nodes[name]["spec"].get("taints") or ()) == taints for name, taints in own.items()):
            return
        await asyncio.sleep(0.2)


@pytest.fixture
def drawn() -> list[Draw]:
    """All draws."""
    return [_drawn(number) for number in range(_DRAWS)]


async def test_the_scheduler_takes_what_the_planner_expects_on_the_nodes_that_it_expects(
    api: ControlPlane, drawn: list[Draw]
) -> None:
    async with await Client.connect(api.kubeconfig) as kube:
        await kube.post(NAMESPACES.all(), {"metadata": {"name": _NAMESPACE}})
        wrong = []
        for first in range(0, _DRAWS, _TOGETHER):
            some = drawn[first : first + _TOGETHER]
            await asyncio.gather(*[kube.post(NODES.all(), draw.node) for draw in some])
            await _until_ready(kube, some)
            pods = [
                pinned_pod(f"{draw.name}-{number}", draw.name, draw.template, draw.each)
                for draw in some
                for number in range(draw.pods)
            ]
            await asyncio.gather(*[kube.post(PODS.all(_NAMESPACE), pod) for pod in pods])
            bound = await _until_judged(kube, some)
            wrong += [
                (draw.name, draw.template, draw.node, draw.each, draw.expected, bound[draw.name])
                for draw in some
                if bound[draw.name] != draw.expected
            ]
            await asyncio.gather(*[kube.delete(NODES.one(draw.name)) for draw in some])
        await kube.delete(NAMESPACES.one(_NAMESPACE))
    assert not wrong, f"{len(wrong)} of {_DRAWS}: {wrong[:3]}"
    assert 0.2 < sum(draw.expected > 0 for draw in drawn) / _DRAWS < 0.8
