"""NodeClaims: how a claim is made for an order, and how a claim is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from charterer.api.metadata import ObjectMeta
from charterer.api.names import (
    AMD_TYPE_LABEL,
    FINALIZER_BILL,
    GPU_RESOURCES,
    GPU_TYPE_LABEL,
    LABEL_ORDER,
    LABEL_POOL,
    LABEL_RENTAL,
)
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.order import Order
from charterer.domain.pool import CapacityType, Instance, InstanceState, Offering, Pool
from charterer.domain.time import Instant, after, parse_instant
from charterer.gpu_types import SHARED_SUFFIX, slice_profile
from charterer.gpu_types.accelerators import gpus_of
from charterer.providers.objects import Json, Objects

# The node class of a pool: whether it exists and is ready, and what to do if not.


class NodeClasses:
    """Finds node classes of any kind. The NodeClaim names the kind, and the API server knows the path of the kind."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._collections: dict[tuple[str, str], str] = {}

    async def trouble(self, cloud: NodeClaims) -> str:
        """Why no node can be launched from the node class. Empty if the class is ready. Raises ObjectsError."""
        named = f"{cloud.class_kind} {cloud.class_name!r}"
        collection = await self._collection(cloud.class_group, cloud.class_kind)
        if collection is None:
            kind = f"{cloud.class_kind}.{cloud.class_group}"
            return f"the cluster has no kind {kind}: correct spec.karpenter.nodeClassRef, or install Karpenter"
        found = await self._objects.get(f"{collection}/{cloud.class_name}")
        if found is None:
            return f"{named} does not exist: correct spec.karpenter.nodeClassRef.name, or create it"
        conditions = (found.get("status") or {}).get("conditions") or ()
        ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
        if ready is None or ready.get("status") == "True":
            return ""
        return f"{named} is not ready ({ready.get('reason', '')}: {ready.get('message', '')}): correct it"

    async def _collection(self, group: str, kind: str) -> str | None:
        """The path of the kind's objects, or None if the API server has no such kind."""
        known = self._collections.get((group, kind))
        if known is not None:
            return known
        described = await self._objects.get(f"/apis/{group}")
        for version in (described or {}).get("versions") or ():
            path = f"/apis/{version['groupVersion']}"
            for resource in (await self._objects.get(path) or {}).get("resources") or ():
                if resource.get("kind") == kind and "/" not in resource["name"]:
                    self._collections[group, kind] = f"{path}/{resource['name']}"
                    return self._collections[group, kind]
        return None


CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_KARPENTER_KEEPS: Final = "karpenter.sh/termination"
"""Karpenter's finalizer. It is set before the first launch, and removed when the machine has ended."""
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_NO_VERDICT: Final = frozenset({"", "AwaitingReconciliation"})
"""Reasons of the condition Launched while no launch has been tried."""
_DRAIN_SECONDS: Final = 600
"""Seconds for which Karpenter waits for pods that do not leave. Charterer drains the node before it deletes a claim. So
this matters only for claims that somebody else deletes, or that expire.
"""
_NOT_OURS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "charterer.dev")
"""Domains of labels that Kubernetes, Karpenter or Charterer set by their own rules. If a claim had the label of a
NodePool, for example, it would count as that NodePool's claim.
"""
_NAME_ROOM: Final = 50
_LABEL_ROOM: Final = 63

CAPACITY: Final[Mapping[CapacityType, str]] = {CapacityType.ON_DEMAND: "on-demand", CapacityType.SPOT: "spot"}


def claim_name(order: Order) -> str:
    """The name of the order's claim. It contains a part of the order's token, because names of rentals are used
    again.
    """
    rental = re.sub(r"[^a-z0-9-]+", "-", order.rental.lower())[:_NAME_ROOM].strip("-")
    return f"{rental}-{order.token[:10]}"


