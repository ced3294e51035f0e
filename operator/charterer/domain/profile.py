"""A class of jobs: its speed by number of GPUs, the work of a job, and the rate at which jobs arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.time import Instant

_UNBOUNDED = 1024
"""Largest number of GPUs on a curve given by a formula."""


@dataclass(frozen=True, slots=True)
class ThroughputTable:
    """Measured throughput by number of GPUs, ascending: interpolated linearly between points, undefined beyond them."""

    points: tuple[tuple[int, float], ...]


DEFAULT_RESTART_SECONDS = 30.0
"""Default of the seconds from stopping a run until the next run trains, if none is declared and none was observed."""


@dataclass(frozen=True, slots=True)
class Amdahl:
    """throughput(k) = value / ((1 - p) + p / k), with parallel fraction p, and value the throughput of one GPU."""

    parallel_fraction: float
    value: float


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """throughput(k) = value * k ** exponent, where value is the throughput of one GPU."""

    exponent: float
    value: float


class CurveSource(StrEnum):
    """The source of a learned number."""

    MEASURED = "Measured"
    """Jobs of the class ran at this width on this GPU type."""
    DECLARED = "Declared"
    """The profile's declared curve is a better estimate for this width than measurements at other widths."""
    EXTRAPOLATED = "Extrapolated"
    """Jobs of the class ran at other widths or on other GPU types."""
    PRIOR = "Prior"
    """No running job of the class was observed. The number is a prior from other classes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of the throughput at one width, the number of reports, and the throughput's 90 % interval."""

    source: CurveSource
    reports: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Throughput on one GPU type. All curves of a profile have the same unit.

    ``origins``: for a learned curve, one for each point of its table; empty for a declared curve.
    """

    gpu_type: str
    form: ThroughputTable | Amdahl | PowerLaw
    origins: tuple[Origin, ...] = ()

    @property
    def learned(self) -> Sequence[tuple[int, float, Origin]]:
        """The points of a learned curve: number of GPUs, throughput, origin. Empty for a declared curve."""
        if not self.origins or not isinstance(self.form, ThroughputTable):
            return ()
        return [(*point, origin) for point, origin in zip(self.form.points, self.origins, strict=True)]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a job's life with its own curves, because training tolerates larger batches later.

    ``until``: the fraction of the job's work at which the phase ends; 1 for the last phase. Throughput is work per
    second, in the same unit for all phases and GPU types.
    """

    until: float
    curves: tuple[SpeedCurve, ...]


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """The batch sizes, in samples, that a class of jobs may train with.

    ``own``: the total batch size (B₀) of its recipe. ``largest``: the largest total batch size. ``largest_per_gpu``:
    the most samples that fit on one GPU; larger batches are accumulated over several passes. ``smallest_per_gpu``: the
    fewest samples for one GPU. ValueError for an empty range.
    """

    own: int
    largest: int
    largest_per_gpu: int
    smallest_per_gpu: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.own <= self.largest:
            raise ValueError(f"own batch {self.own} must lie between 1 and the largest total batch {self.largest}")
        if not 1 <= self.smallest_per_gpu <= self.largest_per_gpu:
            raise ValueError(
                f"smallest batch per GPU {self.smallest_per_gpu} must lie between 1 and the largest batch per GPU "
                f"{self.largest_per_gpu}"
            )


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about the model of a class, from which its speed is estimated before a job has run.

    ``family``: any word that classes of similar models share; empty for none. ``flops_per_sample``: floating-point
    operations of a training step (forward and backward) for one sample. ``parameters``: number of trained parameters.
    """

    family: str = ""
    flops_per_sample: float | None = None
    parameters: float | None = None


NO_FACTS = ModelFacts()
TRIAL_STEP = 2
"""Largest ratio of the width of a trial to the widest width that a learned class has run on. The limit bounds the money
at risk in a trial."""
FAILURES_KEPT_SECONDS = 30 * 86_400.0
"""Seconds for which a failed width is remembered: a month, after which a class's code, images and data have changed."""


@dataclass(frozen=True, slots=True)
class FailedWidth:
    """A width that was never measured and on which ``failures`` runs failed, the last one ``at`` with ``message``."""

    gpu_type: str
    gpus: int
    failures: int
    at: Instant
    message: str


MOST_PAIRS = 64
"""Maximum number of pairs (other class, shared GPU type) for which a class's speed is remembered. The oldest are
dropped."""


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """The fraction ``kept`` of its speed that a class had beside the class ``beside`` on a shared GPU of a type.

    ``reports``: the number of reports behind the fraction.
    """

    gpu_type: str
    beside: ClassId
    kept: float
    reports: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A SpeedupProfile. Work is in seconds of the reference option: the smallest width of the first phase's first
    curve.

    ``phases``: at least one phase, in order. They are the learned phases if there are any; otherwise, one phase with
    the declared curves, of which there may be none. ``declared``: the curves of the spec. ``reports``: the number of
    reports from which the phases were learned; 0 for declared phases. ``failed``: widths on which runs failed.
    ``unreadable``: the error in the learned fields of the status; empty without an error.

    ``mean_work``, ``arrivals_per_hour``: the declared values; if None, they are estimated from known jobs.
    ``claims_work``, ``claims_arrivals``: whether a user declares ``mean_work`` and ``arrivals_per_hour``. Declared
    values count only as far as observed jobs confirm them. ``batch``: the batch sizes that the spec allows; None if
    every job keeps its own.
    ``restart_seconds``: seconds from stopping one run until the next one trains, without node start-up.
    ``checkpoint_seconds``: seconds to write a checkpoint; None if unknown. ``model``: facts that the owner declares
    about it. ``resize_seconds``: the pause of training when a run is resized in place. ``budget``: the budget that
    pays for the jobs of the profile's namespace; None if no budget selects the namespace. ``samples``: samples in one
    unit of its throughputs, by which variants are compared. For learned curves, this is the own batch size; declared
    curves are assumed to be in samples. ``pairs``: its speeds beside other classes on shared GPUs.
    """

    id: ClassId
    generation: int
    phases: tuple[Phase, ...]
    mean_work: float | None
    arrivals_per_hour: float | None
    restart_seconds: float
    budget: BudgetId | None = None
    declared: tuple[SpeedCurve, ...] = ()
    batch: BatchTerms | None = None
    reports: int = 0
    failed: tuple[FailedWidth, ...] = ()
    unreadable: str = ""
    resize_seconds: float = 0.0
    claims_arrivals: bool = False
    claims_work: bool = False
    checkpoint_seconds: float | None = None
    model: ModelFacts = NO_FACTS
    samples: float = 1.0
    pairs: tuple[PairSpeed, ...] = ()

    @property
    def unproven(self) -> bool:
        """Whether its curves are only priors from other classes, because none of its jobs has reported yet."""
        return not self.reports and any(curve.origins for phase in self.phases for curve in phase.curves)

    @property
    def widest(self) -> int:
        """The largest number of GPUs in any table; 1024 if a curve is a formula."""
        curves = [curve for phase in self.phases for curve in phase.curves]
        lasts = [form.points[-1][0] for curve in curves if isinstance(form := curve.form, ThroughputTable)]
        return max(lasts, default=1) if len(lasts) == len(curves) else _UNBOUNDED
