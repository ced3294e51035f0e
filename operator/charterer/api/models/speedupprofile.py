"""SpeedupProfile: how fast a class of jobs is on how many GPUs, and how much of it there is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from charterer.api.models.base import ApiModel, Conditions, PrinterColumn, ResourceKind, Rule, keyed_by, ruled
from charterer.api.models.learned import BatchTermsStatus, LearnedStatus

_Positive = Annotated[float, Field(gt=0, le=1e15)]


class ThroughputPoint(ApiModel):
    """A measured throughput."""

    gpus: Annotated[int, Field(ge=1, le=100_000)]
    """The number of GPUs it was measured on."""
    value: _Positive
    """Throughput in any unit, as long as all curves of the profile use the same one."""


class AmdahlCurve(ApiModel):
    """throughput(k) = value / ((1 - parallelFraction) + parallelFraction / k)."""

    parallel_fraction: Annotated[float, Field(ge=0, le=1)]
    """The part of the work that more GPUs make faster."""
    value: _Positive
    """The throughput of one GPU."""


class PowerCurve(ApiModel):
    """throughput(k) = value * k ^ exponent."""

    exponent: Annotated[float, Field(gt=0, le=1)]
    """1 is linear speed-up; 0.8 is typical."""
    value: _Positive
    """The throughput of one GPU."""


class CurveSpec(ApiModel):
    """Throughput on one GPU type, in exactly one form."""

    model_config = ruled(
        Rule(
            "[has(self.throughput), has(self.amdahl), has(self.power)].filter(form, form).size() == 1",
            "a curve needs exactly one of throughput, amdahl and power",
        )
    )

    gpu_type: Annotated[str, Field(min_length=1, max_length=63)]
    """As in the node label nvidia.com/gpu.product."""
    throughput: (
        Annotated[
            tuple[ThroughputPoint, ...],
            Field(min_length=1, max_length=64, json_schema_extra=keyed_by("gpus")),
        ]
        | None
    ) = None
    """Measured throughputs. Between them throughput is read linearly, beyond them never."""
    amdahl: AmdahlCurve | None = None
    """A curve by Amdahl's law."""
    power: PowerCurve | None = None
    """A power law."""


class Batch(BatchTermsStatus):
    """Between which batch sizes Charterer may choose, in samples."""

    model_config = ruled(
        Rule("self.own <= self.largest", "batch.own must not exceed batch.largest"),
        Rule(
            "!has(self.smallestPerGpu) || self.smallestPerGpu <= self.largestPerGpu",
            "batch.smallestPerGpu must not exceed batch.largestPerGpu",
        ),
    )


class SpeedupProfileSpec(ApiModel):
    """What is declared of a class of jobs."""

    model_config = ruled(
        Rule("self.resizeSeconds <= self.restartSeconds", "resizeSeconds must not exceed restartSeconds")
    )

    curves: Annotated[tuple[CurveSpec, ...], Field(max_length=32, json_schema_extra=keyed_by("gpuType"))] = ()
    """How throughput grows with the number of GPUs, for each GPU type. The first curve at its smallest number of GPUs
    is the reference: the one against which work and speed are measured. It is where learning starts from: once jobs
    report their batch sizes and step times, what was measured counts by how well it is known. Absent: all is learned,
    and jobs run on their preferred number of GPUs until something is."""
    batch: Batch | None = None
    """Between which batch sizes Charterer may choose; jobs are told the best one and take it if they can. Absent: every
    job keeps its own."""
    mean_work: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Seconds that a job of this class takes on average on the reference; absent: learned from the jobs in sight."""
    arrivals_per_hour: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Jobs of this class an hour; absent: counted as they come."""
    restart_seconds: Annotated[float, Field(ge=0, le=86_400)] = 30
    """Seconds from stopping a job of this class to training on with another number of GPUs."""
    resize_seconds: Annotated[float, Field(ge=0, le=86_400)] = 0
    """Seconds for which a run of this class does not train when pods are added or taken away (resizePolicy InPlace)."""


class SpeedupProfileView(ApiModel):
    """What Charterer makes of the profile."""

    observed_generation: int | None = None
    """The generation of the spec that the rest was judged by."""
    state: str | None = None
    """One word for the state column."""
    conditions: Conditions = ()
    """Ready; False where a curve cannot be used, with the numbers."""


class SpeedupProfileRecord(ApiModel):
    """What must survive a restart."""

    learned: LearnedStatus | None = None
    """What the class's jobs have taught."""


class SpeedupProfileStatus(SpeedupProfileView, SpeedupProfileRecord):
    """What Charterer makes of the profile, and what it has learned of the class."""


SPEEDUP_PROFILE = ResourceKind(
    kind="SpeedupProfile",
    plural="speedupprofiles",
    short="sprof",
    namespaced=True,
    description="A class of jobs: how their speed grows with GPUs, how long they are, how often they come.",
    spec=SpeedupProfileSpec,
    status=SpeedupProfileStatus,
    columns=(
        PrinterColumn("GPU-Types", ".spec.curves[*].gpuType"),
        PrinterColumn("Mean-Work", ".spec.meanWork", "number", description="Seconds on the reference"),
        PrinterColumn("Arrivals/h", ".spec.arrivalsPerHour", "number"),
        PrinterColumn("Restart", ".spec.restartSeconds", "number", description="Seconds that a change of width costs"),
        PrinterColumn("Reports", ".status.learned.reports", "integer", description="What was learned rests on so many"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
)
