"""How the GPUs of a pool's nodes are cut into MIG slices, or shared by several jobs at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.option import GPU, MIG_PREFIX, SHARED_GPU
from charterer.gpu_types import is_shared, mig_layouts


def no_such_slice(gpu_type: str, profile: str) -> str:
    """That GPUs of a type have no such profile, and which they have."""
    layouts = mig_layouts(gpu_type)
    if layouts is None:
        return f"spec.partition.profile is {profile}, and a {gpu_type} is not known to be cut into slices"
    return (
        f"spec.partition.profile is {profile}, and a {gpu_type} is cut into slices of {', '.join(layouts.slices)} only"
    )


class MigStrategy(StrEnum):
    """How nodes name their slices. MIXED: by profile, ``nvidia.com/mig-1g.10gb``. SINGLE: as whole GPUs.

    Of GPUs that are shared: MIXED ``nvidia.com/gpu.shared``.
    """

    MIXED = "Mixed"
    SINGLE = "Single"


class SharingMechanism(StrEnum):
    """How jobs use a GPU at once. TIME_SLICING: they take turns. MPS: they run together, each in its part of memory."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"

    def profile(self, jobs: int) -> str:
        """The profile of a GPU that this number of jobs share, as ``gpu_types`` names it."""
        return f"{'shared' if self is SharingMechanism.TIME_SLICING else 'mps'}-{jobs}"


@dataclass(frozen=True, slots=True)
class Partition:
    """How every GPU of a pool's nodes is cut: into as many slices of one MIG profile as it holds.

    Or ``profile`` is ``shared-2`` or ``mps-2``: two jobs use it at once.
    """

    profile: str
    strategy: MigStrategy = MigStrategy.MIXED

    @property
    def resource(self) -> str:
        """The extended resource of its slices, as NVIDIA's device plugin names it."""
        if self.strategy is MigStrategy.SINGLE:
            return GPU
        return SHARED_GPU if is_shared(self.profile) else f"{MIG_PREFIX}{self.profile}"

    @property
    def shares_faults(self) -> bool:
        """Whether a fatal fault of one job ends all jobs on its GPU, as under MPS."""
        return self.profile.startswith("mps-")

    @property
    def noun(self) -> str:
        """The name of one part of a GPU in messages."""
        return "GPU place" if is_shared(self.profile) else f"{self.profile} slice"

    @property
    def field(self) -> str:
        """The field of a GPUPool that says so."""
        return "spec.sharing" if is_shared(self.profile) else "spec.partition"
