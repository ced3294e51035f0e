"""The lower-left convex hull of ways to run a job, each a point (dollars, seconds) for one job of the class.

Entering an option costs seconds e and dollars g once; a job of x units of work on an option of speed s and price c
then is the point  m = c·x/s + g,  a = x/s + e.  For an exchange rate θ and a weight w the best option minimises
w·θ·a + m, and only corners of the hull can ever be best (docs/policy.md, section 2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from purser.domain.ids import Rate
from purser.domain.option import Option


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
        if len(chain) == 1 and points[chain[0]][0] == money:
            chain.pop()
        chain.append(new)
    return chain


@dataclass(frozen=True, slots=True)
class Hull:
    """The hull's corners, cheapest first.

    ``money`` and ``seconds`` are the corners' coordinates, ``rates`` money / seconds: dollars per second of a job's
    life. ``slopes[k]`` is what a second costs that corner k + 1 saves over corner k: ascending, one fewer than corners.
    """

    options: tuple[Option, ...]
    money: tuple[float, ...]
    seconds: tuple[float, ...]
    rates: tuple[float, ...]
    slopes: tuple[float, ...]

    def level(self, theta: Rate, weight: float = 1.0) -> int:
        """The corner that minimises w·θ·a + m; of two that tie, the cheaper."""
        return bisect_left(self.slopes, theta * weight)

    def best(self, theta: Rate, weight: float = 1.0) -> Option:
        """The option at that corner."""
        return self.options[self.level(theta, weight)]


def hull(options: Iterable[Option], work: float) -> Hull:
    """The hull of options for jobs of ``work`` seconds of the reference option."""
    listed = tuple(options)
    points = [(dollars(option, work), seconds(option, work)) for option in listed]
    chain = corners(points)
    money = tuple(points[at][0] for at in chain)
    time = tuple(points[at][1] for at in chain)
    return Hull(
        options=tuple(listed[at] for at in chain),
        money=money,
        seconds=time,
        rates=tuple(m / a for m, a in zip(money, time, strict=True)),
        slopes=tuple((money[k + 1] - money[k]) / (time[k] - time[k + 1]) for k in range(len(chain) - 1)),
    )
