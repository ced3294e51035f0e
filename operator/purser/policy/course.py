"""What lies ahead of a job: the best path through the phases of its life, by dynamic programming from the end.

An option is chosen for each phase, and changing it between phases costs a restart. For an exchange rate θ and a weight
w a path of dollars m and seconds a is best where w·θ·a + m is least. Going backwards through the phases, with x_p the
work of phase p and s, c an option's speed and price,

    J_p(o) = x_p·(w·θ + c_o)/s_p(o) + min( J_p+1(o),  min over o' of J_p+1(o') + change(o, o') )
    change(o, o') = (w·θ + c_o')·restart + start-up of what o' needs more, in dollars

so that a change is charged in the plan what it costs when it is made. O(phases × options) a job (docs/policy.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from purser.domain.ids import PoolId
from purser.domain.option import Option


@dataclass(frozen=True, slots=True)
class Ways:
    """A menu's options as numbers, made once.

    ``speeds[p][o]`` is the speed of option o in phase p, ``prices[o]`` its dollars a second. ``lanes`` groups options
    by pool, cheapest first. ``starts[o]``: seconds that a node of its pool is paid for before it is ready.
    """

    speeds: tuple[tuple[float, ...], ...]
    prices: tuple[float, ...]
    starts: tuple[float, ...]
    lanes: tuple[tuple[int, ...], ...]
    restart: float

    @classmethod
    def of(cls, stages: Sequence[Sequence[Option]], restart: float) -> Ways:
        """The ways of a menu: the same options for each phase, with that phase's speeds."""
        first = stages[0]
        lanes: dict[PoolId, list[int]] = {}
        for at, option in enumerate(first):
            lanes.setdefault(option.pool, []).append(at)
        prices = tuple(option.price.dollars_per_second for option in first)
        return cls(
            speeds=tuple(tuple(option.speed for option in stage) for stage in stages),
            prices=prices,
            starts=tuple(max(option.entry_seconds - restart, 0.0) for option in first),
            lanes=tuple(tuple(sorted(lane, key=prices.__getitem__)) for lane in lanes.values()),
            restart=restart,
        )

    def start_up(self, here: int, to: int, same_pool: bool) -> float:
        """Dollars for nodes that boot while the job runs on: for all of ``to``, or what it is wider than ``here``."""
        more = self.prices[to] - self.prices[here] if same_pool else self.prices[to]
        return max(more, 0.0) * self.starts[to]


def work_ahead(until: Sequence[float], total: float, done: float) -> tuple[float, ...]:
    """Work left in the phases from the present one on, of ``total`` work of which the part ``done`` is done."""
    ends = [end for end in until if end > done] or [done]
    return tuple((end - begin) * total for begin, end in zip([done, *ends], ends, strict=False))


class Life:
    """All phases of a job's life of ``total`` work, for which a second is worth ``worth`` = w·θ dollars.

    Jobs of one size share it: only where in its phase a job is makes a difference (``Course``).
    """

    def __init__(self, ways: Ways, until: Sequence[float], total: float, worth: float) -> None:
        self.ways = ways
        self.until = until
        self.total = total
        self.worth = worth
        self.units = [
            [(worth + price) / speed for price, speed in zip(ways.prices, speeds, strict=True)]
            for speeds in ways.speeds
        ]
        self.least_units = [min(units, default=0.0) for units in self.units]
        work = work_ahead(until, total, 0.0)
        to_go, follow = [0.0] * len(ways.prices), list(range(len(ways.prices)))
        self.after = [to_go]
        self.follow = [follow]
        for left, units in zip(reversed(work[1:]), reversed(self.units), strict=False):
            cost = [then + left * unit for then, unit in zip(to_go, units, strict=True)]
            follow, to_go = self._change_or_stay(cost)
            self.after.append(to_go)
            self.follow.append(follow)
        self.after.reverse()
        self.follow.reverse()

    def _change_or_stay(self, to_go: Sequence[float]) -> tuple[list[int], list[float]]:
        """For each option at a phase's end: the one that follows, and its dollars to go, the change included.

        Within a pool the options are in order of price, so the best narrower and the best wider one are running minima.
        """
        ways, worth = self.ways, self.worth
        entered = [cost + (worth + price) * ways.restart for cost, price in zip(to_go, ways.prices, strict=True)]
        rented = [cost + price * start for cost, price, start in zip(entered, ways.prices, ways.starts, strict=True)]
        by_lane = sorted((min((rented[at], at) for at in lane), number) for number, lane in enumerate(ways.lanes))
        follow, best = list(range(len(to_go))), list(to_go)

        def offer(at: int, cost: float, to: int) -> None:
            if cost < best[at]:
                best[at], follow[at] = cost, to

        for number, lane in enumerate(ways.lanes):
            elsewhere = next(((cost, to) for (cost, to), other in by_lane if other != number), (inf, 0))
            narrower = accumulate(((entered[at], at) for at in lane), min)
            wider = list(accumulate(((rented[at], at) for at in reversed(lane)), min))[::-1]
            for at, (cost, to), (more, wide) in zip(lane, narrower, wider, strict=True):
                offer(at, cost, to)
                offer(at, more - ways.prices[at] * ways.starts[at], wide)
                offer(at, *elsewhere)
        return follow, best


class Course:
    """The best that a job can make of each option it might have now, when the part ``done`` of its work is done.

    ``cost[o]``: dollars of money and time to its end on option o. Entering an option now is not included.
    """

    def __init__(self, life: Life, done: float) -> None:
        self._life = life
        self._work = work_ahead(life.until, life.total, done)
        self._first = len(life.until) - len(self._work)
        left = self._work[0]
        self.cost = [
            then + left * unit for then, unit in zip(life.after[self._first], life.units[self._first], strict=True)
        ]

    def path(self, option: int) -> tuple[int, ...]:
        """The option in each phase from the present one on, when ``option`` is had now."""
        taken = [option]
        for follow in self._life.follow[self._first : -1]:
            taken.append(follow[taken[-1]])
        return tuple(taken)

    def point(self, option: int) -> tuple[float, float]:
        """Dollars and seconds to the job's end along that path, changes included, entering ``option`` not."""
        ways = self._life.ways
        money = seconds = 0.0
        before = option
        for left, speeds, at in zip(self._work, ways.speeds[self._first :], self.path(option), strict=True):
            if at != before:
                same_pool = any(at in lane and before in lane for lane in ways.lanes)
                money += ways.prices[at] * ways.restart + ways.start_up(before, at, same_pool)
                seconds += ways.restart
            money += ways.prices[at] * left / speeds[at]
            seconds += left / speeds[at]
            before = at
        return money, seconds

    def leaves_after(self, option: int) -> float | None:
        """Seconds until that path leaves the option; None if it never does."""
        seconds = 0.0
        for left, speeds, follow in zip(
            self._work, self._life.ways.speeds[self._first :], self._life.follow[self._first :], strict=True
        ):
            seconds += left / speeds[option]
            if follow[option] != option:
                return seconds
        return None
