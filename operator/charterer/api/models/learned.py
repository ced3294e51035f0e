"""SpeedupProfile.status.learned: the learned facts about a class of jobs, for people and for planning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Final, Self

from pydantic import Field, field_validator, model_validator

from charterer.api.models.base import ATOMIC, ApiModel, Mirror, Time, joined
from charterer.api.models.machine_state import MachineContent
from charterer.domain.ids import ClassId
from charterer.domain.profile import (
    MOST_PAIRS,
    BatchTerms,
    CurveSource,
    FailedWidth,
    Origin,
    PairSpeed,
    Phase,
    SpeedCurve,
    ThroughputTable,
)

MOST_PHASES: Final = 12
"""Maximum phases of a class: more than a learner makes."""
MOST_WIDTHS: Final = 512
"""Maximum rows of a phase: widths of all GPU types together."""
MOST_FAILED: Final = 64
"""Maximum widths of a class on which failed runs are remembered."""
LARGEST: Final = 1e15
"""The largest number. The API server compares bounds as 64-bit integers and refuses every value above 9e18."""
MOST_SAMPLES: Final = 1_000_000_000
"""The largest batch size."""
_MESSAGE_LIMIT: Final = 256
_CLASS_LIMIT: Final = 63 + 1 + 253

Positive = Annotated[float, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Gpus = Annotated[int, Field(ge=1, le=100_000)]
Samples = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
GpuType = Annotated[str, Field(min_length=1, max_length=63)]


class BatchTermsStatus(Mirror[BatchTerms]):
    """Batch sizes in samples."""

    own: Samples
    """Total batch size that the job's recipe was written for."""
    largest: Samples
    """Maximum total batch size."""
    largest_per_gpu: Samples
    """Maximum samples that fit one GPU. Larger numbers are accumulated over several passes."""
    smallest_per_gpu: Samples = 1
    """Minimum samples per GPU."""

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        if self.own > self.largest:
            raise ValueError(f"own {self.own} exceeds largest {self.largest}")
        if self.smallest_per_gpu > self.largest_per_gpu:
            raise ValueError(f"smallestPerGpu {self.smallest_per_gpu} exceeds largestPerGpu {self.largest_per_gpu}")
        return self


class LearnedNoise(ApiModel):
    """The gradient noise scale, in batches of the own size."""

    value: Positive
    """The estimate. Up to about this number of own batches, twice the batch size makes nearly twice the progress per
    step."""
    low: Positive
    """Lower end of the 90 % interval."""
    high: Positive
    """Upper end of the 90 % interval."""
    reports: Weight = 0
    """Number of reports of gradients that the estimate rests on; older ones count less."""


class LearnedWidth(ApiModel):
    """The speed of the class on one number of GPUs of one type."""

    gpu_type: GpuType
    """GPU type, as in the node label nvidia.com/gpu.product."""
    gpus: Gpus
    """Number of GPUs."""
    goodput: Positive
    """Training progress per second with the best batch size, in steps of the own batch size."""
    low: Positive
    """Lower end of the 90 % interval of goodput."""
    high: Positive
    """Upper end of the 90 % interval of goodput."""
    batch: Samples
    """The best total batch size."""
    step_seconds: Positive
    """Seconds of a step with the best batch size."""
    source: CurveSource
    """The source of the numbers. Measured: on this width. Extrapolated: from other widths or GPU types of the class.
    Declared: from spec.curves. Prior: from other classes."""
    reports: Count = 0
    """Number of reports from this width."""


class LearnedPhaseStatus(ApiModel):
    """A part of a job's life in which the same batch sizes and widths are best."""

    until: Annotated[float, Field(gt=0, le=1)]
    """Fraction of the work at which the phase ends."""
    noise: LearnedNoise
    """The gradient noise scale: how large a batch still pays."""
    widths: Annotated[tuple[LearnedWidth, ...], Field(max_length=MOST_WIDTHS, json_schema_extra=ATOMIC)] = ()
    """Speeds by GPU type and number of GPUs, in this order."""


