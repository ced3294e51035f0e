"""What the nodes of a pool show to the scheduler: as it is declared, and as it was seen."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field

from charterer.api.metadata import thousandths
from charterer.api.models.base import ATOMIC, ApiModel
from charterer.domain.nodes.demands import NodeTaint, NodeTraits, TaintEffect

_QUANTITY = r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?$"


def _amounts(resources: dict[str, str]) -> dict[str, str]:
    for quantity in resources.values():
        thousandths(quantity)
    return resources


NodeResources = Annotated[
    dict[str, Annotated[str, Field(max_length=32, json_schema_extra={"pattern": _QUANTITY})]],
    Field(max_length=32),
    AfterValidator(_amounts),
]
"""Quantities by the names of resources."""


def quantity(amount: int) -> str:
    """Thousandths as Kubernetes writes a quantity."""
    whole, rest = divmod(amount, 1000)
    return f"{amount}m" if rest else str(whole)


class SeenTaint(ApiModel):
    """A taint."""

    key: str
    """Key."""
    value: str = ""
    """Value."""
    effect: TaintEffect
    """NoSchedule or NoExecute."""


class NodeTraitsStatus(ApiModel):
    """What a node shows to the scheduler."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that all nodes have."""
    taints: Annotated[tuple[SeenTaint, ...], Field(json_schema_extra=ATOMIC)] = ()
    """Taints that some nodes have."""
    resources: dict[str, str] = Field(default_factory=dict)
    """What each node has for pods at least, beside GPUs."""

    @classmethod
    def from_domain(cls, traits: NodeTraits) -> Self:
        """The traits as they are recorded."""
        return cls(
            labels=dict(traits.labels),
            taints=tuple([SeenTaint.copy_of(taint) for taint in traits.taints]),
            resources={name: quantity(amount) for name, amount in traits.room},
        )

    def to_domain(self) -> NodeTraits:
        """The traits as they were recorded."""
        return NodeTraits(
            tuple(sorted(self.labels.items())),
            tuple([NodeTaint(taint.key, taint.value, taint.effect) for taint in self.taints]),
            tuple(sorted([(name, thousandths(amount)) for name, amount in self.resources.items()])),
        )