def claim_for(pool: Pool, cloud: NodeClaims, gpus: int, order: Order) -> dict[str, Any]:
    """The NodeClaim for the order's node. It names one type, zone and capacity type, so that it has one price."""
    wanted = {INSTANCE_TYPE: cloud.instance_type, _ZONE: cloud.zone, _CAPACITY_TYPE: CAPACITY[pool.capacity_type]}
    declared = {key: value for key, value in pool.node_labels.items() if not key.partition("/")[0].endswith(_NOT_OURS)}
    labels = {**declared, LABEL_POOL: pool.id, LABEL_ORDER: order.token}
    if len(order.rental) <= _LABEL_ROOM:
        labels[LABEL_RENTAL] = order.rental
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": cloud.class_group, "kind": cloud.class_kind, "name": cloud.class_name},
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()],
        "expireAfter": "Never" if cloud.abandon_seconds is None else f"{cloud.abandon_seconds}s",
        "terminationGracePeriod": f"{_DRAIN_SECONDS}s",
    }
    if pool.resource == pool.device:  # Karpenter waits for a resource that it was asked for
        spec["resources"] = {"requests": {pool.resource: str(gpus)}}
    if cloud.taints:
        spec["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in cloud.taints]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": claim_name(order),
            "labels": labels,
            "annotations": {_DO_NOT_DISRUPT: "true"},
            "finalizers": [FINALIZER_BILL],
        },
        "spec": spec,
    }


class ClaimStage(Enum):
    """How far a claim is.

    UNSEEN: Karpenter has not yet looked at the claim.
    LAUNCHING: a machine may come at any time.
    FAILING: the last launch failed, and Karpenter tries again for at most five minutes.
    RUNNING: the claim has a machine.
    ENDING: the machine is being ended.
    ENDED: the machine has ended.
    UNSERVED: the claim is over and had no machine.
    """

    UNSEEN = "unseen"
    LAUNCHING = "launching"
    FAILING = "failing"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    UNSERVED = "unserved"


@dataclass(frozen=True, slots=True)
class Claim:
    """A NodeClaim of ours.

    ``failure``: reason and message of the condition Launched if a launch has failed, or None.
    ``terminated``: when Karpenter told the cloud to end the machine.
    ``expires``: when the claim ends itself.
    ``gpus``: number of GPUs of the machine, as Karpenter reports it.
    """

    meta: ObjectMeta
    provider_id: str
    node: NodeName | None
    registered: bool
    failure: tuple[str, str] | None
    terminated: Instant | None
    expires: Instant | None
    gpus: int

    @classmethod
    def of(cls, raw: Json) -> Claim:
        """Read a claim. Raises ValueError or KeyError if the object is no claim."""
        meta = ObjectMeta.of("NodeClaim", raw)
        status = raw.get("status") or {}
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        launched = conditions.get("Launched") or {}
        ending = conditions.get("InstanceTerminating") or {}
        asked = ((raw.get("spec") or {}).get("resources") or {}).get("requests") or {}
        failed = launched.get("status") != "True" and launched.get("reason", "") not in _NO_VERDICT
        return cls(
            meta=meta,
            provider_id=str(status.get("providerID") or ""),
            node=NodeName(status["nodeName"]) if status.get("nodeName") else None,
            registered=(conditions.get("Registered") or {}).get("status") == "True",
            failure=(str(launched["reason"]), str(launched.get("message", ""))) if failed else None,
            terminated=parse_instant(ending["lastTransitionTime"]) if ending.get("status") == "True" else None,
            expires=_expires(meta.created, str((raw.get("spec") or {}).get("expireAfter") or "")),
            gpus=sum(_whole((status.get("capacity") or {}).get(name)) for name in {*GPU_RESOURCES, *asked}),
        )

    @property
    def taken(self) -> Instant | None:
        """When the machine of a deleted claim is ended, even if something still runs on it. None if the claim is not
        deleted.
        """
        return None if self.meta.deleted is None else after(self.meta.deleted, _DRAIN_SECONDS)

    @property
    def pool(self) -> PoolId:
        """The pool that the claim is for."""
        return PoolId(self.meta.labels.get(LABEL_POOL, ""))

    @property
    def order(self) -> OrderToken | None:
        """The order that the claim is for, or None if somebody else made the claim."""
        token = self.meta.labels.get(LABEL_ORDER)
        return OrderToken(token) if token else None

    @property
    def path(self) -> str:
        """The claim's path in the API."""
        return f"{CLAIMS}/{self.meta.name}"

    @property
    def finalizers_of_others(self) -> tuple[str, ...]:
        """The claim's finalizers without ours."""
        return tuple([name for name in self.meta.finalizers if name != FINALIZER_BILL])

    @property
    def stage(self) -> ClaimStage:
        """The claim's stage."""
        karpenter_acts = _KARPENTER_KEEPS in self.meta.finalizers
        if self.meta.deleting and not karpenter_acts:
            return ClaimStage.ENDED if self.provider_id else ClaimStage.UNSERVED
        if self.provider_id:
            return ClaimStage.ENDING if self.meta.deleting else ClaimStage.RUNNING
        if not karpenter_acts:
            return ClaimStage.UNSEEN
        return ClaimStage.LAUNCHING if self.failure is None else ClaimStage.FAILING

    def instance(self, cloud: NodeClaims, asked: Instant) -> Instance:
        """The claim's machine, as a survey at ``asked`` shows it.

        The claim has a machine in the stages RUNNING, ENDING and ENDED.
        """
        stage = self.stage
        ended = self._ended(asked) if stage is ClaimStage.ENDED else None
        return Instance(
            id=InstanceId(self.meta.name),
            state=_STATES[stage] if self.registered or stage is not ClaimStage.RUNNING else InstanceState.PENDING,
            provider_id=self.provider_id,
            node=self.node,
            launched=self.meta.created,
            ended=ended,
            segments=(),
            billing_minimum_seconds=cloud.billing_minimum_seconds,
            order=self.order,
            ends=self.expires,
        )

    def _ended(self, asked: Instant) -> Instant:
        """When billing ended. That is when the cloud was told to end the machine, but not later than now."""
        deleted = self.meta.created if self.meta.deleted is None else self.meta.deleted
        told = asked if self.terminated is None else self.terminated
        return max(min(told, asked), deleted, self.meta.created)


