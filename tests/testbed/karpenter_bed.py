"""A bed whose nodes come from a real Karpenter. Its bill is made of the claims, as a watch of its own saw them."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from math import floor
from pathlib import Path
from time import time
from typing import Any

from charterer.cluster.client import RawObject
from charterer.cluster.errors import NotFound
from charterer.cluster.paths import NODES, Resource
from charterer.domain.money import Price
from tests.testbed.bed import Bed, parts_of_bed
from tests.testbed.controlplane import ControlPlane
from tests.testbed.karpenter_process import NODE_CLASS, KarpenterProcess

CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", namespaced=False)
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
HOURLY = "32.77"
"""What a p4d.24xlarge costs on demand, by Karpenter's metrics."""


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def condition(claim: RawObject, kind: str) -> Mapping[str, str]:
    """The condition of that type of a claim; empty if it has none."""
    conditions = (claim.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == kind), {})


@dataclass(slots=True)
class KarpenterBed(Bed):
    """Bed and Karpenter."""

    karpenter: KarpenterProcess = field(kw_only=True)

    async def claim_pool(
        self,
        name: str = "a100",
        zone: str = "zone-a",
        max_nodes: int = 4,
        cooldown_seconds: int = 300,
        **claims: object,
    ) -> None:
        """A pool of machines with eight A100s each, whose price Karpenter knows. ``claims``: of ``spec.karpenter``."""
        cloud = {
            "nodeClassRef": NODE_CLASS,
            "instanceType": "p4d.24xlarge",
            "zone": zone,
            "gpuType": GPU_TYPE,
            "gpusPerNode": 8,
            "priceMetrics": self.karpenter.metrics_url,
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            "billingMinimumSeconds": 0,
            **claims,
        }
        spec = {"karpenter": cloud, "maxNodes": max_nodes, "startSeconds": 3, "cooldownSeconds": cooldown_seconds}
        await self.create("GPUPool", name, spec)

    def claims(self) -> list[RawObject]:
        """The NodeClaims there are."""
        return self.mirror.all(CLAIMS)

    def terminated(self) -> bool:
        """Whether all claims that there are, or were, say that their machine is ended."""
        told = [condition(claim, "InstanceTerminating").get("status") for claim in [*self.claims(), *self._gone()]]
        return bool(told) and set(told) == {"True"}

    async def touch(self) -> None:
        """Make Karpenter look at every claim."""
        for claim in self.claims():
            patch = {"metadata": {"annotations": {"touched": "yes"}}}
            with suppress(NotFound):
                await self.kube.merge_patch(CLAIMS.one(claim["metadata"]["name"]), patch)

    async def instances(self) -> list[Mapping[str, Any]]:
        """The machines that run."""
        names = self._names()
        return [
            {"id": machine.instance, "claim": machine.claim}
            for machine in self.karpenter.instances(names)
            if machine.ended is None
        ]

    async def bill(self) -> tuple[Sized, int]:
        """The sum over all claims that had a machine.

        A machine runs within the time of its claim, which tells whole seconds. How soon Karpenter looks at a claim
        depends on how busy the machine is.
        """
        lines = {}
        machines = {machine.claim: machine for machine in self.karpenter.instances(self._names())}
        for claim in self._gone():
            name, metadata = claim["metadata"]["name"], claim["metadata"]
            if not (claim.get("status") or {}).get("providerID"):
                continue
            began = _seconds(metadata["creationTimestamp"])
            ended = _seconds(condition(claim, "InstanceTerminating")["lastTransitionTime"])
            machine = machines.pop(name)
            assert machine.ended is not None
            assert began <= machine.launched, (name, began, machine)
            assert floor(machine.ended) <= ended <= time(), (name, ended, machine)
            lines[name] = Price.parse(HOURLY).cost(round(ended - began)).micros
        assert not machines, f"machines that no claim tells: {machines}"
        return lines, sum(lines.values())

    def _gone(self) -> list[RawObject]:
        return [raw for raw in self.mirror.departed if raw["kind"] == "NodeClaim"]

    def _names(self) -> set[str]:
        return {claim["metadata"]["name"] for claim in [*self.claims(), *self._gone()]}

    def describe(self) -> str:
        """The state of all objects, and the claims."""
        lines = []
        for claim in self.claims():
            status = claim.get("status") or {}
            conditions = {c["type"]: c["reason"] for c in status.get("conditions") or ()}
            deleting = "deletionTimestamp" in claim["metadata"]
            kept = claim["metadata"].get("finalizers")
            lines.append(
                f"NodeClaim {claim['metadata']['name']} {conditions} {status.get('providerID')} {deleting} {kept}"
            )
        gone = sorted(claim["metadata"]["name"] for claim in self._gone())
        return "\n".join([Bed.describe(self), *lines, f"gone: {gone}"])


async def make_karpenter_bed(plane: ControlPlane, directory: Path, karpenter: KarpenterProcess) -> KarpenterBed:
    """A bed with a fake cloud that sells nothing."""
    return KarpenterBed(*await parts_of_bed(plane, directory, (), [CLAIMS]), karpenter=karpenter)


async def clear_claims(bed: KarpenterBed) -> None:
    """Delete what a failed test has left of Karpenter's objects."""
    for resource in (CLAIMS, NODES):
        for raw in (await bed.kube.list(resource.all())).items:
            path = resource.one(raw["metadata"]["name"])
            with suppress(NotFound):
                await bed.kube.delete(path)
                await bed.kube.merge_patch(path, {"metadata": {"finalizers": None}})
