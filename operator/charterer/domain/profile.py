"""A class of jobs: how its speed grows with the number of GPUs, how much work a job is, how often one arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import BudgetId, ClassId
from charterer.domain.time import Instant

_UNBOUNDED = 1024
"""Widest width, in GPUs, of a curve given by a formula."""


@dataclass(frozen=True, slots=True)
class ThroughputTable:
    """Measured throughput by number of GPUs, ascending. Linear between the points, undefined beyond them."""

    points: tuple[tuple[int, float], ...]


DEFAULT_RESTART_SECONDS = 30.0
"""Seconds from stopping a run to training on in the next, where nobody says and no run was seen to restart."""


@dataclass(frozen=True, slots=True)
class Amdahl:
    """throughput(k) = value / ((1 - p) + p / k) with p the parallel fraction and value the throughput of one GPU."""

    parallel_fraction: float
    value: float


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """throughput(k) = value * k ** exponent, with value the throughput of one GPU."""

    exponent: float
    value: float


class CurveSource(StrEnum):
    """Where a learned number comes from."""

    MEASURED = "Measured"
    """Jobs of the class ran at this width on this GPU type."""
    DECLARED = "Declared"
    """The profile's declared curve says more about this width than what was measured at others."""
    EXTRAPOLATED = "Extrapolated"
    """Jobs of the class ran at other widths or on other GPU types."""
    PRIOR = "Prior"
    """No job of the class was seen running: the value is what other classes have in common."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the throughput of one width comes from, the number of reports, and its 90 % interval."""

    source: CurveSource
    reports: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Throughput on one GPU type; values of all curves of a profile are in the same unit.

    ``origins``: of a learned curve, one for each point of its table; empty for a declared one.
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

    It ends when the fraction ``until`` of the job's work is done (1 for the last phase). Throughput is work per
    second, in one unit for all phases and GPU types.
    """

    until: float
    curves: tuple[SpeedCurve, ...]


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """The batch sizes, in samples, that a class of jobs may train with.

    ``own``: the total batch size (B₀) that its recipe was written for; ``largest``: the largest total batch size;
    ``largest_per_gpu``: the most samples that fit one GPU, larger numbers are accumulated over several passes;
    ``smallest_per_gpu``: the fewest that a GPU is given. ValueError for an empty range.
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
    """What the owner of a class says of its model, so that something is known of its speed before a job ran.

    ``family``: any word that classes of alike models share; empty for none. ``flops_per_sample``: floating-point
    operations of a training step (forward and backward) for one sample. ``parameters``: number of trained parameters.
    """

    family: str = ""
    flops_per_sample: float | None = None
    parameters: float | None = None


NO_FACTS = ModelFacts()
TRIAL_STEP = 2
"""Largest ratio between a width that a learned class is tried on and the widest that it has run on, so that the money
at risk in a trial grows by a known factor."""
FAILURES_KEPT_SECONDS = 30 * 86_400.0
"""Seconds a failed width is remembered: a month, by when a class's code, images and data have changed."""


@dataclass(frozen=True, slots=True)
class FailedWidth:
    """A width that was never measured and on which ``failures`` runs failed, the last ``at`` with ``message``."""

    gpu_type: str
    gpus: int
    failures: int
    at: Instant
    message: str


MOST_PAIRS = 64
"""Classes and types of shared GPUs beside which a class's speed is remembered; the least recent are forgotten."""


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """The part ``kept`` of its speed alone that a class had beside another one, on shared GPUs of a type.

    ``reports``: how many say so.
    """

    gpu_type: str
    beside: ClassId
    kept: float
    reports: int


@dataclass(frozen=True, slots=True)
class Profile:
    """A SpeedupProfile. Work is measured in seconds of the reference option: the smallest width of the first phase's
    first curve.

    ``phases``: at least one, in order. They are the learned ones; without any, one phase with the declared curves,
    which may be none. ``declared``: the curves of the spec. ``reports``: how many the phases were learned from; 0 for
    declared ones. ``failed``: widths on which runs failed. ``unreadable``: what is wrong with the learned fields of the
    status; empty if nothing is.

    ``mean_work`` and ``arrivals_per_hour`` are the declared ones; None: they are estimated from the jobs that are
    known. ``claims_work``, ``claims_arrivals``: whether a user declares them, so that they count only as far as jobs
    bear them out. ``batch``: the batch sizes that the spec allows; None: every job keeps its own.
    ``restart_seconds``: from stopping one run to training in the next, node start-up not included.
    ``checkpoint_seconds``: to write a checkpoint; None where nobody knows. ``model``: what the owner says of it.
    ``resize_seconds``: pause in the training of a run that is resized in place. ``budget`` pays for the jobs of the
    profile's namespace; None if no budget selects it. ``samples``: in a unit of its throughputs, so that those of
    variants compare: the own batch size of learned curves; declared ones are taken to be in samples. ``pairs``: what it
    kept beside others on shared GPUs.
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
        """Whether its curves are only what other classes have in common: no job of it reported yet."""
        return not self.reports and any(curve.origins for phase in self.phases for curve in phase.curves)

    @property
    def widest(self) -> int:
        """The largest number of GPUs that a table has a point for; 1024 if a curve is a formula."""
        curves = [curve for phase in self.phases for curve in phase.curves]
        lasts = [form.points[-1][0] for curve in curves if isinstance(form := curve.form, ThroughputTable)]
        return max(lasts, default=1) if len(lasts) == len(curves) else _UNBOUNDED
