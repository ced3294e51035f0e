"""Between which exchange rates a running job is sure to stay where it is: most jobs, most of the time.

With x units of work left, r seconds of a restart, and s, c an option's speed and price, a job on a moves to o only if

    x·(θ + c_a)/s_a − x·(θ + c_o)/s_o  >  (θ + c_o)·r

(θ times the job's weight). Each of these is linear in θ, so together they leave an interval in which no move pays. It
holds for as long as the job reports nothing new and its menu stays, whatever happens to others. Only of menus with one
phase: with more, what lies ahead is not linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from purser.domain.pool import Pool
from purser.policy.course import Ways
from purser.policy.menu import Menu
from purser.policy.reading import Reading

_SURE = 1e-9
"""Of the terms' size: so far from a tie no rounding can make a move pay."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A job, as it was read, on a menu and a pool stays while a second of it is worth ``least`` to ``most``."""

    reading: Reading
    menu: Menu
    pool: Pool | None
    least: float
    most: float


def interval(ways: Ways, here: int, left: float) -> tuple[float, float]:
    """The least and the most that a second may be worth; empty where the first is more than the second."""
    speeds, prices, restart = ways.speeds[0], ways.prices, ways.restart
    stay = left / speeds[here]
    bill = prices[here] * stay
    least, most = 0.0, inf
    for to, (speed, price) in enumerate(zip(speeds, prices, strict=True)):
        if to == here:
            continue
        go = left / speed
        enter = price * (go + restart)
        slope = stay - go - restart + _SURE * (stay + go + restart)
        bound = enter - bill - _SURE * (enter + bill)
        if slope > 0.0:
            most = min(most, bound / slope)
        elif slope < 0.0:
            least = max(least, bound / slope)
        elif bound < 0.0:
            return inf, 0.0
    return least, most
