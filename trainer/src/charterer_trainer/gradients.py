"""Gradient noise from squared norms that training has at hand: without bias, sampled, in the convention of reports.

The gradient of a batch of b samples is g plus noise of variance V/b, V being that of one sample's gradient, summed over
the parameters. So E|g_b|² = |g|² + V/b, and two batch sizes give both (McCandlish et al. 2018, appendix A.1):

    |g|² = (B·|g_B|² − b·|g_b|²) / (B − b)        V = (|g_b|² − |g_B|²) / (1/b − 1/B)

Either estimate is without bias, and in one step mostly noise: their means count, signs included.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from charterer_trainer.measuring import gradient

EVERY = 20
"""Steps of which one is measured at most: a squared norm is one pass over the gradients."""
SHARE = 0.003
"""The part of training's time that measuring takes: with the calls and posts of each step below 0.5 % of 100 ms."""
_LONGEST = 1_000_000


class Interval:
    """Which steps to measure: one of ``least``, and fewer where that would take more than ``share`` of the time.

    After a step that was measured, call ``took`` with the seconds that this cost, ``wanted``, and ``next_after`` with
    what it answered, or with the most that any rank was answered: all ranks have to measure the same steps.
    ``clock``: seconds.
    """

    def __init__(self, least: int, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._least = least
        self._share = share
        self._clock = clock
        self._next = 0
        self._seconds = 0.0
        self._last: tuple[int, float] | None = None

    def due(self, step: int) -> bool:
        """Whether this step is one to measure."""
        return step >= self._next

    def took(self, seconds: float) -> None:
        """Measuring has taken that long, in one step perhaps several times."""
        self._seconds += seconds

    def wanted(self, step: int) -> int:
        """Steps from this measured one to the next: by the last cost, and the mean step since this was last asked."""
        last, self._last = self._last, (step, self._clock())
        seconds, self._seconds = self._seconds, 0.0
        if last is None or step <= last[0]:
            return self._least
        allowed = self._share * (self._last[1] - last[1]) / (step - last[0])
        if seconds >= allowed * _LONGEST:
            return _LONGEST
        return max(self._least, math.ceil(seconds / allowed))

    def next_after(self, step: int, steps: int) -> None:
        """The next one is ``steps`` after ``step``."""
        self._next = step + steps


def estimate(small: float, small_batch: float, large: float, large_batch: float) -> tuple[float, float]:
    """|g|² and V from squared norms of the gradients of ``small_batch`` and of ``large_batch`` samples.

    The small batch may be a part of the large one; ``small`` may be the mean over several batches of that size.
    ValueError unless ``large_batch`` is the larger of the two.
    """
    if not 0 < small_batch < large_batch:
        raise ValueError(f"a batch of {large_batch} samples is no larger than one of {small_batch}")
    sqr = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    return sqr, (small - large) / (1.0 / small_batch - 1.0 / large_batch)


class GradientNoise:
    """Measures every ``every``-th step and reports it, as |g|² and the variance V/``own_batch``.

    ``own_batch``: the class's own batch size in samples, for which its learning rate was chosen, whatever the run uses
    now. ``share``: of training's time that measuring may take; ``charterer_trainer.pytorch`` measures its cost, and
    fewer steps where it would be more. ``sqr`` and ``var`` are the means of this run so far.
    """

    def __init__(self, own_batch: int, every: int = EVERY, share: float = SHARE) -> None:
        if own_batch < 1 or every < 1 or not share > 0.0:
            raise ValueError(f"own_batch {own_batch} and every {every} must be at least 1, and share {share} above 0")
        self.own_batch = own_batch
        self.every = every
        self.share = share
        self.measured = 0
        self.sqr = 0.0
        self.var = 0.0

    def due(self, step: int) -> bool:
        """Whether this step is one to measure, for a script that measures: the same on all ranks."""
        return step % self.every == 0

    def add(self, small: float, small_batch: float, large: float, large_batch: float) -> None:
        """A step's squared norms; see ``estimate``. Gradients that exploded are left out."""
        sqr, variance = estimate(float(small), small_batch, float(large), large_batch)
        var = variance / self.own_batch
        if not abs(sqr) + abs(var) < 1e30:  # nor where it is no number
            return
        self.measured += 1
        self.sqr += (sqr - self.sqr) / self.measured
        self.var += (var - self.var) / self.measured
        gradient(sqr, var)

    def add_parts(self, parts: Sequence[float], large: float, batch: int) -> None:
        """A step of ``batch`` samples in equal parts (ranks, or passes): their squared norms, and that of their mean.

        For JAX, numpy and whatever has each part's gradient. ValueError with less than two parts.
        """
        self.add(sum(map(float, parts)) / max(1, len(parts)), batch / max(1, len(parts)), large, batch)

    def gain(self, batch: float) -> float:
        """Progress of a step of ``batch`` samples in steps of the own batch, between 1 and their ratio; 1 until known.

        (φ + 1)/(φ/s + 1) with φ = var/|g|² and s = batch/own_batch (Pollux, OSDI'21, equation 6). AdaScale (Johnson et
        al. 2020) multiplies the learning rate of SGD by it; for Adam the square root of s is usual.
        """
        scale = batch / self.own_batch
        if not self.measured or self.var <= 0.0:
            return 1.0
        if self.sqr <= 0.0:
            return scale
        noise = self.var / self.sqr
        return (noise + 1.0) / (noise / scale + 1.0)
