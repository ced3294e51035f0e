"""The lower-left convex hull of the options or paths to a job's end, each a point (dollars, seconds).

Entering an option costs seconds e and dollars g once; a job of x units of work on an option of speed s and price c
then is the point  m = c·x/s + g,  a = x/s + e.  Where curves change over a job's phases, a point is a path: an option
for each phase, with what changing between them costs. For an exchange rate θ and a weight w the best point minimises
w·θ·a + m, and only corners of the hull can ever be best (docs/theory/policy.md, section 2).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from charterer.domain.ids import Rate
from charterer.domain.option import Option
from charterer.policy.solve.phase_dp import BackwardInduction, CostToGo, OptionTable, UnitCosts

_ANY_PRICE = 1e6
"""Multiple of the dearest option's price, or of $1 a second where all are free, that a second is worth to find the path
that only looks at time."""
_SAME = 1e-9
"""Points closer to an edge than this fraction of their cost are on it."""

_MOST_PATHS = 128
"""Corners looked for at most: classes have ten to thirty."""

Path = tuple[Option, ...]


def dollars(option: Option, work: float) -> float:
    """m: expected dollars of running ``work`` (seconds of the reference option) to its end, entry included."""
    return option.price.dollars_per_second * work / option.speed + option.entry_cost.dollars


def seconds(option: Option, work: float) -> float:
    """a: expected seconds of running ``work`` to its end, entry included."""
    return work / option.speed + option.entry_seconds


def corners(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the hull's corners, cheapest first, of points (dollars, seconds).

    From corner to corner dollars rise, seconds fall, and the dollars paid for each further second saved rise.
    Of equal points the first one is kept.
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
    """The hull's corners, cheapest first. ``paths``: an option for each phase of a job's life.

    ``money`` and ``seconds`` are the corners' coordinates, ``rates`` money / seconds: dollars per second of a job's
    life. ``slopes[k]`` is what a second costs that corner k + 1 saves over corner k: ascending, one fewer than corners.
    Arrays keep the numbers of all classes side by side in memory for θ*.
    """

    paths: tuple[Path, ...]
    money: Sequence[float]
    seconds: Sequence[float]
    rates: Sequence[float]
    slopes: Sequence[float]

    def level(self, theta: Rate, weight: float = 1.0) -> int:
        """The corner that minimises w·θ·a + m; of two that tie, the cheaper."""
        return bisect_left(self.slopes, theta * weight)

    def best(self, theta: Rate, weight: float = 1.0) -> Path:
        """The path at that corner."""
        return self.paths[self.level(theta, weight)]

    def below(self, worth: float) -> Hull:
        """The hull without the corners for which a further second costs more than ``worth`` dollars."""
        last = bisect_left(self.slopes, worth)
        if last == len(self.slopes):
            return self
        end = last + 1
        return Hull(self.paths[:end], self.money[:end], self.seconds[:end], self.rates[:end], self.slopes[:last])


def hull(options: Iterable[Option], work: float) -> Hull:
    """The hull of options for jobs of a single phase and ``work`` seconds of the reference option."""
    return _hull([(dollars(option, work), seconds(option, work), (option,)) for option in options])


def path_hull(stages: Sequence[Sequence[Option]], table: OptionTable, until: Sequence[float], work: float) -> Hull:
    """The hull of all paths of a job of ``work`` through ``stages``: the same options, with each phase's speeds.

    Between two corners the rate at which they tie is tried: the best path there is a further corner, or there is none.
    That finds every corner with two solutions each (Eisner and Severance, 1976), evenly along the hull; the hull of the
    first ``_MOST_PATHS`` is near that of all.
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
