"""What two jobs that share a GPU keep of the speeds that they have alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from charterer.domain.nodes.partition import SharingMechanism


class PairMember(NamedTuple):
    """A job as a partner on a GPU: the name of its class, and the passes in which it does a step.

    A job that accumulates the gradients of ``passes`` sub-batches takes less memory, and is slower.
    """

    class_name: str
    passes: int = 1


PairKey = tuple[str, SharingMechanism, PairMember, PairMember]
"""GPU type, mechanism, a job, and its partner."""


def _not_run(_: PairKey) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class PairTable:
    """The part of its speed alone (in one pass) that a job keeps beside one other job on each of its GPUs.

    ``pairs``: by the key of the job that keeps it, so a pair has two entries; 0: the two do not fit on a GPU.
    ``absent``: the same for pairs that are not in ``pairs``; by default they do not run together. ``alone``: by GPU
    type and member, what a job keeps alone, in more passes than one. ``memory``: GiB that a member takes at most on
    each of its GPUs; ``gpu_memory``: GiB of a GPU, by its type. Two that are known to take more do not fit, whatever
    ``pairs`` says.
    """

    pairs: Mapping[PairKey, float]
    absent: Callable[[PairKey], float] = _not_run
    alone: Mapping[tuple[str, PairMember], float] = field(default_factory=dict)
    memory: Mapping[PairMember, float] = field(default_factory=dict)
    gpu_memory: Mapping[str, float] = field(default_factory=dict)

    def kept_alone(self, gpu_type: str, own: PairMember) -> float:
        """What a job keeps that has its GPUs to itself. KeyError for passes that the table does not know."""
        return 1.0 if own.passes == 1 else self.alone[gpu_type, own]

    def kept(self, gpu_type: str, mechanism: SharingMechanism, own: PairMember, other: PairMember) -> float:
        """What ``own`` keeps beside ``other``; 0: they do not fit."""
        if not self._fits(gpu_type, own, other):
            return 0.0
        key = gpu_type, mechanism, own, other
        found = self.pairs.get(key)
        return self.absent(key) if found is None else found

    def both_kept(
        self, gpu_type: str, mechanism: SharingMechanism, own: PairMember, other: PairMember
    ) -> tuple[float, float] | None:
        """What ``own`` and ``other`` keep beside each other; None where they do not fit."""
        kept = self.kept(gpu_type, mechanism, own, other), self.kept(gpu_type, mechanism, other, own)
        return kept if min(kept) > 0.0 else None

    def passes(self, gpu_type: str, class_name: str) -> tuple[int, ...]:
        """The numbers of passes in which jobs of the class can do a step, ascending from 1."""
        more = {own.passes for of_type, own in self.alone if of_type == gpu_type and own.class_name == class_name}
        return (1, *sorted(more - {1}))

    def _fits(self, gpu_type: str, own: PairMember, other: PairMember) -> bool:
        there, taken = self.gpu_memory.get(gpu_type), (self.memory.get(own), self.memory.get(other))
        return there is None or taken[0] is None or taken[1] is None or taken[0] + taken[1] <= there
