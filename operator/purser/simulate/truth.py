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
class Reading:
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

    def reading(self, epoch: int, gpus: int, batch: int) -> Reading | None:
        """What a trainer would measure with that batch size, rounded to what its GPUs can do; None if they cannot."""

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """Part of the whole job a second with that batch size; None where it cannot run so."""


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
    _at_batch: dict[tuple[int, int], Application] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Numbers of GPUs on which it can run, ascending."""
        return tuple(sorted(self.rates[0]))

    @cached_property
    def _until_end(self) -> Mapping[int, Sequence[float]]:
        """By width: seconds from the beginning of each epoch to the end of the job."""
        spans = [end - begin for begin, end in zip((0.0, *self.ends), self.ends, strict=False)]
        found = {}
        for width in self.widths:
            times = [span / rates[width] for span, rates in zip(spans, self.rates, strict=True)]
            found[width] = [*list(accumulate(reversed(times)))[::-1], 0.0]
        return found

    def at_batch(self, gpus: int, batch: int) -> Application:
        """The application on that many GPUs with that total batch size; ValueError where it cannot run so."""
        found = self._at_batch.get((gpus, batch))
        if found is None:
            rates = [
                {gpus: rate}
                for epoch in range(len(self.ends))
                if self.measured is not None and (rate := self.measured.rate(epoch, gpus, batch)) is not None
            ]
            if len(rates) < len(self.ends):
                raise ValueError(f"{self.name}: batch size {batch} was not measured on {gpus} GPUs")
            found = self._at_batch[gpus, batch] = Application(self.name, self.ends, rates, self.measured)
        return found

    def epoch(self, done: float) -> int:
        """The epoch in which a job is of which the part ``done`` is done."""
        return min(bisect_right(self.ends, done), len(self.ends) - 1)

    def seconds_left(self, done: float, gpus: int) -> float:
        """Seconds to the end on that many GPUs, each epoch at its best batch size."""
        epoch = self.epoch(done)
        return (self.ends[epoch] - done) / self.rates[epoch][gpus] + self._until_end[gpus][epoch + 1]

    def after(self, done: float, gpus: int, seconds: float) -> float:
        """The part done ``seconds`` later on that many GPUs; 1 at the end."""
        left = self.seconds_left(done, gpus) - seconds
        if left <= 0.0:
            return 1.0
        until_end = self._until_end[gpus]
        low, high = self.epoch(done), len(self.ends) - 1
        while low < high:  # the first epoch whose end is not yet reached
            middle = (low + high) // 2
            if until_end[middle + 1] < left:
                high = middle
            else:
                low = middle + 1
        return self.ends[low] - (left - until_end[low + 1]) * self.rates[low][gpus]

    def before(self, done: float, gpus: int, seconds: float) -> float:
        """The part done ``seconds`` earlier on that many GPUs; 0 at the beginning."""
        left = self.seconds_left(done, gpus) + seconds
        return 0.0 if left >= self._until_end[gpus][0] else self.after(0.0, gpus, self._until_end[gpus][0] - left)


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
