"""The numbers or parts of GPUs that a job may have, and the partition of GPUs in pools."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from charterer.api.gpu_resources import LONGEST_RESOURCE, RESOURCE_RULES
from charterer.api.models.base import (
    ATOMIC,
    IMMUTABLE,
    ApiModel,
    Mirror,
    ObjectName,
    Rule,
    keyed_by,
    ruled,
    rules,
)
from charterer.api.names import GPU_RESOURCE, MIG_PROFILE, SHARED_GPU
from charterer.api.template import MOST_GPUS
from charterer.domain.ids import ClassId
from charterer.domain.job import LEAST_KEPT, Variant, Widths
from charterer.domain.pool import MigStrategy, Partition, SharingMechanism

# Slices of GPUs and shared GPUs, in pools and in jobs.


RESOURCE_ONCE: Final = "the resource of a pool's GPUs cannot change: create another GPUPool for the other GPUs"
GpuResource = Annotated[str, Field(max_length=LONGEST_RESOURCE, json_schema_extra=rules(*RESOURCE_RULES))]
"""The extended resource of whole GPUs, as the vendor's device plugin names it."""
CUT_ONCE: Final = "how GPUs are cut cannot change: create another GPUPool for the other slices"


class PartitionSpec(Mirror[Partition]):
    """How GPUs are cut into MIG slices."""

    profile: Annotated[
        str, Field(pattern=MIG_PROFILE, max_length=16, json_schema_extra=rules(Rule(IMMUTABLE, CUT_ONCE)))
    ]
    """MIG profile of every slice, such as 1g.10gb. Each GPU has as many slices of it as it holds."""
    strategy: Annotated[MigStrategy, Field(json_schema_extra=rules(Rule(IMMUTABLE, CUT_ONCE)))] = MigStrategy.MIXED
    """How nodes name their slices. Mixed: by the profile, as nvidia.com/mig-1g.10gb. Single: nvidia.com/gpu."""


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
    """How jobs share the GPU. TimeSlicing: they take turns. MPS: they run together, and a fatal fault of one ends
    all."""
    resource: Annotated[SharedGpuResource, Field(json_schema_extra=rules(Rule(IMMUTABLE, SHARED_ONCE)))] = (
        SharedGpuResource.RENAMED
    )
    """How nodes name a place on a GPU. nvidia.com/gpu.shared: with the device plugin's renameByDefault. nvidia.com/gpu:
    without it, as on GKE."""

    def to_domain(self) -> Partition:
        """The partition for the planner."""
        strategy = MigStrategy.SINGLE if self.resource is SharedGpuResource.PLAIN else MigStrategy.MIXED
        return Partition(self.mechanism.profile(self.jobs_per_gpu), strategy)


class SharedGpuSpec(ApiModel):
    """Requirements of a job on a GPU that other jobs use at the same time."""

    memory: Annotated[str, Field(pattern="^[1-9][0-9]{0,8}(Mi|Gi)$", max_length=11)]
    """GPU memory that the job uses at most, such as 6Gi. The job gets a GPU only if its part of the memory is at least
    as large."""
    least_speed: Annotated[float, Field(ge=0, le=1)] = LEAST_KEPT
    """Minimum speed beside another job, as a fraction of the speed alone. On nodes of one GPU that two jobs share, the
    job gets no partner with which it is expected to be slower. On other nodes partners are not chosen."""

    @property
    def mib(self) -> int:
        """The memory in MiB."""
        return int(self.memory[:-2]) * (1024 if self.memory.endswith("Gi") else 1)


# The numbers of GPUs and the variants in a job's spec.


_Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]
ProfileName = Annotated[
    ObjectName,
    Field(
        json_schema_extra=rules(
            Rule(
                "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
                "profileName must be a name that a SpeedupProfile can have: lower-case letters, digits, '-' and '.'",
            )
        )
    ),
]


class GpuRange(ApiModel):
    """How many GPUs the job can use."""

    model_config = ruled(
        Rule("self.min <= self.max", "gpus.min must not exceed gpus.max"),
        Rule(
            "!has(self.preferred) || (self.min <= self.preferred && self.preferred <= self.max)",
            "gpus.preferred must lie between gpus.min and gpus.max",
        ),
        Rule(
            "!has(self.slices) || self.slices.size() == 0 || self.min == 1",
            "gpus.slices needs gpus.min 1: slices cannot train together, so a job gets one of them or whole GPUs",
            ".slices",
        ),
        Rule(
            "!has(self.shared) || self.min == 1",
            "gpus.shared needs gpus.min 1: a job that shares a GPU has that one only",
            ".shared",
        ),
    )

    min: _Gpus
    """Minimum number of GPUs."""
    preferred: _Gpus | None = None
    """Number of GPUs to use while nothing is known about the job's speed. Absent: min."""
    max: _Gpus
    """Maximum number of GPUs."""
    slices: Annotated[
        tuple[Annotated[str, Field(pattern=MIG_PROFILE, max_length=16)], ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """MIG profiles of the slices that the job can use instead of a GPU, such as 1g.10gb: those whose memory it fits
    into. The job gets one slice at most. Absent: none."""
    shared: SharedGpuSpec | None = None
    """The job can use a GPU at the same time as other jobs, for a part of the price, in pools with spec.sharing. The
    job gets one such GPU at most. Absent: it shares none."""

    def to_domain(self) -> Widths:
        """The numbers of GPUs, and the parts of a GPU that the job may use instead."""
        preferred = self.min if self.preferred is None else self.preferred
        shared = () if self.shared is None else (self.shared.mib, self.shared.least_speed)
        return Widths(self.min, preferred, self.max, self.slices, *shared)


class VariantVariable(ApiModel):
    """An environment variable of a variant."""

    name: Annotated[str, Field(max_length=253, json_schema_extra={"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=2048)] = ""
    """Value of the variable; $(NAME) stands for an earlier variable."""


class VariantSpec(ApiModel):
    """Another way to do the same training."""

    name: Annotated[str, Field(max_length=32, json_schema_extra={"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"})]
    """Name of the variant, as the trainer finds it in CHARTERER_VARIANT."""
    env: Annotated[tuple[VariantVariable, ...], Field(max_length=32, json_schema_extra=keyed_by("name"))] = ()
    """Environment variables of the trainer's container, in addition to those of the template or in their place.
    Variables that Charterer sets stay as they are."""
    args: (
        Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=64, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Arguments of the trainer's container, in the place of the template's. Absent: the template's."""
    gpus: GpuRange | None = None
    """The numbers of GPUs that the variant can use. Absent: those of the job."""
    profile_name: ProfileName | None = None
    """Name of the SpeedupProfile with the speed of the variant. Absent: the job's profileName, a dot, and the name of
    the variant."""

    def to_domain(self, template: ClassId, widths: Widths) -> Variant:
        """The variant. ``template``: the job's class; ``widths``: the job's."""
        gpus = widths if self.gpus is None else self.gpus.to_domain()
        name = self.profile_name or f"{template.name}.{self.name}"
        return gpus.variant(self.name, ClassId(template.namespace, name))
