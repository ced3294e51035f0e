"""How long nodes live before the cloud takes them back: drawn from measured lifetimes, or exponentially distributed.

The draw of a pool's n-th node depends on the seed and on n only: every policy meets the same nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, log

_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """A distribution of lifetimes in seconds of readiness; called with a node's number, it draws that node's.

    ``ages`` and ``dead``: ascending ages of measured deaths, and the fraction of nodes that are dead by each. Who
    outlives the last one dies ``hazard`` times a second from ``measured_until`` on. Nobody lives longer than ``most``.
    """

    seed: int
    ages: tuple[float, ...] = ()
    dead: tuple[float, ...] = ()
    measured_until: float = 0.0
    hazard: float = 0.0
    most: float = inf

    def __call__(self, number: int) -> float:
        """Seconds that the node of that number lives; infinite where it is never taken back."""
        drawn = uniform(self.seed, number)
        at = bisect_left(self.dead, drawn)
        if at < len(self.dead):
            return min(self.ages[at], self.most)
        if not self.hazard:
            return self.most
        left = (1.0 - drawn) / (1.0 - self.dead[-1]) if self.dead else 1.0 - drawn
        return min(self.measured_until - log(left) / self.hazard, self.most)


def exponential(mean_seconds: float, seed: int, most: float = inf) -> Lifetimes:
    """Lifetimes of a hazard that does not depend on age."""
    return Lifetimes(seed, hazard=1.0 / mean_seconds, most=most)


def measured(lifetimes: Iterable[tuple[float, bool]], seed: int, most: float = inf) -> Lifetimes:
    """The product-limit estimate (Kaplan and Meier 1958) of (seconds, whether the node still lived then), at least one.

    Beyond the longest one, nodes die at the mean rate of all: deaths per second lived.
    """
    rows = sorted(lifetimes, key=lambda row: (row[0], row[1]))
    alive, survival = len(rows), 1.0
    ages: list[float] = []
    dead: list[float] = []
    for seconds, censored in rows:
        if not censored:
            survival *= 1.0 - 1.0 / alive
            if ages and ages[-1] == seconds:
                dead[-1] = 1.0 - survival
            else:
                ages.append(seconds)
                dead.append(1.0 - survival)
        alive -= 1
    if not rows[-1][1]:
        dead[-1] = 1.0  # the product is 0 up to rounding
    exposure, deaths = sum(seconds for seconds, _ in rows), sum(not censored for _, censored in rows)
    return Lifetimes(seed, tuple(ages), tuple(dead), rows[-1][0], deaths / exposure, most)


def uniform(seed: int, number: int) -> float:
    """A number in (0, 1) that looks random, and depends on its arguments only (SplitMix64, Steele et al. 2014)."""
    state = (_mixed(seed) + number * 0x9E3779B97F4A7C15) & _BITS
    return ((_mixed(state) >> 11) + 0.5) / (1 << 53)


def _mixed(state: int) -> int:
    state = (state + 0x9E3779B97F4A7C15) & _BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _BITS
    return state ^ (state >> 31)