class FailedWidthStatus(Mirror[FailedWidth]):
    """A width on which runs failed before any was measured there."""

    gpu_type: GpuType
    """GPU type, as in the node label nvidia.com/gpu.product."""
    gpus: Gpus
    """Number of GPUs."""
    failures: Annotated[int, Field(ge=1, le=1_000_000)]
    """Number of runs that failed."""
    at: Time
    """When the last of them failed."""
    message: Annotated[str, Field(max_length=_MESSAGE_LIMIT)] = ""
    """The error message of the last failed run."""

    @classmethod
    def from_domain(cls, failed: FailedWidth) -> Self:
        """The model of the width."""
        return cls.copy_of(failed, message=failed.message[:_MESSAGE_LIMIT])


class LearnedPair(Mirror[PairSpeed]):
    """The speed of the class beside another one on the same GPU."""

    APART = frozenset(("beside",))

    gpu_type: GpuType
    """Type of the shared GPU, such as Tesla-V100-SXM2-16GB-mps-2."""
    beside: Annotated[str, Field(pattern="^[^/]+/[^/]+$", max_length=_CLASS_LIMIT)]
    """SpeedupProfile of the other job, as namespace/name."""
    kept: Annotated[float, Field(gt=0, le=1)]
    """Speed beside the other class, as a fraction of the speed alone on such a GPU."""
    reports: Annotated[int, Field(ge=1, le=1_000_000_000_000)]
    """Number of reports that this rests on."""

    @classmethod
    def from_domain(cls, pair: PairSpeed) -> Self:
        """The model of the pair. ``kept`` has four decimals."""
        return cls.copy_of(pair, beside=str(pair.beside), kept=max(round(pair.kept, 4), 1e-4))

    def to_domain(self) -> PairSpeed:
        """The domain value of the pair."""
        return joined(PairSpeed, self, beside=ClassId.parse(self.beside))


class LearnedCurves(ApiModel):
    """The speeds that were learned."""

    reports: Count
    """Number of reports of step times that this rests on."""
    phases: Annotated[tuple[LearnedPhaseStatus, ...], Field(max_length=MOST_PHASES, json_schema_extra=ATOMIC)] = ()
    """The phases of a job's life by which jobs are planned. The last one ends at 1."""

    @field_validator("phases")
    @classmethod
    def _ascending(cls, phases: tuple[LearnedPhaseStatus, ...]) -> tuple[LearnedPhaseStatus, ...]:
        ends = [phase.until for phase in phases]
        if ends and (ends[-1] != 1.0 or any(later <= sooner for sooner, later in pairwise(ends))):
            raise ValueError(f"phases end at {ends}: each must end later than the one before, and the last at 1")
        return phases

    def to_domain(self, reference: tuple[str, int] | None) -> tuple[Phase, ...]:
        """The planner's phases; none if one of them is empty.

        ``reference``: GPU type and width to use as the reference.
        """
        if not all(phase.widths for phase in self.phases):
            return ()
        return tuple(Phase(phase.until, _curves(phase.widths, reference)) for phase in self.phases)


def _curves(widths: Sequence[LearnedWidth], reference: tuple[str, int] | None) -> tuple[SpeedCurve, ...]:
    """Curves by GPU type. The type of the declared reference is first, because work is measured on the first curve."""
    types: dict[str, dict[int, LearnedWidth]] = {}
    for width in widths:
        types.setdefault(width.gpu_type, {})[width.gpus] = width
    order = sorted(types, key=lambda name: (reference is None or name != reference[0], name))
    return tuple(
        SpeedCurve(
            name,
            ThroughputTable(tuple((gpus, width.goodput) for gpus, width in sorted(types[name].items()))),
            tuple(
                Origin(width.source, width.reports, width.low, width.high) for _, width in sorted(types[name].items())
            ),
        )
        for name in order
    )


_ChangeSeconds = Annotated[float, Field(ge=0, le=86_400)]


