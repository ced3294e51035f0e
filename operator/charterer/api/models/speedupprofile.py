"""SpeedupProfile: the speed of a class of jobs by number of GPUs, the jobs' length and their arrival rate."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    Absent,
    ApiModel,
    Conditions,
    Mirror,
    PartOf,
    PrinterColumn,
    ResourceKind,
    Rule,
    joined,
    keyed_by,
    ruled,
)
from charterer.api.models.learned import BatchTermsStatus, ClassStatistics, LearnedStatus
from charterer.api.models.machine_state import PackedStatistics
from charterer.domain.ids import ClassId
from charterer.domain.profile import (
    DEFAULT_RESTART_SECONDS,
    NO_FACTS,
    Amdahl,
    ModelFacts,
    Phase,
    PowerLaw,
    Profile,
    SpeedCurve,
    ThroughputTable,
)
from charterer.gpu_types import relative_speeds
from charterer.policy.options.speeds import reference_width, throughput
from charterer.sentences import count, is_or_are

# A declared profile, joined with the learned facts about its class.


def learned_profile(
    declared: Profile, status: LearnedStatus, restart_seconds: float | None = None, resize_seconds: float | None = None
) -> Profile:
    """The profile with the learned phases, if there are any, and its mean work in seconds of their reference.

    ``restart_seconds`` and ``resize_seconds`` are those of the spec; None if they are to be learned.
    """
    first = _reference(declared.declared)
    phases = status.to_domain(first)
    if not phases:
        return declared
    mean = _restated(declared.mean_work, first, phases)
    if declared.mean_work is None and status.mean_steps is not None:
        mean = status.mean_steps / _points(phases[0].curves[0])[0][1]
    failed = tuple(width.to_domain() for width in status.failed)
    return replace(
        declared,
        phases=phases,
        reports=status.reports,
        mean_work=mean,
        failed=failed,
        samples=float(status.batch.own),
        pairs=tuple([pair.to_domain() for pair in status.pairs]),
        checkpoint_seconds=declared.checkpoint_seconds or status.checkpoint_seconds,
        restart_seconds=_first_known(restart_seconds, status.restart_seconds, declared.restart_seconds),
        resize_seconds=_first_known(resize_seconds, status.resize_seconds, declared.resize_seconds),
    )


def _first_known(declared: float | None, learned: float | None, otherwise: float) -> float:
    if declared is not None:
        return declared
    return otherwise if learned is None else learned


def _reference(curves: tuple[SpeedCurve, ...]) -> tuple[str, int] | None:
    """GPU type and width on which declared work is measured."""
    if not curves:
        return None
    form = curves[0].form
    return curves[0].gpu_type, form.points[0][0] if isinstance(form, ThroughputTable) else 1


def _points(curve: SpeedCurve) -> tuple[tuple[int, float], ...]:
    assert isinstance(curve.form, ThroughputTable)
    return curve.form.points


def _restated(mean: float | None, declared: tuple[str, int] | None, phases: tuple[Phase, ...]) -> float | None:
    """The declared mean work, converted from seconds on the declared reference to seconds on the learned reference.

    The mean work is unchanged if no learned curve has the declared reference. In this case the first width of the first
    curve is the reference.
    """
    if mean is None or declared is None:
        return mean
    reference = _points(phases[0].curves[0])[0][1]
    life, begin = 0.0, 0.0
    for phase in phases:
        points = next((_points(curve) for curve in phase.curves if curve.gpu_type == declared[0]), ())
        goodput = dict(points).get(declared[1])
        if goodput is None:
            return mean
        life += (phase.until - begin) * reference / goodput
        begin = phase.until
    return mean / life


_MOST_APART: Final = 1e9
"""The largest ratio of a throughput to the reference's. The ratio of the largest cluster to the slowest GPU is
smaller."""
_BEYOND_DATA_SHEETS: Final = 4.0
"""Tolerance factor for the ratio of two GPU types' throughputs beyond that of their data sheets.

