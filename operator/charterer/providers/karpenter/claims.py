"""NodeClaims: the one that is made for an order, and what one says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from charterer.api.metadata import ObjectMeta
from charterer.api.names import FINALIZER_BILL, GPU_RESOURCES, LABEL_ORDER, LABEL_POOL, LABEL_RENTAL
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.ids import InstanceId, NodeName, OrderToken, PoolId
from charterer.domain.order import Order
from charterer.domain.pool import CapacityType, Instance, InstanceState, Pool
from charterer.domain.time import Instant, after, parse_instant
from charterer.providers.karpenter.objects import Json

CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_KARPENTER_KEEPS: Final = "karpenter.sh/termination"
"""Karpenter's finalizer: it is set before the first launch, and removed when the machine has ended."""
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_NO_VERDICT: Final = frozenset({"", "AwaitingReconciliation"})
"""Reasons of the condition Launched while nothing has been tried."""
_DRAIN_SECONDS: Final = 600
"""How long Karpenter waits for pods that do not leave. Charterer has drained the node before it deletes a claim; this
is for claims that somebody else deletes, or that expire."""
_NOT_OURS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "charterer.dev")
"""Domains of labels that Kubernetes, Karpenter or Charterer set by their own rules: a claim that says of itself that a
NodePool made it, for example, would be that NodePool's."""
_NAME_ROOM: Final = 50
_LABEL_ROOM: Final = 63

CAPACITY: Final[Mapping[CapacityType, str]] = {CapacityType.ON_DEMAND: "on-demand", CapacityType.SPOT: "spot"}


def claim_name(order: Order) -> str:
    """The name of the order's claim. Names of rentals are used again, so that it has a part of the token."""
    rental = re.sub(r"[^a-z0-9-]+", "-", order.rental.lower())[:_NAME_ROOM].strip("-")
    return f"{rental}-{order.token[:10]}"


def claim_for(pool: Pool, cloud: NodeClaims, gpus: int, order: Order) -> dict[str, Any]:
    """The NodeClaim that asks for the order's node: one type, zone and capacity type, so that it has one price."""
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
    if pool.resource in GPU_RESOURCES:  # Karpenter waits for a resource that it was asked for
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

    UNSEEN: Karpenter has not looked at it. LAUNCHING: a machine may come of it at any time. FAILING: the last launch
    failed, and Karpenter tries again for at most five minutes. RUNNING: it has a machine. ENDING: the machine is being
    ended. ENDED: the machine has ended. UNSERVED: it is over, and had no machine.
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

    ``failure``: reason and message of the condition Launched where a launch has failed. ``terminated``: when Karpenter
    told the cloud to end the machine. ``gpus``: those that Karpenter says the machine has.
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
        """Read one; ValueError or KeyError where the object is none."""
        meta = ObjectMeta.of("NodeClaim", raw)
        status = raw.get("status") or {}
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        launched = conditions.get("Launched") or {}
        ending = conditions.get("InstanceTerminating") or {}
        failed = launched.get("status") != "True" and launched.get("reason", "") not in _NO_VERDICT
        return cls(
            meta=meta,
            provider_id=str(status.get("providerID") or ""),
            node=NodeName(status["nodeName"]) if status.get("nodeName") else None,
            registered=(conditions.get("Registered") or {}).get("status") == "True",
            failure=(str(launched["reason"]), str(launched.get("message", ""))) if failed else None,
            terminated=parse_instant(ending["lastTransitionTime"]) if ending.get("status") == "True" else None,
            expires=_expires(meta.created, str((raw.get("spec") or {}).get("expireAfter") or "")),
            gpus=sum(_whole((status.get("capacity") or {}).get(name)) for name in GPU_RESOURCES),
        )

    @property
    def taken(self) -> Instant | None:
        """When the machine of a deleted claim is taken from whatever still runs on it."""
        return None if self.meta.deleted is None else after(self.meta.deleted, _DRAIN_SECONDS)

    @property
    def pool(self) -> PoolId:
        """The pool that it is for."""
        return PoolId(self.meta.labels.get(LABEL_POOL, ""))

    @property
    def order(self) -> OrderToken | None:
        """The order that it is for; None where somebody else made it."""
        token = self.meta.labels.get(LABEL_ORDER)
        return OrderToken(token) if token else None

    @property
    def path(self) -> str:
        """Its path in the API."""
        return f"{CLAIMS}/{self.meta.name}"

    @property
    def finalizers_of_others(self) -> tuple[str, ...]:
        """Its finalizers without ours."""
        return tuple([name for name in self.meta.finalizers if name != FINALIZER_BILL])

    @property
    def stage(self) -> ClaimStage:
        """How far it is."""
        karpenter_acts = _KARPENTER_KEEPS in self.meta.finalizers
        if self.meta.deleting and not karpenter_acts:
            return ClaimStage.ENDED if self.provider_id else ClaimStage.UNSERVED
        if self.provider_id:
            return ClaimStage.ENDING if self.meta.deleting else ClaimStage.RUNNING
        if not karpenter_acts:
            return ClaimStage.UNSEEN
        return ClaimStage.LAUNCHING if self.failure is None else ClaimStage.FAILING

    def instance(self, cloud: NodeClaims, asked: Instant) -> Instance:
        """Its machine, as a survey at ``asked`` shows it. It has one: the stage is RUNNING, ENDING or ENDED."""
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
        """When billing ended: when the cloud was told to end the machine, at the latest now."""
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
    """When a claim with that expireAfter (``Never`` or a duration such as 720h0m0s) ends itself."""
    parts = _SPAN.findall(span)
    return after(created, sum(float(number) * _UNITS[unit] for number, unit in parts)) if parts else None


def _whole(quantity: object) -> int:
    return int(quantity) if isinstance(quantity, str) and quantity.isdigit() else 0