class LearnedClass(ApiModel):
    """Statistics learned about the class, other than its curves."""

    batch: BatchTermsStatus
    """The batch sizes under which this was learned."""
    mean_steps: Positive | None = None
    """Mean work of the latest finished jobs, in steps of the own batch size."""
    checkpoint_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Seconds that a checkpoint takes, as its jobs reported."""
    restart_seconds: _ChangeSeconds | None = None
    """Seconds from the last step of one run to the first step of the next, as its jobs reported."""
    resize_seconds: _ChangeSeconds | None = None
    """Seconds for which training stood still when runs were resized in place, as its jobs reported."""
    failed: Annotated[tuple[FailedWidthStatus, ...], Field(max_length=MOST_FAILED, json_schema_extra=ATOMIC)] = ()
    """Widths on which runs failed. If a job has a choice, it avoids such a width for an hour, and four times as long
    after each further failure. A failure is forgotten when the width was measured, and after a month."""
    pairs: Annotated[tuple[LearnedPair, ...], Field(max_length=MOST_PAIRS, json_schema_extra=ATOMIC)] = ()
    """Speeds beside other classes, on nodes of one GPU that two jobs share. The latest is last."""


class LearnedStatus(LearnedCurves, LearnedClass):
    """Curves and statistics learned from the class's jobs. Deleting the profile deletes these curves and statistics."""


# SpeedupProfile.status.machineState: the statistics of a class from which learning continues after a restart.


MOST_CELLS: Final = 1024
"""Maximum combinations of width, nodes and batch size whose step times are kept, of all GPU types together."""
_DROPPED_AT_ONCE: Final = 8
"""Divisor of the number of cells: an eighth is dropped at a time, so that few attempts reach the size limit."""

_Sum = Annotated[float, Field(ge=-1e12, le=1e12)]


class StepTimesCell(ApiModel):
    """All reports of one way to do a step.

    ``per_gpu``: samples of a GPU in one pass; ``seconds``: geometric mean of a step; ``scatter``: standard deviation of
    its logarithm; ``weight``: number of reports that it counts for, older ones less; ``reports``: all there ever were.
    """

    gpu_type: GpuType
    nodes: Gpus
    gpus: Gpus
    per_gpu: Samples
    passes: Samples
    seconds: Positive
    scatter: Annotated[float, Field(ge=0, le=100)] = 0
    weight: Annotated[float, Field(gt=0, le=1e6)]
    reports: Annotated[int, Field(ge=1, le=1_000_000_000_000)]


class NoiseSums(ApiModel):
    """Sums over the reports of gradient noise in one of 64 equal parts of the work, ``bin``.

    x is ``noise_growth`` of the batch size over the own one, z the logarithm of the noise scale; ``weight``: number of
    reports.
    """

    bin: Annotated[int, Field(ge=0, le=63)]
    weight: Annotated[float, Field(gt=0, le=1e6)]
    x: _Sum = 0
    xx: _Sum = 0
    z: _Sum = 0
    xz: _Sum = 0
    zz: _Sum = 0


class ClassStatistics(MachineContent):
    """Measurements of a class.

    ``step_times``: of each GPU type the latest last. ``noise_reports``: how many reports had gradients. ``sizes``: work
    of the latest finished jobs in own-batch steps, oldest first; jobs that finished up to ``sizes_through`` are in it.
    """

    step_times: Annotated[tuple[StepTimesCell, ...], Field(max_length=MOST_CELLS)] = ()
    noise_reports: Count = 0
    noise_sums: Annotated[tuple[NoiseSums, ...], Field(max_length=64)] = ()
    sizes: Annotated[tuple[Positive, ...], Field(max_length=200)] = ()
    sizes_through: Time | None = None

    def smaller(self) -> Self | None:
        """The content without the eighth of the step times with the least weight.

        Among equals, the oldest is dropped first.
        """
        cells = self.step_times
        if not cells:
            return None
        by_weight = sorted(range(len(cells)), key=lambda index: (cells[index].weight, index))
        dropped = frozenset(by_weight[: max(1, len(cells) // _DROPPED_AT_ONCE)])
        kept = tuple(cell for index, cell in enumerate(cells) if index not in dropped)
        return self.model_copy(update={"step_times": kept})
