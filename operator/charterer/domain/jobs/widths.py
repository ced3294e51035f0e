"""What a job may run on: how many GPUs, or which parts of one."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import ClassId
from charterer.domain.jobs.variant import Variant


@dataclass(frozen=True, slots=True)
class Widths:
    """Numbers of GPUs; all three are equal for a rigid job. ``slices``: MIG profiles that it takes instead of a GPU.

    ``shared_mib``: GPU memory that it needs where it shares a GPU with other jobs; 0: it shares none.
    """

    min: int
    preferred: int
    max: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0

    def variant(self, name: str, class_id: ClassId) -> Variant:
        """The variant of a job that runs on these."""
        return Variant(name, class_id, self.min, self.preferred, self.max, self.slices, self.shared_mib)
