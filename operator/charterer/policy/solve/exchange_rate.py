"""The exchange rate θ*: where the long-run spend of all classes meets what the budget allows (dollars per second).

Each class climbs its hull as θ grows: it takes its segment k at θ = slope_k / w, so spend is a non-decreasing step
function of θ whose steps are all segments of all classes in order of slope / weight. θ* is the slope at which the sum
of the steps reaches the budget; the class of that step mixes its two corners so that the budget is met exactly.

Sorting all H segments would be O(H log H). As each class's segments are sorted already, spend at a given θ costs one
bisection a class; a few trial rates, picked from a small sample, close in on θ*, and only the segments left between
them are sorted. The answer is the same, to the last segment (docs/development/adr/0010-exchange-rate-without-numpy.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, repeat
from operator import getitem, mul, sub

from charterer.domain.ids import Rate

_FEW = 1024
"""So many segments are sorted at once, or half as many as there are classes: a trial rate takes longer than that."""
_NEAR = 3
"""Sampled segments: so close to where a sample says that θ* is, once its error is known, trial rates are picked."""
_SAMPLE = 400
_GOLDEN = 0.6180339887498949
_BEYOND = 1.0 + 1e-9


class BudgetFit(StrEnum):
    """How a budget relates to its load."""

    INFEASIBLE = "Infeasible"
    MET = "Met"
    SURPLUS = "Surplus"


@dataclass(frozen=True, slots=True)
class Demand:
    """One class as the solver sees it.

    ``slopes`` ascend, one for each step from corner to corner of the class's hull; ``spends`` (one more) is what one
    unit of ``load`` spends at each corner, non-decreasing: dollars a job with load in jobs per second, or dollars per
    second with load in jobs.
    """

    slopes: Sequence[float]
    spends: Sequence[float]
    load: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Solution:
    """``levels[i]`` is the corner of class i; class ``mixed`` takes the next one with probability ``mix``.

    ``rate`` is θ*, in dollars per second of weighted job life: 0 when even the cheapest corners exceed the budget
    (INFEASIBLE: jobs queue), and just above the last slope when the fastest corners of all leave money over
    (SURPLUS: θ* is unbounded; the finite rate says what the dearest second cost). ``spend`` is what is then spent.
    """

    fit: BudgetFit
    rate: Rate
    levels: Sequence[int]
    mixed: int | None
    mix: float
    spend: float


class _Columns:
    """The demands as columns, so that every pass over the classes is a chain of C-level maps."""

    def __init__(self, demands: Sequence[Demand]) -> None:
        self.slopes = [demand.slopes for demand in demands]
        self.spends = [demand.spends for demand in demands]
        self.loads = [demand.load for demand in demands]
        self.weights = [demand.weight for demand in demands]
        self.even = all([weight == 1.0 for weight in self.weights])
        self.few = max(_FEW, len(demands) // 2)

    def ends(self) -> tuple[list[int], list[int]]:
        """The cheapest and the fastest corners."""
        return [0] * len(self.slopes), list(map(len, self.slopes))

    def levels(self, theta: float, low: Sequence[int], high: Sequence[int]) -> list[int]:
        """Per class, how many segments cost at most θ a weighted second; known to be between ``low`` and ``high``."""
        reach = repeat(theta) if self.even else map(theta.__mul__, self.weights)
        return list(map(bisect_right, self.slopes, reach, low, high))

    def spend(self, levels: Sequence[int]) -> float:
        """Σ load · spend at those corners."""
        return float(sum(map(mul, self.loads, map(getitem, self.spends, levels))))

    def slope(self, of: int, level: int) -> float:
        """Weighted slope of the segment from corner ``level`` to the next."""
        return self.slopes[of][level] / self.weights[of]

    def step(self, of: int, level: int) -> float:
        """What that segment adds to spend."""
        spends = self.spends[of]
        return self.loads[of] * (spends[level + 1] - spends[level])


def solve(demands: Sequence[Demand], allowed: float) -> Solution:
    """θ* for ``allowed`` dollars per second; exact."""
    columns = _Columns(demands)
    lowest, highest = columns.ends()
    base, top = columns.spend(lowest), columns.spend(highest)
    if base > allowed:
        return Solution(BudgetFit.INFEASIBLE, Rate(0.0), lowest, None, 0.0, base)
    if top <= allowed:
        last = max((columns.slope(at, level - 1) for at, level in enumerate(highest) if level), default=0.0)
        return Solution(BudgetFit.SURPLUS, Rate(last * _BEYOND), highest, None, 0.0, top)
    return _crossing(columns, *_bracket(columns, lowest, highest, base, allowed), allowed)


def spend_rate(demands: Sequence[Demand], theta: Rate) -> float:
    """Long-run dollars per second at an exchange rate, with every tie taken: non-decreasing in θ."""
    columns = _Columns(demands)
    lowest, highest = columns.ends()
    return columns.spend(columns.levels(theta, lowest, highest))


def _bracket(
    columns: _Columns, low: list[int], high: list[int], low_spend: float, allowed: float
) -> tuple[list[int], list[int], float]:
    """Corners just below and just above θ*, few segments apart, and the spend at the lower ones."""
    left = sum(high) - sum(low)
    while left > columns.few:
        before = left
        low, high, low_spend = _closer(columns, low, high, low_spend, allowed)
        left = sum(high) - sum(low)
        if left == before:
            break
    return low, high, low_spend


def _closer(
    columns: _Columns, low: list[int], high: list[int], low_spend: float, allowed: float
) -> tuple[list[int], list[int], float]:
    """A trial where a sample says that θ* is; then, as that shows by how much the sample errs, one just on either side.

    The sample's error changes little between neighbours.
    """
    slopes, reached, scale = _sample(columns, low, high)
    first, aim = low_spend, (allowed - low_spend) * scale
    below, at, above = -1, min(bisect_right(reached, aim), len(slopes) - 1), len(slopes)
    while below < at < above and sum(high) - sum(low) > columns.few:
        trial = columns.levels(slopes[at], low, high)
        spend = columns.spend(trial)
        goal = bisect_right(reached, aim + reached[at] - (spend - first) * scale)
        if spend > allowed:
            high, above = trial, at
        else:
            low, low_spend, below = trial, spend, at
        at = goal - _NEAR if goal - _NEAR > below else goal + _NEAR
    return low, high, low_spend


def _sample(columns: _Columns, low: Sequence[int], high: Sequence[int]) -> tuple[list[float], list[float], float]:
    """Some of the segments still open: their slopes, ascending, what is spent up to each, and what part of all that is.

    A sampled segment stands for its class's open segments, and its class for the classes passed over.
    """
    slopes, spends, loads, weights = columns.slopes, columns.spends, columns.loads, columns.weights
    widths = list(map(sub, high, low))
    classes = [at for at, width in enumerate(widths) if width]
    size = max(_SAMPLE, len(classes) // 3)
    draws = [at for at in classes[:: -(-len(classes) // size)] for _ in range(max(1, size // len(classes)))]
    sample: list[tuple[float, float]] = []
    for turn, at in enumerate(draws):
        width = widths[at]
        level = low[at] + int(turn * _GOLDEN % 1.0 * width)
        step = spends[at][level + 1] - spends[at][level]
        sample.append((slopes[at][level] / weights[at], step * loads[at] * width))
    sample.sort()
    return [slope for slope, _ in sample], list(accumulate(part for _, part in sample)), len(sample) / len(classes)


def _crossing(columns: _Columns, low: list[int], high: Sequence[int], spend: float, allowed: float) -> Solution:
    """Take the bracket's segments in order of slope until the budget is reached within one of them."""
    segments = sorted(
        [
            (slope / weight, at, level)
            for at, (slopes, weight, first, end) in enumerate(
                zip(columns.slopes, columns.weights, low, high, strict=True)
            )
            if first < end
            for level, slope in enumerate(slopes[first:end], first)
        ]
    )
    levels, slope = list(low), 0.0
    for slope, at, level in segments:
        step = columns.step(at, level)
        if spend + step > allowed:
            mix = (allowed - spend) / step
            return Solution(BudgetFit.MET, Rate(slope), levels, at, mix, allowed)
        spend += step
        levels[at] = level + 1
    return Solution(BudgetFit.MET, Rate(slope), levels, None, 0.0, spend)
