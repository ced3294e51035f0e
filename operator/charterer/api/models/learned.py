"""What was learned of a class of jobs, as its SpeedupProfile's status shows it and an operator reads it back."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from charterer.api.models.base import ATOMIC, ApiModel, Time
from charterer.domain.profile import BatchTerms, CurveSource

MOST_PHASES = 12
MOST_WIDTHS = 512
"""Rows of a phase: widths of all GPU types together."""
MOST_CELLS = 1024
MOST_FAILED = 64

LARGEST = 1e15
"""The API server compares bounds of numbers as 64-bit integers: above 9e18 it refuses every value."""

_Positive = Annotated[float, Field(gt=0, le=LARGEST)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Sum = Annotated[float, Field(ge=-1e12, le=1e12)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
_Weight = Annotated[float, Field(ge=0, le=1e6)]
_Gpus = Annotated[int, Field(ge=1, le=100_000)]
_Samples = Annotated[int, Field(ge=1, le=1_000_000_000)]
_GpuType = Annotated[str, Field(min_length=1, max_length=63)]


class BatchTermsStatus(ApiModel):
    """Batch sizes in samples."""

    own: _Samples
    """The total batch size that the job's recipe was written for."""
    largest: _Samples
    """The largest total batch size that may be used."""
    largest_per_gpu: _Samples
    """The most samples that fit one GPU; larger shares are accumulated over several passes."""
    smallest_per_gpu: _Samples = 1
    """The fewest samples that a GPU is given."""

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        if self.own > self.largest:
            raise ValueError(f"own {self.own} exceeds largest {self.largest}")
        if self.smallest_per_gpu > self.largest_per_gpu:
            raise ValueError(f"smallestPerGpu {self.smallest_per_gpu} exceeds largestPerGpu {self.largest_per_gpu}")
        return self

    def to_domain(self) -> BatchTerms:
        """The batch sizes."""
        return BatchTerms(self.own, self.largest, self.largest_per_gpu, self.smallest_per_gpu)


class LearnedNoise(ApiModel):
    """Gradient noise scale, in batches of the own size."""

    value: _Positive
    """The estimate: up to about so many times the own batch, twice the batch makes nearly twice the progress a step."""
    low: _Positive
    """Lower end of the 90 % interval."""
    high: _Positive
    """Upper end of the 90 % interval."""
    reports: _Weight = 0
    """How many reports of gradients it rests on; older ones count for less."""


class LearnedWidth(ApiModel):
    """How fast the class is on so many GPUs of a type."""

    gpu_type: _GpuType
    """As in the node label nvidia.com/gpu.product."""
    gpus: _Gpus
    """The number of GPUs."""
    goodput: _Positive
    """Training progress a second, in steps of the own batch size, with the best batch size."""
    low: _Positive
    """Lower end of the 90 % interval."""
    high: _Positive
    """Upper end of the 90 % interval."""
    batch: _Samples
    """The best total batch size here."""
    step_seconds: _Positive
    """Seconds of a step with it."""
    source: CurveSource
    """Measured here, Extrapolated from other widths or GPU types of the class, Declared by the spec's curve, or Prior:
    what other classes have in common."""
    reports: _Count = 0
    """How many reports came from this width."""


class LearnedPhaseStatus(ApiModel):
    """A stretch of a job's life in which the same batch sizes and widths are best."""

    until: Annotated[float, Field(gt=0, le=1)]
    """It ends where this part of the work is done."""
    noise: LearnedNoise
    """How large a batch still pays."""
    widths: Annotated[tuple[LearnedWidth, ...], Field(max_length=MOST_WIDTHS, json_schema_extra=ATOMIC)] = ()
    """In order of GPU type and number of GPUs."""


