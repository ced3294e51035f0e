"""Gradient noise, estimated without bias from squared norms of the gradients of some steps, in the units of reports.

The gradient of a batch of b samples is g plus noise of variance V/b. V is the variance of one sample's gradient, summed
over the parameters. So E|g_b|² = |g|² + V/b, and two batch sizes give both (McCandlish et al. 2018, appendix A.1):

    |g|² = (B·|g_B|² − b·|g_b|²) / (B − b)        V = (|g_b|² − |g_B|²) / (1/b − 1/B)

Both estimates are unbiased, but the estimates of a single step are mostly noise. So their means over steps are used,
including their signs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from charterer_trainer.measuring import gradient

EVERY = 20
"""At most one in this many steps is measured, because a squared norm costs one pass over the gradients."""
SHARE = 0.003
"""Fraction of the training time that may be spent on measuring. With steps of 100 ms, measuring, calls and posts
together cost less than 0.5 % of the time.
"""
_LONGEST = 1_000_000


class Interval:
    """Selects the steps to measure: one in ``least``, and fewer if measuring would take more than ``share`` of the
    time.

    After a measured step, call ``took`` with the seconds of the measurement, then ``wanted``, then ``next_after`` with
    the result of ``wanted``. If there are several ranks, pass the maximum of their results, because all ranks must
    measure the same steps. ``clock`` returns seconds.
    """

    def __init__(self, least: int, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._least = least
        self._share = share
        self._clock = clock
        self._next = 0
        self._seconds = 0.0
        self._last: tuple[int, float] | None = None

    def due(self, step: int) -> bool:
        """Whether to measure this step."""
        return step >= self._next

    def took(self, seconds: float) -> None:
        """Add the seconds of a measurement. A step may have several measurements."""
        self._seconds += seconds

    def wanted(self, step: int) -> int:
        """Number of steps from this measured step to the next one.

        The number is computed from the cost of the last measurement and the mean step time since the last call.
        """
        last, self._last = self._last, (step, self._clock())
        seconds, self._seconds = self._seconds, 0.0
        if last is None or step <= last[0]:
            return self._least
        allowed = self._share * (self._last[1] - last[1]) / (step - last[0])
        if seconds >= allowed * _LONGEST:
            return _LONGEST
        return max(self._least, math.ceil(seconds / allowed))

    def next_after(self, step: int, steps: int) -> None:
        """Set the next step to measure, ``steps`` after ``step``."""
        self._next = step + steps


def estimate(small: float, small_batch: float, large: float, large_batch: float) -> tuple[float, float]:
    """|g|² and V from squared norms of the gradients of ``small_batch`` and of ``large_batch`` samples.

    The small batch may be a part of the large one. ``small`` may be the mean over several batches of that size. Raises
    ValueError unless ``large_batch`` is larger than ``small_batch``.
    """
    if not 0 < small_batch < large_batch:
        raise ValueError(f"a batch of {large_batch} samples is no larger than one of {small_batch}")
    sqr = (large_batch * large - small_batch * small) / (large_batch - small_batch)
    return sqr, (small - large) / (1.0 / small_batch - 1.0 / large_batch)


class GradientNoise:
    """Measures one in ``every`` steps and reports |g|² and the variance V/``own_batch``.

    ``own_batch`` is the class's own batch size in samples, for which its learning rate was chosen, even if the run uses
    another batch size. ``share`` is the fraction of training time for measuring. ``charterer_trainer.pytorch`` measures
    the cost of measuring, and measures fewer steps if the cost would exceed the share. ``sqr`` and ``var`` are the
    means of this run so far.
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
        """Whether a script that measures by itself should measure this step. The answer is the same on all ranks."""
        return step % self.every == 0

    def add(self, small: float, small_batch: float, large: float, large_batch: float) -> None:
        """Add the squared norms of a step (see ``estimate``). Values of an exploded gradient are ignored."""
        sqr, variance = estimate(float(small), small_batch, float(large), large_batch)
        var = variance / self.own_batch
        if not abs(sqr) + abs(var) < 1e30:  # also ignores NaN
            return
        self.measured += 1
        self.sqr += (sqr - self.sqr) / self.measured
        self.var += (var - self.var) / self.measured
        gradient(sqr, var)

    def add_parts(self, parts: Sequence[float], large: float, batch: int) -> None:
        """Add the squared norms of a step's equal parts (ranks or passes), and ``large``, the squared norm of the
        parts' mean.

        ``batch``: samples of the step. This method is for JAX, numpy and other code that has each part's gradient.
        Raises ValueError with fewer than two parts.
        """
        self.add(sum(map(float, parts)) / max(1, len(parts)), batch / max(1, len(parts)), large, batch)

    def gain(self, batch: float) -> float:
        """Progress of a step of ``batch`` samples, in steps of the own batch size. It is between 1 and the ratio of the
        two sizes, and 1 until the noise is known.

        (φ + 1)/(φ/s + 1) with φ = var/|g|² and s = batch/own_batch (Pollux, OSDI'21, equation 6). AdaScale (Johnson et
        al. 2020) multiplies the learning rate of SGD by this gain. For Adam the square root of s is usual.
        """
        scale = batch / self.own_batch
        if not self.measured or self.var <= 0.0:
            return 1.0
        if self.sqr <= 0.0:
            return scale
        noise = self.var / self.sqr
        return (noise + 1.0) / (noise / scale + 1.0)