Programs that were never tuned for the faster type are up to 2.4 times slower on it (measured for Gavel, Recommendation
on a V100 after a P100). Seconds for minutes, milliseconds for seconds and steps for samples are factors of 60, 1,000
and a batch size.
"""

_Throughput = Annotated[float, Field(gt=1e-9, le=1e15)]


class ThroughputPoint(ApiModel):
    """A measured throughput."""

    gpus: Annotated[int, Field(ge=1, le=100_000)]
    """Number of GPUs."""
    value: _Throughput
    """Throughput, in any unit that all curves of the profile share."""


class AmdahlCurve(ApiModel):
    """throughput(k) = value / ((1 - parallelFraction) + parallelFraction / k)."""

    parallel_fraction: Annotated[float, Field(ge=0, le=1)]
    """Fraction of the work that runs in parallel, from 0 to 1."""
    value: _Throughput
    """Throughput of one GPU, in any unit that all curves of the profile share."""


class PowerCurve(ApiModel):
    """throughput(k) = value * k ^ exponent."""

    exponent: Annotated[float, Field(gt=1e-3, le=1)]
    """The exponent: 1 is linear speedup; 0.8 is typical."""
    value: _Throughput
    """Throughput of one GPU, in any unit that all curves of the profile share."""


class CurveSpec(ApiModel):
    """The throughput on one GPU type, in exactly one of three forms."""

    model_config = ruled(
        Rule(
            "[has(self.throughput), has(self.amdahl), has(self.power)].filter(form, form).size() == 1",
            "a curve needs exactly one of throughput, amdahl and power",
        )
    )

    gpu_type: Annotated[str, Field(min_length=1, max_length=63)]
    """GPU type, as in the node label nvidia.com/gpu.product."""
    throughput: (
        Annotated[
            tuple[ThroughputPoint, ...],
            Field(min_length=1, max_length=64, json_schema_extra=keyed_by("gpus")),
        ]
        | None
    ) = None
    """Measured throughputs. Between two points the curve is linear; beyond the last point it is unknown."""
    amdahl: AmdahlCurve | None = None
    """A curve that follows Amdahl's law."""
    power: PowerCurve | None = None
    """A curve that follows a power law."""

    def to_domain(self, meta: ObjectMeta, path: str) -> SpeedCurve:
        """The curve.

        Raises InvalidObject, which names ``path``, without a form or if throughput falls with more GPUs.
        """
        if self.throughput is not None:
            return SpeedCurve(self.gpu_type, _table(meta, f"{path}.throughput", self.throughput))
        if self.amdahl is not None:
            return SpeedCurve(self.gpu_type, Amdahl(self.amdahl.parallel_fraction, self.amdahl.value))
        if self.power is not None:
            return SpeedCurve(self.gpu_type, PowerLaw(self.power.exponent, self.power.value))
        raise meta.invalid(path, "NoCurve", "give exactly one of throughput, amdahl and power")


def _table(meta: ObjectMeta, path: str, points: tuple[ThroughputPoint, ...]) -> ThroughputTable:
    ascending = tuple(sorted((point.gpus, point.value) for point in points))
    for (fewer, fast), (more, slow) in pairwise(ascending):
        if more == fewer:
            raise meta.invalid(
                path,
                "DuplicatePoint",
                f"{count(more, 'GPU')} {is_or_are(more)} given twice; keep one value",
            )
        if slow < fast:
            falls = f"throughput falls from {fast:g} on {count(fewer, 'GPU')} to {slow:g} on {more}"
            raise meta.invalid(path, "CurveNotIncreasing", f"{falls}; leave the slower one out")
    return ThroughputTable(ascending)


def _comparable(meta: ObjectMeta, curves: tuple[SpeedCurve, ...]) -> None:
    """Raise InvalidObject if a throughput differs too much from the reference's for the curves to share a unit."""
    values = [
        [value for _, value in curve.form.points] if isinstance(curve.form, ThroughputTable) else [curve.form.value]
        for curve in curves
    ]
    for index, of_curve in enumerate(values):
        for value in of_curve:
            if not values[0][0] / _MOST_APART <= value <= values[0][0] * _MOST_APART:
                message = (
                    f"a throughput of {value:g} is more than {_MOST_APART:g} times as much or as little as the "
                    f"reference's {values[0][0]:g}; give all curves in one unit"
                )
                raise meta.invalid(f"spec.curves[{index}]", "CurvesNotComparable", message)
    for index, curve in enumerate(curves):
        for other in curves[:index]:
            if message := _units_differ(curve, other):
                raise meta.invalid(f"spec.curves[{index}]", "CurvesNotComparable", message)


