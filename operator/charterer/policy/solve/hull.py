"""The lower-left convex hull of the options or paths to a job's end, each a point (dollars, seconds).

To enter an option costs e seconds and g dollars once. So a job of x units of work on an option of speed s and price c
is the point  m = c·x/s + g,  a = x/s + e.  If curves change over a job's phases, a point stands for a path: an option
for each phase, including the cost of changes between phases. For an exchange rate θ and a weight w, the best point
minimises w·θ·a + m, and only corners of the hull can be best (docs/theory/policy.md, section 2).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from charterer.domain.ids import Rate
from charterer.domain.option import Option
from charterer.policy.solve.phase_dp import BackwardInduction, CostToGo, OptionTable, UnitCosts

# Bisection on a logarithmic scale: finds the positive number at which a condition begins to hold.


def bisect(fails: float, holds: float, condition: Callable[[float], bool], halvings: int) -> tuple[float, float]:
    """Narrow down where a condition begins to hold. Returns a number at which the condition fails and a number at
    which it holds.

    Each halving tries the geometric mean of the two numbers, or half of ``holds`` as long as ``fails`` is 0.
    ``holds`` may be less than ``fails``.
    """
    for _ in range(halvings):
        middle = sqrt(fails * holds) if fails > 0.0 else holds / 2.0
        if condition(middle):
            holds = middle
        else:
            fails = middle
    return fails, holds


# θ* is the exchange rate at which the long-run spending of all classes equals what the budget allows (dollars per
# second).
#
# As θ grows, each class moves along its hull and passes its segment k at θ = slope_k / w. So spending is a
# non-decreasing step function of θ whose steps are all segments of all classes, in order of slope ÷ weight. θ* is the
# slope ÷ weight at which the sum of the steps reaches the budget. The class of that step mixes the two corners of the
# segment so that the budget is met exactly. This is the greedy solution of the linear multiple-choice knapsack
# problem (Kellerer, Pferschy and Pisinger, Knapsack Problems, 2004, section 11.2), by sorting: O(H log H) for H
# segments.


class BudgetFit(StrEnum):
    """How a budget relates to its load."""

    INFEASIBLE = "Infeasible"
    MET = "Met"
    SURPLUS = "Surplus"


@dataclass(frozen=True, slots=True)
class Demand:
    """One class as the solver sees it.

    ``slopes``: for each step from corner to corner of the hull, dollars for a second that the step saves; ascending.
    ``spends``: for each corner, the spending of one unit of ``load``; non-decreasing. The unit is dollars a job if
    ``load`` is jobs a second, and dollars a second if ``load`` is jobs.
    ``ceiling``: the most dollars that a second of life of weight 1 may cost. No slope is above ``ceiling`` ×
    ``weight``.
    """

    slopes: Sequence[float]
    spends: Sequence[float]
    load: float
    weight: float
    ceiling: float


@dataclass(frozen=True, slots=True)
class Solution:
    """The corner of each class at the exchange rate θ*.

    ``rate``: θ*, in dollars per second of weighted job life. It is 0 if even the cheapest corners exceed the budget
    (INFEASIBLE: jobs queue), and the highest ceiling if money remains at the fastest corners (SURPLUS).
    ``levels``: the corner of each class.
    ``mixed``: the class that takes its next corner with probability ``mix``; None if there is none.
    ``spend``: dollars a second that are spent at these corners.
    """

    fit: BudgetFit
    rate: Rate
    levels: Sequence[int]
    mixed: int | None
    mix: float
    spend: float


def solve(demands: Sequence[Demand], allowed: float) -> Solution:
    """The exact solution for ``allowed`` dollars per second."""
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
    """θ* for each factor f, if the load spends  least + f·(spends − least)  at each corner."""
    import numpy as np  # the import takes a tenth of a second, which commands that plan nothing save

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
    """The corner that each class takes at the rate ``theta``; at a tie, the faster corner.

    ``fit`` is SURPLUS if all classes have their fastest option.
    """
    levels = [bisect_right(demand.slopes, theta * demand.weight) for demand in demands]
    fastest = all(level == len(demand.slopes) for level, demand in zip(levels, demands, strict=True))
    fit = BudgetFit.SURPLUS if fastest else BudgetFit.MET
    return Solution(fit, theta, levels, None, 0.0, _spend(demands, levels))


def spend_rate(demands: Sequence[Demand], theta: Rate) -> float:
    """Long-run dollars per second at an exchange rate if every tie goes to the faster corner; non-decreasing in θ."""
    return _spend(demands, [bisect_right(demand.slopes, theta * demand.weight) for demand in demands])


def _spend(demands: Sequence[Demand], levels: Sequence[int]) -> float:
    """Dollars per second when class i takes its corner ``levels[i]``."""
    return sum([demand.load * demand.spends[level] for demand, level in zip(demands, levels, strict=True)])


_ANY_PRICE = 1e6
"""Worth of a second at which only time decides the path, as a multiple of the dearest option's price, or of $1 a
second if all options are free."""
_SAME = 1e-9
"""A point counts as a point of an edge if it is closer to the edge than this fraction of the edge's cost."""

_MOST_PATHS = 128
"""The largest number of corners that are looked for. Classes have ten to thirty corners."""