class StepTimesStatus(ApiModel):
    """All reports of one way to do a step."""

    gpu_type: _GpuType
    """The GPU type."""
    nodes: _Gpus
    """On so many nodes."""
    gpus: _Gpus
    """On so many GPUs in all."""
    per_gpu: _Samples
    """Samples of a GPU in one pass."""
    passes: _Samples
    """Passes of a step."""
    seconds: _Positive
    """Seconds of a step (geometric mean)."""
    scatter: Annotated[float, Field(ge=0, le=100)] = 0
    """Standard deviation of its logarithm."""
    weight: Annotated[float, Field(gt=0, le=1e6)]
    """How many reports that counts for; older ones are forgotten."""
    reports: Annotated[int, Field(ge=1, le=1_000_000_000_000)]
    """How many there ever were."""


class NoiseSums(ApiModel):
    """Sums over the reports of gradient noise of one stretch of progress: x is the logarithm of batch size over own
    batch size, z that of the noise scale."""

    bin: Annotated[int, Field(ge=0, le=63)]
    """Which of 64 equal stretches of the work."""
    weight: Annotated[float, Field(gt=0, le=1e6)]
    """Reports."""
    x: _Sum = 0
    """Sum of x."""
    xx: _Sum = 0
    """Sum of x times x."""
    z: _Sum = 0
    """Sum of z."""
    xz: _Sum = 0
    """Sum of x times z."""
    zz: _Sum = 0
    """Sum of z times z."""


class SizesStatus(ApiModel):
    """Work of finished jobs, in steps of the own batch size."""

    latest: Annotated[tuple[_Positive, ...], Field(max_length=200, json_schema_extra=ATOMIC)] = ()
    """Of the latest jobs, oldest first."""
    through: Time | None = None
    """Jobs that finished up to then are among them."""


class FailedWidthStatus(ApiModel):
    """A width on which runs failed before any was measured there."""

    gpu_type: _GpuType
    """The GPU type."""
    gpus: _Gpus
    """The number of GPUs."""
    failures: Annotated[int, Field(ge=1, le=1_000_000)]
    """So many runs."""
    at: Time
    """When the last one failed."""
    message: Annotated[str, Field(max_length=256)] = ""
    """What it said."""


class LearnedCurves(ApiModel):
    """What is said of the class."""

    reports: _Count
    """How many reports of step times it rests on."""
    phases: Annotated[tuple[LearnedPhaseStatus, ...], Field(max_length=MOST_PHASES, json_schema_extra=ATOMIC)] = ()
    """What jobs are planned by, phase after phase; the last ends at 1."""

    @field_validator("phases")
    @classmethod
    def _ascending(cls, phases: tuple[LearnedPhaseStatus, ...]) -> tuple[LearnedPhaseStatus, ...]:
        ends = [phase.until for phase in phases]
        if ends and (ends[-1] != 1.0 or any(later <= sooner for sooner, later in pairwise(ends))):
            raise ValueError(f"phases end at {ends}: each must end later than the one before, and the last at 1")
        return phases


class LearnedStatistics(ApiModel):
    """What was measured, as an operator that starts anew reads it."""

    batch: BatchTermsStatus
    """Between which batch sizes it was learned."""
    step_times: Annotated[tuple[StepTimesStatus, ...], Field(max_length=MOST_CELLS, json_schema_extra=ATOMIC)] = ()
    """What was measured of step times, the latest of each GPU type last."""
    noise_reports: _Count = 0
    """How many reports had gradients."""
    noise_sums: Annotated[tuple[NoiseSums, ...], Field(max_length=64, json_schema_extra=ATOMIC)] = ()
    """What was measured of gradients."""
    sizes: SizesStatus = SizesStatus()
    """How much work the class's jobs were."""
    failed: Annotated[tuple[FailedWidthStatus, ...], Field(max_length=MOST_FAILED, json_schema_extra=ATOMIC)] = ()
    """Widths on which runs failed. They are avoided for an hour, four times as long after each further failure, as far
    as a job has a choice; forgotten once one is measured, and after a month."""


class LearnedStatus(LearnedCurves, LearnedStatistics):
    """What the class's jobs have taught. It is Charterer's memory: deleting the profile forgets it."""
