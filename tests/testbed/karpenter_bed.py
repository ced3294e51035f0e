"""A bed with nodes from a real Karpenter. The bill is computed from NodeClaims that the bed's own watch has seen."""

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
from tests.testbed.karpenter_process import GPU, NODE_CLASS, KarpenterProcess

CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", namespaced=False)
GPU_TYPE = "NVIDIA-A100-SXM4-40GB"
HOURLY = {"p4d.24xlarge": "32.77", "mi300x-8x": "48.00", "npu-8x": "21.50"}
"""Hourly prices on demand in Karpenter's metrics, by instance type."""


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def condition(claim: RawObject, kind: str) -> Mapping[str, str]:
    """Return the claim's condition of this type, empty if it has none."""
    conditions = (claim.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == kind), {})


@dataclass(slots=True)
class KarpenterBed(Bed):
    """A bed and its Karpenter."""

    karpenter: KarpenterProcess = field(kw_only=True)

    async def claim_pool(
        self,
        name: str = "a100",
        zone: str = "zone-a",
        max_nodes: int = 4,
        cooldown_seconds: int = 300,
        resource: str = GPU,
        **claims: object,
    ) -> None:
        """Create a pool of machines with eight A100s each at Karpenter's price.

        ``resource``: the extended resource of their GPUs. ``claims`` are fields of ``spec.karpenter``.
        """
        cloud = {
            "nodeClassRef": NODE_CLASS,
            "instanceType": "p4d.24xlarge",
            "zone": zone,
            "gpuType": GPU_TYPE,
            "gpusPerNode": 8,
            "priceMetrics": self.karpenter.metrics_url,
            "taints": [{"key": resource, "value": "present", "effect": "NoSchedule"}],
            "billingMinimumSeconds": 0,
            **claims,
        }
        spec = {"karpenter": cloud, "maxNodes": max_nodes, "startSeconds": 3, "cooldownSeconds": cooldown_seconds}
        spec["resource"] = resource
        await self.create("GPUPool", name, spec)

    def claims(self) -> list[RawObject]:
        """Return the existing NodeClaims."""
        return self.mirror.all(CLAIMS)

    def terminated(self) -> bool:
        """Return whether all existing and deleted claims report that their machine has ended."""
        told = [condition(claim, "InstanceTerminating").get("status") for claim in [*self.claims(), *self._gone()]]
        return bool(told) and set(told) == {"True"}

    async def touch(self) -> None:
        """Make Karpenter reconcile every claim."""
        for claim in self.claims():
            patch = {"metadata": {"annotations": {"touched": "yes"}}}
            with suppress(NotFound):
                await self.kube.merge_patch(CLAIMS.one(claim["metadata"]["name"]), patch)

    async def instances(self) -> list[Mapping[str, Any]]:
        """Return the running machines."""
        names = self._names()
        return [
            {"id": machine.instance, "claim": machine.claim}
            for machine in self.karpenter.instances(names)
            if machine.ended is None
        ]

    async def bill(self) -> tuple[Sized, int]:
        """Return the cost of each claim that had a machine, and the sum.

        A machine runs within the lifetime of its claim, whose timestamps have whole seconds. Karpenter's delay in
        noticing a claim depends on the load of the machine.
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
            hourly = Price.parse(HOURLY[metadata["labels"]["node.kubernetes.io/instance-type"]])
            lines[name] = hourly.cost(round(ended - began)).micros
        assert not machines, f"machines that no claim tells: {machines}"
        return lines, sum(lines.values())

    def _gone(self) -> list[RawObject]:
        return [raw for raw in self.mirror.departed if raw["kind"] == "NodeClaim"]

    def _names(self) -> set[str]:
        return {claim["metadata"]["name"] for claim in [*self.claims(), *self._gone()]}

    def describe(self) -> str:
        """Describe the state of all objects and claims."""
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
    """Make a bed whose fake cloud has no groups."""
    return KarpenterBed(*await parts_of_bed(plane, directory, (), [CLAIMS]), karpenter=karpenter)


async def clear_claims(bed: KarpenterBed) -> None:
    """Delete Karpenter objects that a failed test has left."""
    for resource in (CLAIMS, NODES):
        for raw in (await bed.kube.list(resource.all())).items:
            path = resource.one(raw["metadata"]["name"])
            with suppress(NotFound):
                await bed.kube.delete(path)
                await bed.kube.merge_patch(path, {"metadata": {"finalizers": None}})
