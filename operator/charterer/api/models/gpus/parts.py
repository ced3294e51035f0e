"""Slices of GPUs and shared GPUs, in pools and in jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from charterer.api.models.base import IMMUTABLE, ApiModel, Rule, rules
from charterer.api.names import GPU_RESOURCE, GPU_RESOURCES, MIG_PROFILE, SHARED_GPU
from charterer.domain.jobs.widths import LEAST_KEPT
from charterer.domain.nodes.partition import MigStrategy, Partition, SharingMechanism

RESOURCE_ONCE: Final = "the resource of a pool's GPUs cannot change: create another GPUPool for the other GPUs"
GpuResource = Annotated[str, Field(max_length=253, json_schema_extra={"enum": list(GPU_RESOURCES)})]
"""The extended resource of whole GPUs, as the device plugin of their maker names it."""
CUT_ONCE: Final = "how GPUs are cut cannot change: create another GPUPool for the other slices"


class PartitionSpec(ApiModel):
    """How GPUs are cut into MIG slices."""

    profile: Annotated[
        str, Field(pattern=MIG_PROFILE, max_length=16, json_schema_extra=rules(Rule(IMMUTABLE, CUT_ONCE)))
    ]
    """MIG profile of every slice, such as 1g.10gb. Each GPU has as many slices of it as it holds."""
    strategy: Annotated[MigStrategy, Field(json_schema_extra=rules(Rule(IMMUTABLE, CUT_ONCE)))] = MigStrategy.MIXED
    """How nodes name their slices. Mixed: by the profile, as nvidia.com/mig-1g.10gb. Single: nvidia.com/gpu."""

    def to_domain(self) -> Partition:
        """The partition."""
        return Partition(self.profile, self.strategy)


class SharedGpuResource(StrEnum):
    """How nodes name a place on a shared GPU."""

    RENAMED = SHARED_GPU
    PLAIN = GPU_RESOURCE


SHARED_ONCE: Final = "how GPUs are shared cannot change: create another GPUPool"


class PoolSharing(ApiModel):
    """How jobs share GPUs, as NVIDIA's device plugin is set up on the nodes."""

    jobs_per_gpu: Annotated[int, Field(ge=2, le=8, json_schema_extra=rules(Rule(IMMUTABLE, SHARED_ONCE)))]
    """Number of jobs that use a GPU at once: the replicas of the device plugin."""
    mechanism: Annotated[SharingMechanism, Field(json_schema_extra=rules(Rule(IMMUTABLE, SHARED_ONCE)))] = (
        SharingMechanism.TIME_SLICING
    )
    """How they share it. TimeSlicing: they take turns. MPS: they run together, and a fatal fault of one ends all."""
    resource: Annotated[SharedGpuResource, Field(json_schema_extra=rules(Rule(IMMUTABLE, SHARED_ONCE)))] = (
        SharedGpuResource.RENAMED
    )
    """How nodes name a place on a GPU. nvidia.com/gpu.shared: with the device plugin's renameByDefault. nvidia.com/gpu:
    without it, as on GKE."""

    def to_domain(self) -> Partition:
        """The same for the planner."""
        strategy = MigStrategy.SINGLE if self.resource is SharedGpuResource.PLAIN else MigStrategy.MIXED
        return Partition(self.mechanism.profile(self.jobs_per_gpu), strategy)


class SharedGpuSpec(ApiModel):
    """What a job needs of a GPU that other jobs use at the same time."""

    memory: Annotated[str, Field(pattern="^[1-9][0-9]{0,8}(Mi|Gi)$", max_length=11)]
    """GPU memory that the job uses at most, such as 6Gi. It gets a GPU only if its part of the memory is as large."""
    least_speed: Annotated[float, Field(ge=0, le=1)] = LEAST_KEPT
    """Fraction of its speed alone that the job is to keep at least beside a partner. On nodes of one GPU that two jobs
    share, it gets no partner with which it is expected to be slower; elsewhere partners are not chosen."""

    @property
    def mib(self) -> int:
        """The memory in MiB."""
        return int(self.memory[:-2]) * (1024 if self.memory.endswith("Gi") else 1)
