"""The key of a job's menu: jobs with equal keys have the same options."""

from __future__ import annotations

from typing import NamedTuple

from charterer.domain.ids import ClassId, PoolId
from charterer.domain.job import SpotPolicy
from charterer.domain.jobs.variant import Variant
from charterer.domain.jobs.widths import Widths
from charterer.domain.nodes.demands import NO_LIMITS, PodLimits

NOWHERE: frozenset[tuple[PoolId, int, str]] = frozenset()


class MenuKey(NamedTuple):
    """All that decides a job's menu. ``class_id``: None where no curve is known; ``fewest_pods``: from and to
    how many pods it is resized in place, 0: never; ``failed``: pools, numbers of GPUs and variants with which runs
    of it failed. ``slices``: MIG profiles of the slices that it takes instead of a GPU; ``shared_mib``: GPU memory that
    it needs where it shares a GPU, 0: it shares none. ``variants``: beside the template; ``tries``: whether it may try
    those without a curve. ``each``: the GPUs of every pod, 0 where they follow from the node.
    ``limits``: pools whose nodes take fewer of its pods than they have GPUs for, or none.
    """

    class_id: ClassId | None
    least: int
    preferred: int
    most: int
    gpu_types: tuple[str, ...] = ()
    spot: SpotPolicy = SpotPolicy.NEVER
    fewest_pods: int = 0
    failed: frozenset[tuple[PoolId, int, str]] = NOWHERE
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
    variants: tuple[Variant, ...] = ()
    tries: bool = False
    each: int = 0
    limits: PodLimits = NO_LIMITS

    @property
    def widths(self) -> Widths:
        """Numbers of GPUs."""
        return Widths(self.least, self.preferred, self.most, self.slices, self.shared_mib, each=self.each)

    def of(self, variant: Variant) -> MenuKey:
        """The key with the class of a variant and what it runs on."""
        return self._replace(
            class_id=variant.class_id,
            least=variant.least,
            preferred=variant.preferred,
            most=variant.most,
            slices=variant.slices,
            shared_mib=variant.shared_mib,
        )