Path = tuple[Option, ...]


def dollars(option: Option, work: float) -> float:
    """m: expected dollars to run ``work`` (seconds of the reference option) to its end, including the entry."""
    return option.price.dollars_per_second * work / option.speed + option.entry_cost.dollars


def seconds(option: Option, work: float) -> float:
    """a: expected seconds to run ``work`` to its end, including the entry."""
    return work / option.speed + option.entry_seconds


def corners(points: Sequence[tuple[float, float]]) -> list[int]:
    """The indices of points (dollars, seconds) that are corners of their hull, cheapest first.

    From corner to corner, dollars rise, seconds fall, and the dollars for each second saved rise. Of equal points,
    only the first is a corner.
    """
    chain: list[int] = []
    for new in sorted(range(len(points)), key=points.__getitem__):
        money, time = points[new]
        if chain and time >= points[chain[-1]][1]:
            continue
        while len(chain) >= 2:
            (m0, a0), (m1, a1) = points[chain[-2]], points[chain[-1]]
            if (m1 - m0) * (a1 - time) < (money - m1) * (a0 - a1):
                break
            chain.pop()
        chain.append(new)
    return chain


@dataclass(frozen=True, slots=True)
class Hull:
    """The corners of a class's hull, cheapest first.

    ``paths``: for each corner, an option for each phase of a job's life.
    ``money``, ``seconds``: the corners' coordinates.
    ``rates``: money / seconds: dollars per second of a job's life.
    ``slopes``: for each corner but the last, dollars for each second that the next corner saves; ascending.

    The numbers are arrays, so that the computation of θ* reads them one after the other in memory.
    """

    paths: tuple[Path, ...]
    money: Sequence[float]
    seconds: Sequence[float]
    rates: Sequence[float]
    slopes: Sequence[float]

    def level(self, theta: Rate, weight: float = 1.0) -> int:
        """The index of the corner that minimises w·θ·a + m; if two corners tie, that of the cheaper corner."""
        return bisect_left(self.slopes, theta * weight)

    def best(self, theta: Rate, weight: float = 1.0) -> Path:
        """The path at the corner that minimises w·θ·a + m."""
        return self.paths[self.level(theta, weight)]

    def below(self, worth: float) -> Hull:
        """The hull without the corners at which a further saved second costs more than ``worth`` dollars."""
        last = bisect_left(self.slopes, worth)
        if last == len(self.slopes):
            return self
        end = last + 1
        return Hull(self.paths[:end], self.money[:end], self.seconds[:end], self.rates[:end], self.slopes[:last])


def hull(options: Iterable[Option], work: float) -> Hull:
    """The hull of options for jobs of a single phase and ``work`` seconds of the reference option."""
    return _hull([(dollars(option, work), seconds(option, work), (option,)) for option in options])


def path_hull(stages: Sequence[Sequence[Option]], table: OptionTable, until: Sequence[float], work: float) -> Hull:
    """The hull of all paths of a job of ``work`` through ``stages``. Each stage has the same options, with the speeds
    of its phase.

    Between two corners, the rate at which they tie is tried. The best path at this rate is a further corner, or no
    corner lies between them. This finds every corner with two solutions each (Eisner and Severance, 1976), evenly
    along the hull. The hull of the first ``_MOST_PATHS`` corners is close to the hull of all corners.
    """

    def best(worth: float) -> tuple[float, float, Path]:
        to_go = CostToGo(BackwardInduction(UnitCosts(table, until, worth), work), 0.0)
        entered = [
            cost + worth * option.entry_seconds + option.entry_cost.dollars
            for cost, option in zip(to_go.cost, stages[0], strict=True)
        ]
        first = min(range(len(entered)), key=entered.__getitem__)
        money, time = to_go.point(first)
        path = tuple(stage[at] for stage, at in zip(stages, to_go.path(first), strict=True))
        return money + path[0].entry_cost.dollars, time + path[0].entry_seconds, path

    points = [best(0.0), best(_ANY_PRICE * (max(table.prices) or 1.0))]
    edges = [(points[0], points[1])]
    while edges and len(points) < _MOST_PATHS:
        cheap, fast = edges.pop(0)
        if cheap[1] <= fast[1] or fast[0] <= cheap[0]:
            continue
        worth = (fast[0] - cheap[0]) / (cheap[1] - fast[1])
        between = best(worth)
        on_edge = cheap[0] + worth * cheap[1]
        if between[0] + worth * between[1] < on_edge * (1.0 - _SAME):
            points.append(between)
            edges += [(cheap, between), (between, fast)]
    return _hull(points)


def _hull(points: Sequence[tuple[float, float, Path]]) -> Hull:
    chain = corners([(money, time) for money, time, _ in points])
    money = array("d", [points[at][0] for at in chain])
    time = array("d", [points[at][1] for at in chain])
    return Hull(
        paths=tuple(points[at][2] for at in chain),
        money=money,
        seconds=time,
        rates=array("d", [m / a for m, a in zip(money, time, strict=True)]),
        slopes=array("d", [(money[k + 1] - money[k]) / (time[k] - time[k + 1]) for k in range(len(chain) - 1)]),
    )
