"""Machines of the fake cloud as Nodes of a real control plane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from charterer.providers.fake import FakeCloud
from tests.contract.conftest import GROUP
from tests.contract.pools import Market, pool
from tests.testbed.controlplane import SILENT_LABEL, ControlPlane
from tests.testbed.fakecloud import FakeCloudProcess
from tests.testbed.gate import Gate, kubeconfig_through

ESCAPED = SILENT_LABEL.replace(".", r"\.")


class Cluster:
    """kubectl, off the event loop."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def node(self, name: str) -> dict[str, Any]:
        """The Node, once it exists."""
        await self.wait(name, "create")
        answer: dict[str, Any] = json.loads(await self.kubectl("get", "node", name, "--output=json"))
        return answer

    async def nodes(self) -> set[str]:
        """The names of all Nodes."""
        return set((await self.kubectl("get", "nodes", "--output=name")).replace("node/", "").split())

    async def wait(self, node: str, condition: str) -> None:
        await self.kubectl("wait", f"node/{node}", f"--for={condition}", "--timeout=30s")

    async def kubectl(self, *arguments: str, input: str | None = None) -> str:
        return await asyncio.to_thread(self._plane.kubectl, *arguments, input=input)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@asynccontextmanager
async def rented(
    folder: Path, kubeconfig: Path, machines: int, **fields: object
) -> AsyncIterator[tuple[Market, list[str]]]:
    """A cloud of its own with one group that has that many machines; no Node of it stays behind."""
    group = GROUP | {"name": "a100", "nodeDeletionSeconds": 0, **fields}
    async with FakeCloudProcess.running({"groups": [group]}, folder, kubeconfig) as cloud:
        provider = FakeCloud(cloud.url)
        market = Market(cloud, provider, pool(cloud.url, "a100"))
        try:
            await market.raise_to(machines)
            yield market, await market.truth()
        finally:
            await provider.close()


async def test_a_machine_registers_when_it_runs_takes_pods_and_leaves_with_its_end(
    cluster: Cluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with rented(tmp_path, control_plane.kubeconfig, 1, startupSeconds=[1.5], nodeDeletionSeconds=3) as (
        market,
        [name],
    ):
        assert name not in await cluster.nodes(), "it is still starting"
        node = await cluster.node(name)
        assert node["spec"]["providerID"] == f"fake:///fake-1a/{name}"
        assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in node["spec"]["taints"]
        labels = {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "node.kubernetes.io/instance-type": "fake.a100-4x",
            "topology.kubernetes.io/zone": "fake-1a",
            "kubernetes.io/hostname": name,
        }
        assert node["metadata"]["labels"].items() >= labels.items()
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        await cluster.wait(name, "condition=Ready")
        await cluster.kubectl("create", "-f", "-", input=json.dumps(gpu_pod(name)))
        await cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=30s")
        await cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        await market.terminate((await market.survey()).instances[0].id)
        await cluster.wait(name, f"jsonpath={{.metadata.labels.{ESCAPED}}}=true")
        await cluster.wait(name, "delete")


async def test_nodes_follow_the_machines_when_the_api_server_was_away_and_the_process_was_killed(
    cluster: Cluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    address, port = control_plane.url.removeprefix("https://").split(":")
    with Gate(address, int(port)) as gate:
        kubeconfig = kubeconfig_through(gate, control_plane.kubeconfig, tmp_path / "kubeconfig")
        async with rented(tmp_path, kubeconfig, 2) as (market, [gone, kept]):
            await cluster.wait(gone, "create")
            gate.close()
            await market.cloud.admin("POST", f"/instances/{gone}/kill")
            await market.cloud.kill()
            await market.cloud.restart()
            gate.open()
            await cluster.wait(gone, "delete")
            [new] = set(await market.truth()) - {kept}
            await cluster.wait(new, "condition=Ready")
            for instance in (await market.survey()).instances:
                await market.terminate(instance.id)
            await asyncio.gather(*(cluster.wait(name, "delete") for name in (kept, new)))


async def test_a_kubelet_can_fall_silent_while_its_machine_runs_or_stay_behind_when_it_died(
    cluster: Cluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with rented(tmp_path, control_plane.kubeconfig, 2) as (market, [silent, dead]):
        await asyncio.gather(*(cluster.wait(name, "condition=Ready") for name in (silent, dead)))
        await market.cloud.admin("POST", f"/instances/{silent}/silence")
        await market.cloud.admin("POST", f"/instances/{dead}/kill", {"nodeObject": "silent"})
        await asyncio.gather(*(cluster.wait(name, "condition=Ready=Unknown") for name in (silent, dead)))
        assert silent in await market.truth()
        assert dead not in await market.truth()
        await cluster.kubectl("delete", "node", dead)
        for instance in (await market.survey()).instances:
            await market.terminate(instance.id)
        await cluster.wait(silent, "delete")


async def test_a_node_that_was_deleted_does_not_come_back(
    cluster: Cluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with rented(tmp_path, control_plane.kubeconfig, 2) as (market, [deleted, other]):
        await asyncio.gather(*(cluster.wait(name, "condition=Ready") for name in (deleted, other)))
        await cluster.kubectl("delete", "node", deleted)
        for instance in (await market.survey()).instances:
            await market.terminate(instance.id)
        await cluster.wait(other, "delete")
        assert not {deleted, other} & await cluster.nodes()


def gpu_pod(node: str) -> dict[str, Any]:
    """A pod that takes all GPUs of that node, by way of the scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": node},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "trainer", "image": "trainer:1", "resources": {"limits": {"nvidia.com/gpu": 4}}}],
        },
    }
