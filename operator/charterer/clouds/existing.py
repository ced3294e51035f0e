"""Nodes that are in the cluster anyway."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId
from charterer.domain.node_demands import place_labels
from charterer.domain.order import LaunchWay
from charterer.domain.pool import CapacityType, Cloud, Offering


@dataclass(frozen=True, slots=True)
class ExistingNodes(Cloud):
    """The Nodes that have all labels of ``selector``, for the jobs of ``budget``. Charterer neither launches nor ends
    them.

    If nobody declared the GPUs, ``gpu_type`` is empty and ``gpus`` is 0. The Nodes then say what GPUs they have.
    """

    selector: tuple[tuple[str, str], ...]
    budget: BudgetId
    gpu_type: str = ""
    gpus: int = 0

    @property
    def vendor(self) -> str:
        """A word that stands for whoever has put the Nodes there."""
        return "existing"

    @property
    def account(self) -> str:
        """The operator's own cluster."""
        return ""

    @property
    def identity(self) -> Hashable:
        """The labels. Two pools with the same labels mean the same Nodes."""
        return self.vendor, frozenset(self.selector)

    @property
    def rents(self) -> bool:
        """False, because the Nodes are in the cluster anyway."""
        return False

    @property
    def selected_by(self) -> str:
        """The labels in the form that ``kubectl -l`` accepts."""
        return ",".join([f"{key}={value}" for key, value in self.selector])

    def node_labels(self, offering: Offering, sold: CapacityType) -> Mapping[str, str]:
        """The labels by which the Nodes are selected."""
        return dict(self.selector)

    def place_labels(self, offering: Offering) -> Mapping[str, tuple[str, ...]]:
        """The labels of the zones that the Nodes name, if they name any."""
        return place_labels(offering.zone.split(","), "") if offering.zone else {}

    def ways(self, offering: Offering, sold: CapacityType) -> Sequence[LaunchWay]:
        """None, because nothing is launched."""
        return ()