_STATES: Final = {
    ClaimStage.RUNNING: InstanceState.RUNNING,
    ClaimStage.ENDING: InstanceState.STOPPING,
    ClaimStage.ENDED: InstanceState.ENDED,
}

_SPAN: Final = re.compile(r"([0-9]+)([hms])")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _expires(created: Instant, span: str) -> Instant | None:
    """When a claim with that expireAfter ends itself, or None for ``Never``. ``span``: a duration such as 720h0m0s."""
    parts = _SPAN.findall(span)
    return after(created, sum(float(number) * _UNITS[unit] for number, unit in parts)) if parts else None


def _whole(quantity: object) -> int:
    return int(quantity) if isinstance(quantity, str) and quantity.isdigit() else 0


# The hardware of a pool's node, as its Nodes show it. Until there is a Node, as the pool's spec declares it.


_NODES: Final = "/api/v1/nodes"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
"""The label for the number of places of a GPU. It is 1 if GPUs are not shared, and 0 if the number could not be
read.
"""
_COUNT: Final = "nvidia.com/gpu.count"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Type and number of the GPUs of a node. ``seen``: whether a Node shows them."""

    gpu_type: str
    gpus: int
    seen: bool

    def offering(self, cloud: NodeClaims) -> Offering:
        """One node of the pool."""
        return Offering(self.gpu_type, self.gpus, cloud.instance_type, cloud.zone)


async def find_hardware(objects: Objects, cloud: NodeClaims) -> Hardware | None:
    """The hardware of an instance type, or None if nothing says it.

    The first source that knows the hardware is used: Nodes of the type, in whatever pool; the pool's declaration; the
    table of accelerators, which has EC2's and Google Cloud's types.
    """
    listed = await objects.list(_NODES, labels=f"{INSTANCE_TYPE}={cloud.instance_type}")
    for node in listed.items:
        seen = _of_node(node)
        if seen is not None:
            return seen
    label, gpus = gpus_of(cloud.instance_type)
    declared = Hardware(cloud.gpu_type or label, cloud.gpus or gpus, seen=False)
    return declared if declared.gpu_type and declared.gpus else None


def _of_node(node: Json) -> Hardware | None:
    """The GPUs of a Node with the labels of NVIDIA's GPU feature discovery or AMD's node labeller. None if the GPUs are
    cut into slices.

    If jobs share GPUs, the product may end with -SHARED, and the Node counts places. The number of GPUs is then in the
    Node's label (https://github.com/NVIDIA/k8s-device-plugin, internal/lm/resource.go).
    """
    labels = node["metadata"].get("labels") or {}
    named = str(labels.get(GPU_TYPE_LABEL) or labels.get(AMD_TYPE_LABEL) or "")
    gpu_type = named.removesuffix(SHARED_SUFFIX)
    shared = str(labels.get(_REPLICAS) or "1") not in ("0", "1") or named != gpu_type
    capacity = (node.get("status") or {}).get("capacity") or {}
    gpus = str(labels.get(_COUNT, "") if shared else next((capacity[r] for r in GPU_RESOURCES if r in capacity), ""))
    whole = gpu_type and not slice_profile(gpu_type)
    return Hardware(gpu_type, int(gpus), seen=True) if whole and gpus.isdigit() and int(gpus) > 0 else None
