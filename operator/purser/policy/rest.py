"""What a running job would gain by moving, kept for as long as neither the job nor its menu changes.

With x units of work left, r seconds of a restart, and s, c an option's speed and price, a job on a moves to o only if

    x·(θ + c_a)/s_a − x·(θ + c_o)/s_o  >  (θ + c_o)·r

(θ times the job's weight). Each of these is linear in θ, so together they leave an interval in which no move pays:
where most jobs are, most of the time. With more than one phase what lies ahead is not linear, and where pools are
full their prices move with θ; then, and where a move does pay, what was found holds at its own θ only.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from purser.domain.ids import JobId, Rate
from purser.domain.option import Option
from purser.domain.plan import Verdict
from purser.domain.pool import Pool
from purser.policy.course import Ways, key_of
from purser.policy.menu import Menu
from purser.policy.prospects import Charge, Move, Position, Prospects
from purser.policy.reading import Reading

if TYPE_CHECKING:
    from purser.policy.standing import Share, Standing

_SURE = 1e-9
"""Of the terms' size: so far from a tie no rounding can make a move pay."""


@dataclass(frozen=True, slots=True)
class Chance:
    """A move that pays where its nodes are ready, and the same move where they must be rented."""

    ready: Move
    rented: Move


@dataclass(frozen=True, slots=True)
class Said:
    """What was thought of a running job, ``verdict``, and all that it follows from."""

    reading: Reading
    prospects: Prospects
    work: float
    rate: Rate
    feasible: bool
    verdict: Verdict

    def holds(self, reading: Reading, share: Share, standing: Standing) -> bool:
        """Whether the same would be said again."""
        return (
            self.reading is reading
            and self.prospects is share.prospects
            and self.rate == standing.rate
            and self.feasible == standing.feasible
            and self.work == share.group.work
        )


@dataclass(slots=True)
class Minds:
    """What was found out about running jobs, by job; filled while a plan is made, and kept for the next."""

    rests: dict[JobId, Rest] = field(default_factory=dict)
    said: dict[JobId, Said] = field(default_factory=dict)

    def forget(self, jobs: Container[JobId]) -> None:
        """Keep only what is known of ``jobs``."""
        self.rests = {name: rest for name, rest in self.rests.items() if name in jobs}
        self.said = {name: said for name, said in self.said.items() if name in jobs}


@dataclass(frozen=True, slots=True)
class Rest:
    """What a job, as it was read, can gain on a menu while a second of it is worth ``least`` to ``most`` dollars.

    ``charge``: of full pools, on that menu; ``pool``: where it runs, by which it may stay. ``chances``: the best first.
    ``again``: seconds to the next phase for which another option is better.
    """

    reading: Reading
    menu: Menu
    charge: Charge | None
    pool: Pool | None
    least: float
    most: float
    chances: tuple[Chance, ...]
    again: float | None

    def holds(self, reading: Reading, prospects: Prospects, pool: Pool | None) -> bool:
        """Whether it still says the truth."""
        return (
            self.reading is reading
            and self.menu is prospects.menu
            and self.charge == prospects.charge
            and self.pool is pool
            and self.least <= prospects.worth <= self.most
        )


def rest(reading: Reading, here: Option, prospects: Prospects, position: Position, pool: Pool | None) -> Rest:
    """What the job can gain, from scratch."""
    chances = tuple(
        Chance(move, prospects.move(here, move.to, position, rented=True)) for move in prospects.paying(here, position)
    )
    at = prospects.menu.ways.places.get(key_of(here))
    least, most = inf, 0.0
    if not chances and at is not None and len(prospects.menu.stages) == 1 and prospects.charge is None:
        least, most = interval(prospects.menu.ways, at, position.left)
    worth, again = prospects.worth, prospects.next_change(here, position)
    if not least <= worth <= most:
        least = most = worth
    return Rest(reading, prospects.menu, prospects.charge, pool, least, most, chances, again)


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
