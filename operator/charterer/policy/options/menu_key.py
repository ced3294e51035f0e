"""The key of a job's menu: jobs with equal keys have the same options."""

from __future__ import annotations

from typing import NamedTuple

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import SpotPolicy, Widths

NOWHERE: frozenset[tuple[PoolId, int]] = frozenset()


class MenuKey(NamedTuple):
    """All that decides a job's menu. ``class_id``: None where no curve is known; ``fewest_pods``: from and to
    how many pods it is resized in place, 0: never; ``failed``: pools and numbers of GPUs with which runs of it failed.
    ``slices``: MIG profiles of the slices that it takes instead of a GPU; ``shared_mib``: GPU memory that it needs
    where it shares a GPU, 0: it shares none.
    """

    class_id: ClassId | None
    least: int
    preferred: int
    most: int
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER
    fewest_pods: int = 0
    failed: frozenset[tuple[PoolId, int]] = NOWHERE
    slices: tuple[str, ...] = ()
    shared_mib: int = 0

    @property
    def widths(self) -> Widths:
        """Numbers of GPUs."""
        return Widths(self.least, self.preferred, self.most, self.slices, self.shared_mib)