def _units_differ(curve: SpeedCurve, other: SpeedCurve) -> str:
    """Why two curves cannot have the same unit: their data sheets exclude the difference. Empty if they can."""
    gpus = max(reference_width(curve.form), reference_width(other.form))
    here, there = throughput(curve.form, gpus), throughput(other.form, gpus)
    speeds = relative_speeds((curve.gpu_type, other.gpu_type))
    if here is None or there is None or not {curve.gpu_type, other.gpu_type} <= speeds.keys():
        return ""
    lowest, highest = (
        speeds[curve.gpu_type].low / speeds[other.gpu_type].high / _BEYOND_DATA_SHEETS,
        speeds[curve.gpu_type].high / speeds[other.gpu_type].low * _BEYOND_DATA_SHEETS,
    )
    if lowest <= here / there <= highest:
        return ""
    these = f"{count(gpus, 'GPU')} of {curve.gpu_type} {is_or_are(gpus)}"
    return (
        f"{these} {float(f'{here / there:.3g}'):,g} times as fast as {gpus} of {other.gpu_type} "
        f"({here:g} and {there:g}); by their data sheets that lies between {lowest:.2g} and {highest:.3g}: give all "
        "curves in one unit, such as samples a second, or leave one out to have it learned"
    )


_FIRST_VALUE: Final = (
    "(has(self.curves[0].throughput) ? self.curves[0].throughput[0].value : has(self.curves[0].amdahl) ? "
    "self.curves[0].amdahl.value : has(self.curves[0].power) ? self.curves[0].power.value : 1.0)"
)


def _near(value: str) -> str:
    """A CEL expression: whether a value is comparable with ``first``."""
    return f"{value} <= first * {_MOST_APART:.1f} && first <= {value} * {_MOST_APART:.1f}"


_COMPARABLE: Final = (
    f"!has(self.curves) || size(self.curves) == 0 || [{_FIRST_VALUE}].all(first, self.curves.all(curve, "
    f"(!has(curve.throughput) || curve.throughput.all(point, {_near('point.value')})) && "
    f"(!has(curve.amdahl) || ({_near('curve.amdahl.value')})) && "
    f"(!has(curve.power) || ({_near('curve.power.value')}))))"
)


class Batch(BatchTermsStatus):
    """The batch sizes that Charterer may choose, in samples."""

    model_config = ruled(
        Rule("self.own <= self.largest", "batch.own must not exceed batch.largest"),
        Rule(
            "!has(self.smallestPerGpu) || self.smallestPerGpu <= self.largestPerGpu",
            "batch.smallestPerGpu must not exceed batch.largestPerGpu",
        ),
    )


class ModelSpec(Mirror[ModelFacts]):
    """Facts about the model that jobs of this class train, for the time before the first of them has run."""

    family: Annotated[str, Field(max_length=63)] = ""
    """A name for classes that run the same program, such as sizes of one network. Measurements of one class tell most
    about the others of its family."""
    flops_per_sample: Annotated[float, Field(ge=1, le=1e18)] | None = None
    """Floating-point operations of a training step (forward and backward) for one sample: about 6 for each parameter
    and token of a language model, and 6 for each multiply-add of a convolutional network's forward pass."""
    parameters: Annotated[float, Field(ge=1, le=1e15)] | None = None
    """Number of trained parameters. The duration of a checkpoint is derived from it until one is reported. The time for
    synchronising GPUs is derived from it once another class with declared parameters has shown the speed of the
    links."""


