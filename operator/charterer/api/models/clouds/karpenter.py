"""Nodes that Karpenter launches in the operator's own cluster."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from charterer.api.models.base import ATOMIC, ApiModel, Rule, ruled
from charterer.clouds.karpenter import NodeClaims
from charterer.domain.nodes.demands import NodeTaint, TaintEffect

_DNS_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_LABEL_VALUE = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

_DnsName = Annotated[str, Field(pattern=_DNS_NAME, max_length=253)]
_LabelValue = Annotated[str, Field(pattern=_LABEL_VALUE, max_length=63)]


class NodeClassRef(ApiModel):
    """A node class of Karpenter."""

    group: _DnsName
    """API group, such as karpenter.k8s.aws."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]
    """Kind, such as EC2NodeClass."""
    name: _DnsName
    """Name of the node class."""


class ClaimedTaint(ApiModel):
    """A taint of the nodes."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_./]*$", max_length=316)]
    """Key, such as nvidia.com/gpu."""
    value: Annotated[str, Field(pattern=rf"^$|{_LABEL_VALUE}", max_length=63)] = ""
    """Value."""
    effect: TaintEffect
    """NoSchedule, PreferNoSchedule or NoExecute."""


class KarpenterNodes(ApiModel):
    """Nodes that Karpenter launches, each for a NodeClaim of its own and without a NodePool."""

    model_config = ruled(
        Rule(
            "has(self.gpuType) == has(self.gpusPerNode)",
            "set both gpuType and gpusPerNode, or neither",
        )
    )

    node_class_ref: NodeClassRef
    """The node class: what the nodes boot from, and their network."""
    instance_type: _LabelValue
    """The cloud's name of the machine type."""
    zone: _LabelValue
    """The cloud's name of the zone."""
    gpu_type: _LabelValue | None = None
    """GPU type, as in the node label nvidia.com/gpu.product. Absent: as the nodes of this instance type in the cluster
    say."""
    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of GPUs of one node. Absent: as the nodes of this instance type in the cluster say."""
    taints: Annotated[tuple[ClaimedTaint, ...], Field(max_length=16, json_schema_extra=ATOMIC)] = ()
    """Taints of the nodes. The template of a job has to tolerate them."""
    price_metrics: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=512)] | None = None
    """URL of Karpenter's metrics, which have the price. Absent: `spec.price.hourly` has it."""
    billing_minimum_seconds: Annotated[int, Field(ge=0, le=86_400)] = 60
    """Minimum number of seconds that the cloud bills: 60 on AWS and Google Cloud, 0 on Azure."""
    abandon_after_seconds: Annotated[int, Field(ge=600, le=315_360_000)] | None = None
    """A node is drained and ended this many seconds after it was asked for, also while Charterer is down. Absent:
    only Charterer ends it."""

    def to_domain(self) -> NodeClaims:
        """The nodes."""
        return NodeClaims(
            class_group=self.node_class_ref.group,
            class_kind=self.node_class_ref.kind,
            class_name=self.node_class_ref.name,
            instance_type=self.instance_type,
            zone=self.zone,
            gpu_type=self.gpu_type or "",
            gpus=self.gpus_per_node or 0,
            taints=tuple([NodeTaint(taint.key, taint.value, taint.effect) for taint in self.taints]),
            price_metrics=self.price_metrics or "",
            abandon_seconds=self.abandon_after_seconds,
            billing_minimum_seconds=self.billing_minimum_seconds,
        )

    @classmethod
    def from_domain(cls, claims: NodeClaims) -> Self:
        """The field of a spec that says so."""
        return cls(
            node_class_ref=NodeClassRef(group=claims.class_group, kind=claims.class_kind, name=claims.class_name),
            instance_type=claims.instance_type,
            zone=claims.zone,
            gpu_type=claims.gpu_type or None,
            gpus_per_node=claims.gpus or None,
            taints=tuple([ClaimedTaint(key=t.key, value=t.value, effect=t.effect) for t in claims.taints]),
            price_metrics=claims.price_metrics or None,
            abandon_after_seconds=claims.abandon_seconds,
            billing_minimum_seconds=claims.billing_minimum_seconds,
        )
