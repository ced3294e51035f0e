"""How the GPUs of a pool's nodes are cut into MIG slices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.option import GPU, MIG_PREFIX
from charterer.gpu_types import mig_layouts


def no_such_slice(gpu_type: str, profile: str) -> str:
    """That GPUs of a type have no such profile, and which they have."""
    layouts = mig_layouts(gpu_type)
    if layouts is None:
        return f"spec.partition.profile is {profile}, and a {gpu_type} is not known to be cut into slices"
    return (
        f"spec.partition.profile is {profile}, and a {gpu_type} is cut into slices of {', '.join(layouts.slices)} only"
    )


class MigStrategy(StrEnum):
    """How nodes name their slices. MIXED: by profile, ``nvidia.com/mig-1g.10gb``. SINGLE: as whole GPUs."""

    MIXED = "Mixed"
    SINGLE = "Single"


@dataclass(frozen=True, slots=True)
class Partition:
    """How every GPU of a pool's nodes is cut: into as many slices of one MIG profile as it holds."""

    profile: str
    strategy: MigStrategy = MigStrategy.MIXED

    @property
    def resource(self) -> str:
        """The extended resource of its slices, as NVIDIA's device plugin names it."""
        return GPU if self.strategy is MigStrategy.SINGLE else f"{MIG_PREFIX}{self.profile}"
