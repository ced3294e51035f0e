"""How often jobs of a class come, how much work they are, and how much is left of one that has already had so much.

Arrivals are a Poisson process whose rate drifts: a Gamma posterior of which old evidence fades, and which fades faster
once the last day contradicts it. Sizes keep the latest jobs; beyond the data a Pareto-like tail is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import NormalDist

from purser.domain.time import Instant, seconds_between

DAY = 86_400.0
SLOW_HALF_LIFE = 7 * DAY
"""A week: the shortest time that holds a whole cycle of work days and week ends."""
FAST_HALF_LIFE = DAY
"""A day: the shortest time that holds a whole cycle of hours."""
CONTRADICTED = 0.999
"""The slow estimate is given up where it lies outside the fast one's interval of this probability."""
CHECKED_MICROS = 6 * 3_600 * 1_000_000
"""That is judged so often: at every arrival, chance would contradict a steady rate every few days."""
PRIOR_JOBS = 1.0
"""Before its first week a class is worth one job at the rate of the other classes."""
PRIOR_SECONDS_PER_JOB = DAY
"""Rate before any class was seen: a job a day."""
KEPT_SIZES = 200
"""Sizes of so many latest jobs: their mean is then known to about the 10 % that heavy tails allow."""
SIZE_HALF_LIFE = 50.0
"""A job counts half after so many more of its class, so that jobs that became larger are followed."""
PRIOR_WORK = 14_400.0
"""Own-batch steps of a job before any was completed: four hours of steps of a second."""
PRIOR_SIZES = 1.0
"""The tail that is assumed is worth one job."""
SIZE_SPREAD = 1.5
"""Standard deviation of log sizes before some were seen: sizes of training jobs range over orders of magnitude."""
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 90 % interval, and how many observations it rests on (old ones count for less)."""

    value: float
    low: float
    high: float
    count: float


def gamma_quantile(shape: float, probability: float) -> float:
    """Quantile of a Gamma distribution of unit scale (Wilson and Hilferty 1931; a few percent off for shape >= 1)."""
    ninth = 1.0 / (9.0 * shape)
    return shape * max(1.0 - ninth + NormalDist().inv_cdf(probability) * sqrt(ninth), 0.0) ** 3


@dataclass(slots=True)
class _Counter:
    """Arrivals and seconds watched, both fading with a half life."""

    half_life: float
    jobs: float = 0.0
    seconds: float = 0.0

    def age(self, seconds: float) -> None:
        keep = 0.5 ** (seconds / self.half_life)
        self.jobs *= keep
        self.seconds = self.seconds * keep + (1.0 - keep) * self.half_life / log(2.0)

    def interval(self, per_job: float, covered: float) -> Interval:
        """Rate per second; the prior is ``PRIOR_JOBS`` jobs, one every ``per_job`` seconds.

        Classes' rates differ by orders of magnitude, so the time that the prior's jobs took is itself drawn, in the
        logarithm, to what the class has shown: else a day without a job would weigh on one that comes every minute.
        """
        if self.jobs and self.seconds:
            shown = self.jobs / (PRIOR_JOBS + self.jobs)
            per_job = exp((1.0 - shown) * log(per_job) + shown * log(self.seconds / self.jobs))
        shape, seconds = PRIOR_JOBS + self.jobs, PRIOR_JOBS * per_job + self.seconds
        tail = (1.0 - covered) / 2.0
        low, high = gamma_quantile(shape, tail), gamma_quantile(shape, 1.0 - tail)
        return Interval(shape / seconds, low / seconds, high / seconds, self.jobs)


@dataclass(slots=True)
class Arrivals:
    """The arrivals of one class since ``at``, when it was first watched."""

    at: Instant
    slow: _Counter = field(default_factory=lambda: _Counter(SLOW_HALF_LIFE))
    fast: _Counter = field(default_factory=lambda: _Counter(FAST_HALF_LIFE))

    def arrived(self, at: Instant) -> None:
        """One more job; one that is told late counts as of the latest."""
        self.watched(at)
        self.slow.jobs += 1.0
        self.fast.jobs += 1.0

    def watched(self, until: Instant) -> None:
        """Time has passed; where the last day contradicts the past, the past is dropped."""
        passed = seconds_between(self.at, until)
        if passed <= 0.0:
            return
        self.slow.age(passed)
        self.fast.age(passed)
        due = self.at // CHECKED_MICROS != until // CHECKED_MICROS
        self.at = until
        if due and self.slow.seconds > self.fast.seconds:
            per_job = self.slow.seconds / (PRIOR_JOBS + self.slow.jobs)
            recent = self.fast.interval(per_job, CONTRADICTED)
            if not recent.low <= self.slow.jobs / self.slow.seconds <= recent.high:
                self.slow.jobs, self.slow.seconds = self.fast.jobs, self.fast.seconds

    def per_hour(self, now: Instant, seconds_per_job: float = PRIOR_SECONDS_PER_JOB) -> Interval:
        """Jobs an hour as of ``now``; ``seconds_per_job`` is what the other classes suggest."""
        self.watched(now)
        found = self.slow.interval(seconds_per_job, _COVERED)
        return Interval(found.value * 3600.0, found.low * 3600.0, found.high * 3600.0, found.count)


@dataclass(slots=True)
class Sizes:
    """The latest jobs' work, oldest first."""

    latest: list[float] = field(default_factory=list)

    def completed(self, work: float) -> None:
        """One more job. ValueError unless its work is above 0."""
        if not 0.0 < work < float("inf"):
            raise ValueError(f"work {work!r} of a completed job must be finite and above 0")
        self.latest.append(work)
        if len(self.latest) > KEPT_SIZES:
            del self.latest[0]

    def _weighted(self) -> Iterable[tuple[float, float]]:
        last = len(self.latest) - 1
        return ((work, 0.5 ** ((last - at) / SIZE_HALF_LIFE)) for at, work in enumerate(self.latest))

    def _pseudo(self, prior: float) -> float:
        """Work of the pseudo-job: classes differ by orders of magnitude, so it is soon about the class's own jobs'."""
        count = total = 0.0
        for work, part in self._weighted():
            count += part
            total += part * work
        if not count:
            return prior
        shown = count / (PRIOR_SIZES + count)
        return exp((1.0 - shown) * log(prior) + shown * log(total / count))

    def mean(self, prior: float) -> Interval:
        """Mean work of a job; ``prior``: what other classes suggest. The interval is normal in the logarithm."""
        weight, total = PRIOR_SIZES, PRIOR_SIZES * self._pseudo(prior)
        logs = spread = 0.0
        for work, part in self._weighted():
            weight += part
            total += part * work
            logs += part * log(work)
        count = weight - PRIOR_SIZES
        middle = logs / count if count else log(prior)
        for work, part in self._weighted():
            spread += part * (log(work) - middle) ** 2
        spread = (2.0 * PRIOR_SIZES * SIZE_SPREAD**2 + spread) / (2.0 * PRIOR_SIZES + count)
        value = total / weight
        # the mean of a lognormal is off by sqrt(v + v²/2) / sqrt(n) in its logarithm (Cox's method)
        off = NormalDist().inv_cdf((1.0 + _COVERED) / 2.0) * sqrt((spread + spread * spread / 2.0) / weight)
        return Interval(value, value * exp(-off), value * exp(off), count)

    def remaining(self, age: float, prior: float) -> float:
        """Expected work left of a job of unknown size that has had ``age`` (mean residual life).

        The mean over the jobs that were larger, with one pseudo-job of a Lomax tail of index 2, whose mean residual
        life is its mean + age: a job older than all before has as much ahead as behind, and a mean more.
        """
        weight, total = PRIOR_SIZES, PRIOR_SIZES * (self._pseudo(prior) + age)
        for work, part in self._weighted():
            if work > age:
                weight += part
                total += part * (work - age)
        return total / weight
