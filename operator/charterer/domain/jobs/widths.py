"""What a job may run on: how many GPUs, or which parts of one."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import ClassId
from charterer.domain.jobs.variant import Variant

LEAST_KEPT = 0.5
"""Part of its speed that a job keeps at least beside a chosen partner, where its owner does not say."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Numbers of GPUs; all three are equal for a rigid job. ``slices``: MIG profiles that it takes instead of a GPU.

    ``shared_mib``: GPU memory that it needs where it shares a GPU with other jobs; 0: it shares none.
    ``least_kept``: the part of its speed that it must keep there, as far as its partner can be chosen. ``each``: the
    GPUs of every one of its pods, which cannot change; 0: a pod has all GPUs that the job has of a node.
    """

    min: int
    preferred: int
    max: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
    least_kept: float = LEAST_KEPT
    each: int = 0

    def variant(self, name: str, class_id: ClassId) -> Variant:
        """The variant of a job that runs on these."""
        return Variant(name, class_id, self.min, self.preferred, self.max, self.slices, self.shared_mib)
