"""All statistics of one class, and the results that were last derived from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from charterer.domain.ids import ClassId
from charterer.domain.profile import NO_FACTS, BatchTerms, ModelFacts
from charterer.estimate.cells import BatchCell, StepTimes
from charterer.estimate.learned import Learned
from charterer.estimate.noise import Noise, NoiseReports

if TYPE_CHECKING:
    from charterer.estimate.learner import BatchCandidate
    from charterer.estimate.throughput import StepTimeFit


# The work of a class's jobs: a mean over its latest jobs, with an interval that allows for heavy tails.


KEPT_SIZES = 200
"""Number of latest jobs kept. With this number, the mean is known to about 10 %, the most that heavy tails allow."""
SIZE_HALF_LIFE = 50.0
"""Number of later jobs of the class after which a job counts half, so that jobs that became larger are followed."""
PRIOR_WORK = 14_400.0
"""Expected work of a job before any job was completed, in own-batch steps: four hours of steps of a second."""
PRIOR_SIZES = 1.0
"""Number of jobs that the prior from other classes counts as."""
SIZE_SPREAD = 1.5
"""Standard deviation of log sizes before some jobs were seen. Sizes of training jobs range over orders of
magnitude."""
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 90 % interval.

    ``count``: number of observations behind the estimate, of which older observations count for less.
    """

    value: float
    low: float
    high: float
    count: float


@dataclass(slots=True)
class JobSizes:
    """The latest jobs' work, oldest first."""

    latest: list[float] = field(default_factory=list)

    def completed(self, work: float) -> None:
        """Add a job. ValueError unless its work is finite and above 0."""
        if not 0.0 < work < float("inf"):
            raise ValueError(f"work {work!r} of a completed job must be finite and above 0")
        self.latest.append(work)
        if len(self.latest) > KEPT_SIZES:
            del self.latest[0]

    def _weighted(self) -> Iterable[tuple[float, float]]:
        last = len(self.latest) - 1
        return ((work, 0.5 ** ((last - at) / SIZE_HALF_LIFE)) for at, work in enumerate(self.latest))

    def _pseudo(self, prior: float) -> float:
        """Work of the prior's pseudo-job.

        The pseudo-job soon follows the class's own jobs, because classes differ by orders of magnitude.
        """
        count = total = 0.0
        for work, weight in self._weighted():
            count += weight
            total += weight * work
        if not count:
            return prior
        shown = count / (PRIOR_SIZES + count)
        return exp((1.0 - shown) * log(prior) + shown * log(total / count))

    def mean(self, prior: float) -> Interval:
        """Mean work of a job, with an interval for which the logarithm of the mean is taken to be normal.

        ``prior``: the mean work that other classes suggest.
        """
        weight, total = PRIOR_SIZES, PRIOR_SIZES * self._pseudo(prior)
        logs = spread = 0.0
        for work, counts in self._weighted():
            weight += counts
            total += counts * work
            logs += counts * log(work)
        count = weight - PRIOR_SIZES
        middle = logs / count if count else log(prior)
        for work, counts in self._weighted():
            spread += counts * (log(work) - middle) ** 2
        spread = (2.0 * PRIOR_SIZES * SIZE_SPREAD**2 + spread) / (2.0 * PRIOR_SIZES + count)
        value = total / weight
        # the mean of a lognormal is off by sqrt(v + v²/2) / sqrt(n) in its logarithm (Cox's method)
        off = NormalDist().inv_cdf((1.0 + _COVERED) / 2.0) * sqrt((spread + spread * spread / 2.0) / weight)
        return Interval(value, value * exp(-off), value * exp(off), count)


PairKey = tuple[str, ClassId]
"""The type of a shared GPU, and the class of the job beside it."""


@dataclass(slots=True)
class ClassState:
    """All statistics of one class, and results derived from them.

    The statistics are ``times`` by GPU type, ``noise``, ``sizes``, ``pairs`` and the owner's ``model``. ``pairs`` are
    about shared GPUs: beside each other class, the logarithm of the speed that the class kept, as a fraction of its
    speed alone (``learner``). The derived results are

    - the noise ``curve``, from ``curve_reports`` reports that scatter with the variance ``curve_scatter``,
    - ``curve_off``: the sum of the signed distances log φ − curve of the reports since then,
    - ``candidates`` by GPU type and width, with the fit that they belong to,
    - ``profiles`` by widths and GPU types, with the ``version`` that they belong to.

    Results that only borrow from other classes are kept with the number of their prior generation. They are the curve
    before any report, and fits of GPU types on which the class never ran.
    """

    class_id: ClassId
    terms: BatchTerms
    times: dict[str, StepTimes] = field(default_factory=dict)
    noise: NoiseReports = field(default_factory=NoiseReports)
    sizes: JobSizes = field(default_factory=JobSizes)
    model: ModelFacts = NO_FACTS
    pairs: dict[PairKey, BatchCell] = field(default_factory=dict)
    curve: tuple[Noise, ...] = ()
    curve_reports: int = 0
    curve_prior: int = 0
    curve_scatter: float = 0.0
    curve_off: float = 0.0
    borrowed: dict[str, tuple[int, StepTimeFit]] = field(default_factory=dict)
    version: int = 0
    candidates: dict[tuple[str, int], tuple[StepTimeFit, tuple[BatchCandidate, ...]]] = field(default_factory=dict)
    profiles: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[int, Learned]] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """The number of reports received."""
        return sum(times.reports for times in self.times.values())

    @property
    def best(self) -> StepTimes | None:
        """The GPU type with the most reports; None before the first report."""
        reported = (times for times in self.times.values() if times.reports)
        return max(reported, key=lambda times: times.reports, default=None)
