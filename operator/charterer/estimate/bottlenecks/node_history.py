"""How long nodes took to compute one and the same step, by class: which of them is slower than the others.

A run of one pod has no peers. It is compared with what runs of its class took on other nodes of the same GPU type with
the same batch on each GPU. The nodes' jobs are different ones, so a slow job cannot be told from a slow node by this:
the finding is for a person, and no node is given back for it.
"""

from __future__ import annotations

from collections import OrderedDict
from statistics import median
from typing import Final, NamedTuple

from charterer.domain.ids import ClassId, RentalId

SLOW: Final = 1.25
"""Times as long as on the other nodes a step takes on a slow one, and a tenth longer than on any of them. It is more
than within a run, since jobs of a class differ in their data."""
_BEYOND: Final = 1.1
LEAST_NODES: Final = 5
"""Other nodes that must have been seen."""
_MOST_NODES: Final = 32
_MOST_STEPS: Final = 2_000


class Step(NamedTuple):
    """What takes equally long on equal nodes. ``batch``: samples on each GPU, 0 where none was reported."""

    class_id: ClassId
    gpu_type: str
    gpus: int
    batch: int


class NodeHistory:
    """Median seconds of computing by step and node; of too many the ones not heard of for longest are dropped."""

    def __init__(self) -> None:
        self._steps: OrderedDict[Step, OrderedDict[RentalId, float]] = OrderedDict()

    def learn(self, step: Step, rental: RentalId, seconds: float) -> None:
        """A run of one pod computes for so long on this node."""
        nodes = self._steps.setdefault(step, OrderedDict())
        nodes[rental] = seconds
        nodes.move_to_end(rental)
        self._steps.move_to_end(step)
        while len(nodes) > _MOST_NODES:
            nodes.popitem(last=False)
        while len(self._steps) > _MOST_STEPS:
            self._steps.popitem(last=False)

    def slowdown(self, step: Step, rental: RentalId) -> float | None:
        """How many times as long as on other nodes the step takes there; None where it is not slow, or unknown."""
        nodes = self._steps.get(step, OrderedDict())
        own, others = nodes.get(rental), [seconds for name, seconds in nodes.items() if name != rental]
        if own is None or len(others) < LEAST_NODES:
            return None
        ratio = own / median(others)
        return ratio if ratio > SLOW and own > _BEYOND * max(others) else None
