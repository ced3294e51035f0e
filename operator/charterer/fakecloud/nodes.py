"""Kubernetes Nodes of the machines: registered when one becomes Running, silenced and deleted after it has gone.

Level-triggered: the next step is a pure function of the machine, its group and the time; what was done is durable, and
a call that failed is tried again. Nothing is lost while the API server is down or when this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import aiohttp

from charterer.fakecloud.bill import SECOND
from charterer.fakecloud.cloud import FakeAccount
from charterer.fakecloud.config import GroupSpec
from charterer.fakecloud.devices import extended_resources, resource_slices
from charterer.fakecloud.devices import labels as gpu_labels
from charterer.fakecloud.kube import Kube, KubeError
from charterer.fakecloud.records import Machine, NodePhase

logger = logging.getLogger(__name__)

HEARTBEAT = "kwok.x-k8s.io/node"
"""Annotation: kwok simulates the kubelet of Nodes that carry it with the value ``fake``."""
SILENT = "fakecloud.charterer.dev/silent"
"""Label: kwok with ``--manage-nodes-with-label-selector=!fakecloud.charterer.dev/silent`` drops Nodes that carry it.

Removing the annotation is not enough: kwok 0.8 keeps renewing the Node's Lease.
"""

_CONCURRENT_CALLS = 8
_RETRY_SECONDS = (0.5, 5.0)


class NodeStep(StrEnum):
    """One call about a Node."""

    REGISTER = "register"
    SILENCE = "silence"
    DELETE = "delete"


def next_step(machine: Machine, spec: GroupSpec, now: int) -> tuple[NodeStep, int] | None:
    """The next step for a machine's Node and the instant when it is due; None if there is nothing left to do.

    A machine that ended before its registration was recorded may have a Node nevertheless, which is deleted too.
    """
    deletion = None if machine.ends is None else machine.ends + round(spec.node_deletion_seconds * SECOND)
    ended = machine.ended(now)
    match machine.node:
        case NodePhase.ABSENT if ended:
            return NodeStep.DELETE, now
        case NodePhase.ABSENT:
            return NodeStep.REGISTER, machine.runs
        case NodePhase.REGISTERED if machine.silenced or ended:
            return NodeStep.SILENCE, now
        case NodePhase.REGISTERED if machine.ends is not None:
            return NodeStep.SILENCE, machine.ends
        case NodePhase.SILENT if deletion is not None and not machine.stays:
            return NodeStep.DELETE, deletion
        case _:
            return None


def manifest(machine: Machine, spec: GroupSpec) -> dict[str, Any]:
    """The Node object that a GPU machine registers."""
    resources = {**spec.room, **extended_resources(machine, spec)}
    labels = {
        "kubernetes.io/hostname": machine.id,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": spec.instance_type,
        **gpu_labels(machine, spec),
        "topology.kubernetes.io/zone": machine.zone,
        **spec.labels,
    }
    own_taint = {"key": spec.resource, "value": "present", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.id, "annotations": {HEARTBEAT: "fake"}, "labels": labels},
        "spec": {
            "providerID": machine.provider_id,
            "taints": [own_taint, *(taint.model_dump() for taint in spec.taints)],
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


class NodeKeeper:
    """Carries out the steps, a few at a time."""

    def __init__(self, cloud: FakeAccount, kube: Kube) -> None:
        self._cloud = cloud
        self._kube = kube

    async def run(self, changed: asyncio.Event) -> None:
        """Keep the Nodes right until cancelled; ``changed`` says that the cloud may have changed."""
        shortest, longest = _RETRY_SECONDS
        pause = shortest
        while True:
            changed.clear()
            if not await self._carry_out_due():
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
                continue
            pause = shortest
            next_at = min((at for _, _, at in self._steps(self._cloud.now())), default=None)
            with contextlib.suppress(TimeoutError):
                wait = None if next_at is None else max(0.0, (next_at - self._cloud.now()) / SECOND)
                async with asyncio.timeout(wait):
                    await changed.wait()

    def _steps(self, now: int) -> Iterator[tuple[Machine, NodeStep, int]]:
        for machine in self._cloud.machines():
            step = next_step(machine, self._cloud.group(machine.group).spec, now)
            if step is not None:
                yield machine, *step

    async def _carry_out_due(self) -> bool:
        """Carry out every step that is due; False if one failed."""
        now = self._cloud.now()
        slots = asyncio.Semaphore(_CONCURRENT_CALLS)
        due = [(machine, step) for machine, step, at in self._steps(now) if at <= now]
        return all(await asyncio.gather(*(self._carry_out(slots, machine, step) for machine, step in due)))

    async def _carry_out(self, slots: asyncio.Semaphore, machine: Machine, step: NodeStep) -> bool:
        async with slots:
            try:
                phase = await self._call(machine, step)
            except (KubeError, aiohttp.ClientError, OSError) as error:
                logger.warning("Node %s: %s failed: %s; trying again", machine.id, step, error)
                return False
        logger.info("Node %s: %s", machine.id, phase.value)
        self._cloud.node_done(machine.id, phase)
        return True

    async def _call(self, machine: Machine, step: NodeStep) -> NodePhase:
        path = f"/api/v1/nodes/{machine.id}"
        try:
            match step:
                case NodeStep.REGISTER:
                    return await self._register(machine)
                case NodeStep.SILENCE:
                    patch = {"metadata": {"labels": {SILENT: "true"}}}
                    await self._kube.call("PATCH", path, patch, "application/merge-patch+json")
                    return NodePhase.SILENT
                case NodeStep.DELETE:
                    await self._kube.call("DELETE", path)
                    return NodePhase.GONE
        except KubeError as error:
            if error.status == 404:
                return NodePhase.GONE
            raise

    async def _register(self, machine: Machine) -> NodePhase:
        spec = self._cloud.group(machine.group).spec
        await self._create("/api/v1/nodes", manifest(machine, spec))
        if spec.cut is not None and spec.cut.published == "dra":
            uid = (await self._kube.call("GET", f"/api/v1/nodes/{machine.id}"))["metadata"]["uid"]
            for published in resource_slices(machine, spec, uid):
                await self._create("/apis/resource.k8s.io/v1/resourceslices", published)
        return NodePhase.REGISTERED

    async def _create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object that may be there already."""
        try:
            await self._kube.call("POST", path, body)
        except KubeError as error:
            if error.status != 409:
                raise