class SpeedupProfileSpec(PartOf[Profile]):
    """Declared properties of a class of jobs."""

    APART = frozenset(("curves",))

    model_config = ruled(
        Rule(
            "!has(self.resizeSeconds) || !has(self.restartSeconds) || self.resizeSeconds <= self.restartSeconds",
            "resizeSeconds must not exceed restartSeconds",
        ),
        Rule(
            _COMPARABLE,
            f"no throughput may be more than {_MOST_APART:g} times as much or as little as the first one: give all "
            "curves in one unit",
            ".curves",
        ),
    )

    curves: Annotated[tuple[CurveSpec, ...], Field(max_length=32, json_schema_extra=keyed_by("gpuType"))] = ()
    """Throughput by number of GPUs, for each GPU type. The first curve at its smallest number of GPUs is the reference,
    against which work and speed are measured. Learning starts from these curves: once jobs report batch sizes and step
    times, declared and measured values are weighted by how precise they are. Absent: all is learned. Before the first
    report, jobs run on their preferred number of GPUs. If batch is given, they run on the number that experience with
    other classes suggests, at most twice the preferred number."""
    batch: Batch | None = None
    """The batch sizes that Charterer may choose. Jobs are sent the best batch size, and use it if they can. Absent:
    every job keeps its own batch size."""
    model: Annotated[ModelSpec | None, Absent(NO_FACTS)] = None
    """Facts about the model before the first run. They are the prior of learning: `charterer predict` shows what
    follows from it, and the first report outweighs it."""
    mean_work: Annotated[float, Field(gt=1e-3, le=1e12)] | None = None
    """Mean seconds that a job of this class takes on the reference. Absent: learned from the jobs. In the expected load
    on the budget it counts at most as twice the cost of the most expensive job of the class so far."""
    arrivals_per_hour: Annotated[float, Field(gt=1e-9, le=1e9)] | None = None
    """Mean number of jobs of this class that arrive in an hour. Absent: counted. A declared number counts at most as
    twice the jobs seen lately, and not before the first job of the class."""
    restart_seconds: Annotated[Annotated[float, Field(ge=0, le=86_400)] | None, Absent(DEFAULT_RESTART_SECONDS)] = None
    """Seconds without training when a job of this class is stopped and restarted on another number of GPUs. Absent: as
    reported, and 30 before that."""
    resize_seconds: Annotated[Annotated[float, Field(ge=0, le=86_400)] | None, Absent(0.0)] = None
    """Seconds without training when pods are added to or removed from a job of this class (resizePolicy InPlace).
    Absent: as reported, and 0 before that."""
    checkpoint_seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Seconds for which training stops while a checkpoint is written. Absent: as reported. Before the first report:
    derived from model.parameters, or 30 without it."""

    def to_domain(self, meta: ObjectMeta, record: SpeedupProfileRecord, unreadable: str = "") -> Profile:
        """The profile with the learned facts about its class. Raises InvalidObject if a declared curve cannot be used.

        ``unreadable``: the fault in the learned part of its status, empty if there is none.
        """
        curves = tuple(curve.to_domain(meta, f"spec.curves[{index}]") for index, curve in enumerate(self.curves))
        _comparable(meta, curves)
        declared = joined(
            Profile,
            meta,
            self,
            id=ClassId(meta.namespace, meta.name),
            phases=(Phase(1.0, curves),),
            declared=curves,
            unreadable=unreadable,
            claims_work=self.mean_work is not None,
            claims_arrivals=self.arrivals_per_hour is not None,
        )
        if record.learned is None:
            return declared
        return learned_profile(declared, record.learned, self.restart_seconds, self.resize_seconds)


class ProfileState(StrEnum):
    """The state of a SpeedupProfile."""

    READY = "Ready"
    INVALID = "Invalid"


class SpeedupProfileView(ApiModel):
    """The profile's present state, for people."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: ProfileState | None = None
    """Ready or Invalid (a curve cannot be used)."""
    mean_work: Annotated[int, Field(ge=1, le=1_000_000_000_000)] | None = None
    """spec.meanWork, rounded to whole seconds."""
    conditions: Conditions = ()
    """Ready, False if a curve cannot be used, with the reason; DeclaredLoadConfirmed, False while not all of
    arrivalsPerHour counts; Stalled while the object cannot be read."""


class SpeedupProfileRecord(ApiModel):
    """The part of the status that must survive a restart."""

    learned: LearnedStatus | None = None
    """Curves and statistics learned from the class's jobs."""
    machine_state: PackedStatistics | None = None
    """The statistics from which learning goes on after a restart. If this field is deleted, all is learned again."""

    def statistics(self) -> ClassStatistics | None:
        """The content of the machine state. Raises ValueError, which names the unreadable field and the cause."""
        return PackedStatistics.unpacked(self.machine_state, ClassStatistics)


class SpeedupProfileStatus(SpeedupProfileView, SpeedupProfileRecord):
    """Curves and statistics learned about the class, and the profile's present state."""


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
        PrinterColumn("Mean-Work(s)", ".status.meanWork", "integer", description="Seconds on the reference"),
        PrinterColumn("Arrivals/h", ".spec.arrivalsPerHour", "number"),
        PrinterColumn("Restart(s)", ".spec.restartSeconds", "number", description="What a change of width costs"),
        PrinterColumn(
            "Reports",
            ".status.learned.reports",
            "integer",
            description="Number of reports that the learned curves rest on",
        ),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".status.state",),
)
