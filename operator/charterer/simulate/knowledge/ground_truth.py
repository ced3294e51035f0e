"""What training really does, which a planner only sees by its reports.

An application goes through epochs. On k GPUs with a total batch size B it makes statistical progress at

    throughput(k, B) · efficiency(B, epoch)

so each epoch takes a time that depends on width and batch size. All progress here is the part of the whole job done.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TrainerMeasurement:
    """What a trainer measures of itself: seconds a step, squared norm and variance of the gradient (Pollux, §3.1)."""

    batch: int
    step_seconds: float
    grad_sqr: float
    grad_var: float


class Measured(Protocol):
    """What was measured of an application at every width and total batch size."""

    @property
    def own_batch(self) -> int:
        """B₀: the total batch size that its recipe was written for, the smallest one."""

    @property
    def largest_batch(self) -> int:
        """The largest total batch size."""

    @property
    def largest_local(self) -> int:
        """The largest batch that fits a GPU; more is accumulated over several passes."""

    @property
    def smallest_local(self) -> int:
        """The smallest batch of a GPU."""

    @property
    def work(self) -> float:
        """Statistical progress of the whole job, in steps at the own batch size."""

    def reading(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        """What a trainer would measure with that batch size, rounded to what its GPUs can do; None if they cannot."""

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """Part of the whole job a second with that batch size; None where it cannot run so."""


@dataclass(frozen=True, slots=True)
class OneBatch:
    """``Measured`` of an application with a single batch size, of which only the speed is known.

    ``rates`` as of the Application; ``work``: in how many steps the whole job is done.
    """

    rates: Sequence[Mapping[int, float]]
    work: float
    own_batch: int = 1 << 16
    largest_batch: int = 1 << 16
    largest_local: int = 1 << 16
    smallest_local: int = 1

    def reading(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        """Seconds a step; of gradients nothing that matters with one batch size."""
        rate = self.rates[epoch].get(gpus)
        return TrainerMeasurement(self.own_batch, 1.0 / (self.work * rate), 1.0, 1.0) if rate else None

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """That of the width."""
        return self.rates[epoch].get(gpus)


class WidthRates:
    """Training on one width with one batch size: how long it takes. ``rates``: part of the whole job a second by epoch.

    ``ends[e]`` is the part done at the end of epoch e.
    """

    __slots__ = ("_ends", "_last", "_minus", "_rates", "_until_end")

    def __init__(self, ends: Sequence[float], rates: Sequence[float]) -> None:
        times = [(end - begin) / rate for begin, end, rate in zip((0.0, *ends), ends, rates, strict=False)]
        self._ends = ends
        self._last = len(ends) - 1
        self._rates = rates
        self._until_end = [*list(accumulate(reversed(times)))[::-1], 0.0]
        self._minus = [-seconds for seconds in self._until_end]

    def seconds_left(self, done: float) -> float:
        """Seconds to the end, once the part ``done`` is done."""
        epoch = bisect_right(self._ends, done, 0, self._last)
        return (self._ends[epoch] - done) / self._rates[epoch] + self._until_end[epoch + 1]

    def after(self, done: float, seconds: float) -> float:
        """The part done ``seconds`` later; 1 at the end."""
        epoch = bisect_right(self._ends, done, 0, self._last)
        left = (self._ends[epoch] - done) / self._rates[epoch] + self._until_end[epoch + 1] - seconds
        if left <= 0.0:
            return 1.0
        epoch = bisect_right(self._minus, -left, epoch + 1) - 1  # the first epoch at whose end less than that is left
        return self._ends[epoch] - (left - self._until_end[epoch + 1]) * self._rates[epoch]

    def before(self, done: float, seconds: float) -> float:
        """The part done ``seconds`` earlier; 0 at the beginning."""
        left, whole = self.seconds_left(done) + seconds, self._until_end[0]
        return 0.0 if left >= whole else self.after(0.0, whole - left)


@dataclass(frozen=True)
class Application:
    """A training application. ``rates[e][k]``: part of the whole job a second in epoch e on k GPUs, at its best batch.

    ``ends[e]`` is the part done at the end of epoch e (the last one's is 1). Widths that are missing cannot run it.
    ``measured`` knows other batch sizes than the best one; None where batch sizes do not matter.
    """

    name: str
    ends: Sequence[float]
    rates: Sequence[Mapping[int, float]]
    measured: Measured | None = None
    _paces: dict[tuple[int, int], WidthRates] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Numbers of GPUs on which it can run, ascending."""
        return tuple(sorted(self.rates[0]))

    def pace(self, gpus: int, batch: int = 0) -> WidthRates:
        """On so many GPUs with that total batch size (0: each epoch at its best); ValueError where it cannot run so."""
        found = self._paces.get((gpus, batch))
        if found is None:
            rates = [rates[gpus] for rates in self.rates if gpus in rates] if not batch else self._rates_at(gpus, batch)
            if len(rates) < len(self.ends):
                how = f"batch size {batch} was not measured on" if batch else "it cannot run on"
                raise ValueError(f"{self.name}: {how} {gpus} GPUs")
            found = self._paces[gpus, batch] = WidthRates(self.ends, rates)
        return found

    def epoch(self, done: float) -> int:
        """The epoch in which a job is of which the part ``done`` is done."""
        return bisect_right(self.ends, done, 0, len(self.ends) - 1)

    def seconds_left(self, done: float, gpus: int) -> float:
        """Seconds to the end on that many GPUs, each epoch at its best batch size."""
        return self.pace(gpus).seconds_left(done)

    def _rates_at(self, gpus: int, batch: int) -> list[float]:
        """By epoch; fewer where it cannot run so."""
        measured = self.measured
        epochs = () if measured is None else (measured.rate(epoch, gpus, batch) for epoch in range(len(self.ends)))
        return [rate for rate in epochs if rate is not None]


def timed(application: Application, work: float) -> Application:
    """The application with a batch size, so that it reports seconds a step: the whole job is so many steps."""
    return Application(application.name, application.ends, application.rates, OneBatch(application.rates, work))


def from_speeds(name: str, seconds: Mapping[int, float], widths: Iterable[int] | None = None) -> Application:
    """An application of a single epoch that takes so many seconds by its number of GPUs.

    ``widths``: those on which it can run (absent: those that are given); between given ones its speed is linear, and
    beyond them it cannot run.
    """
    given = sorted(seconds)
    rates: dict[int, float] = {}
    for width in given if widths is None else sorted(widths):
        at = bisect_left(given, width)
        if at < len(given) and given[at] == width:
            rates[width] = 1.0 / seconds[width]
        elif 0 < at < len(given):
            low, high = given[at - 1], given[at]
            part = (width - low) / (high - low)
            rates[width] = (1.0 - part) / seconds[low] + part / seconds[high]
    return Application(name, (1.0,), (rates,))
