"""The exchange rate θ*: where the long-run spend of all classes meets what the budget allows (dollars per second).

Each class climbs its hull as θ grows: it takes its segment k at θ = slope_k / w, so spend is a non-decreasing step
function of θ whose steps are all segments of all classes in order of slope / weight. θ* is the slope at which the sum
of the steps reaches the budget; the class of that step mixes its two corners so that the budget is met exactly.
This is the greedy solution of the linear multiple-choice knapsack problem (Kellerer, Pferschy and Pisinger, Knapsack
Problems, 2004, section 11.2), by sorting: O(H log H) for H segments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import Rate


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
    second with load in jobs. ``ceiling``: dollars that a second of life of weight 1 may cost at most; no slope is
    above ``ceiling`` × ``weight``.
    """

    slopes: Sequence[float]
    spends: Sequence[float]
    load: float
    weight: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class Solution:
    """``levels[i]`` is the corner of class i; class ``mixed`` takes the next one with probability ``mix``.

    ``rate`` is θ*, in dollars per second of weighted job life: 0 when even the cheapest corners exceed the budget
    (INFEASIBLE: jobs queue), and the highest ceiling when the fastest corners of all leave money over (SURPLUS).
    ``spend`` is what is then spent.
    """

    fit: BudgetFit
    rate: Rate
    levels: Sequence[int]
    mixed: int | None
    mix: float
    spend: float


def solve(demands: Sequence[Demand], allowed: float) -> Solution:
    """θ* for ``allowed`` dollars per second; exact."""
    levels = [0] * len(demands)
    spend = _spend(demands, levels)
    if spend > allowed:
        return Solution(BudgetFit.INFEASIBLE, Rate(0.0), levels, None, 0.0, spend)
    fastest = [len(demand.slopes) for demand in demands]
    most = _spend(demands, fastest)
    if most <= allowed:
        highest = max([demand.ceiling for demand in demands], default=0.0)
        return Solution(BudgetFit.SURPLUS, Rate(highest), fastest, None, 0.0, most)
    slopes = [slope / demand.weight for demand in demands for slope in demand.slopes]
    owners = [number for number, demand in enumerate(demands) for _ in demand.slopes]
    rate = 0.0
    for segment in sorted(range(len(slopes)), key=slopes.__getitem__):
        rate, owner = slopes[segment], owners[segment]
        demand, level = demands[owner], levels[owner]
        step = demand.load * (demand.spends[level + 1] - demand.spends[level])
        if spend + step > allowed:
            return Solution(BudgetFit.MET, Rate(rate), levels, owner, (allowed - spend) / step, allowed)
        spend += step
        levels[owner] = level + 1
    return Solution(BudgetFit.MET, Rate(rate), levels, None, 0.0, spend)


def rates_of_mixtures(
    demands: Sequence[Demand], least: Sequence[Sequence[float]], factors: Sequence[float], allowed: float
) -> Sequence[float]:
    """θ* for each factor f of a load that spends  least + f·(spends − least)  at each corner."""
    import numpy as np  # a tenth of a second, which commands that plan nothing do without

    sizes = np.array([len(demand.spends) for demand in demands])
    loads = np.repeat([demand.load for demand in demands], sizes)
    sure = np.concatenate([np.asarray(each) for each in least]) * loads
    more = np.concatenate([np.asarray(demand.spends) for demand in demands]) * loads - sure
    first = np.zeros(len(sure), dtype=bool)
    first[np.cumsum(sizes) - sizes] = True
    slopes = np.concatenate([np.asarray(demand.slopes) / demand.weight for demand in demands])
    order = np.argsort(slopes, kind="stable")
    highest, found = max([demand.ceiling for demand in demands], default=0.0), list[float]()
    for factor in factors:
        spends = sure + factor * more
        steps = np.diff(spends)[~first[1:]][order]
        spent = np.cumsum(np.concatenate([[spends[first].sum()], steps]))
        if spent[0] > allowed:
            found.append(0.0)
        elif spent[-1] <= allowed:
            found.append(highest)
        else:
            found.append(float(slopes[order][np.argmax(spent > allowed) - 1]))
    return found


def solution_at(demands: Sequence[Demand], theta: Rate) -> Solution:
    """What classes take at an exchange rate, with every tie taken; the surplus where all have their fastest."""
    levels = [bisect_right(demand.slopes, theta * demand.weight) for demand in demands]
    fastest = all(level == len(demand.slopes) for level, demand in zip(levels, demands, strict=True))
    fit = BudgetFit.SURPLUS if fastest else BudgetFit.MET
    return Solution(fit, theta, levels, None, 0.0, _spend(demands, levels))


def spend_rate(demands: Sequence[Demand], theta: Rate) -> float:
    """Long-run dollars per second at an exchange rate, with every tie taken: non-decreasing in θ."""
    return _spend(demands, [bisect_right(demand.slopes, theta * demand.weight) for demand in demands])


def _spend(demands: Sequence[Demand], levels: Sequence[int]) -> float:
    """Dollars per second when class i takes its corner ``levels[i]``."""
    return sum([demand.load * demand.spends[level] for demand, level in zip(demands, levels, strict=True)])
