"""What lies ahead of a job: the best path through the phases of its life, by dynamic programming from the end.

An option is chosen for each phase, and changing it between phases costs a restart. For an exchange rate θ and a weight
w a path of dollars m and seconds a is best where w·θ·a + m is least. Going backwards through the phases, with x_p the
work of phase p and s, c an option's speed and price,

    J_p(o) = x_p·(w·θ + c_o)/s_p(o) + min( J_p+1(o),  min over o' of J_p+1(o') + change(o, o') )
    change(o, o') = (w·θ + c_o')·r + start-up of what o' needs more, in dollars

so that a change is charged in the plan what it costs when it is made; r is the seconds of a restart, or of a resize in
place between options of several whole nodes, for jobs that can do that. O(phases × options) a job
(docs/theory/policy.md)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from charterer.domain.ids import PoolId
from charterer.domain.option import Option

OptionKey = tuple[PoolId, int, str]
PoolOptions = tuple[Sequence[int], Sequence[float]]


def key_of(option: Option) -> OptionKey:
    """What makes two options the same way to run, whatever their price and speed were when they were chosen."""
    return option.pool, option.gpus, option.resource


@dataclass(frozen=True, slots=True)
class InPlace:
    """Runs whose number of equal pods may change while they run, which takes ``seconds`` each time.

    ``nodes``: GPUs of a node by pool. Pods are equal from two whole nodes on.
    """

    seconds: float
    nodes: Mapping[PoolId, int]

    def fleet(self, option: Option) -> PoolId | None:
        """Its pool, if it is of several whole nodes."""
        size = self.nodes.get(option.pool)
        return option.pool if size is not None and option.gpus >= 2 * size and option.gpus % size == 0 else None


@dataclass(frozen=True, slots=True)
class OptionTable:
    """A menu's options as numbers, made once.

    ``speeds[p][o]`` is the speed of option o in phase p, ``bills[o]`` its dollars a second, ``prices[o]`` what that
    counts when a job chooses: the same, unless its room is charged for too (``charged``). ``lanes`` groups options by
    pool, cheapest first. ``starts[o]``: seconds that a node of its pool is paid for before it is ready. ``places``:
    where an option is among them. ``in_place``: how a run changes without a restart; None where none can, and
    ``fleets[o]`` the pool of an option from and to which it can.
    """

    speeds: tuple[tuple[float, ...], ...]
    bills: tuple[float, ...]
    prices: tuple[float, ...]
    starts: tuple[float, ...]
    lanes: tuple[tuple[int, ...], ...]
    restart: float
    places: Mapping[OptionKey, int]
    in_place: InPlace | None
    fleets: tuple[PoolId | None, ...]

    @classmethod
    def of(cls, stages: Sequence[Sequence[Option]], restart: float, in_place: InPlace | None = None) -> OptionTable:
        """The ways of a menu: the same options for each phase, with that phase's speeds."""
        first = stages[0]
        lanes: dict[PoolId, list[int]] = {}
        for at, option in enumerate(first):
            lanes.setdefault(option.pool, []).append(at)
        prices = tuple(option.price.dollars_per_second for option in first)
        return cls(
            speeds=tuple(tuple(option.speed for option in stage) for stage in stages),
            bills=prices,
            prices=prices,
            starts=tuple(max(option.entry_seconds - restart, 0.0) for option in first),
            lanes=tuple(tuple(sorted(lane, key=prices.__getitem__)) for lane in lanes.values()),
            restart=restart,
            places={key_of(option): at for at, option in enumerate(first)},
            in_place=in_place,
            fleets=tuple(None if in_place is None else in_place.fleet(option) for option in first),
        )

    def fleet(self, option: Option) -> PoolId | None:
        """``fleets`` of an option, whether it is among them or not."""
        return None if self.in_place is None else self.in_place.fleet(option)

    def change(self, fleet: PoolId | None, to: int) -> float:
        """Seconds that a job does not train when it leaves an option of that fleet for ``to``."""
        if self.in_place is None or fleet is None or fleet != self.fleets[to]:
            return self.restart
        return self.in_place.seconds

    def charged(self, rents: Sequence[float]) -> OptionTable:
        """With ``rents[o]`` dollars a second on top of the bill, for choosing only."""
        prices = tuple(bill + rent for bill, rent in zip(self.bills, rents, strict=True))
        return replace(
            self, prices=prices, lanes=tuple(tuple(sorted(lane, key=prices.__getitem__)) for lane in self.lanes)
        )

    def start_up(self, prices: Sequence[float], here: int, to: int, same_pool: bool) -> float:
        """Dollars for nodes that boot while the job runs on: for all of ``to``, or what it is wider than ``here``."""
        more = prices[to] - prices[here] if same_pool else prices[to]
        return max(more, 0.0) * self.starts[to]


def work_of_phases(until: Sequence[float], total: float) -> tuple[float, ...]:
    """The work of each phase of a job of ``total`` work; phase p ends where the part ``until[p]`` of it is done."""
    return tuple((end - begin) * total for begin, end in zip([0.0, *until], until, strict=False))


def present(until: Sequence[float], total: float, done: float) -> tuple[int, float]:
    """The phase in which a job is, and the work left in it."""
    phase = min(bisect_right(until, done), len(until) - 1)
    return phase, max(until[phase] - done, 0.0) * total


class UnitCosts:
    """What a unit of work costs for which a second is worth ``worth`` = w·θ dollars, whatever the size of the job.

    ``units[p][o]``: dollars in phase p on option o, time included; ``least[p]``: the least of them.
    """

    def __init__(self, ways: OptionTable, until: Sequence[float], worth: float) -> None:
        self.ways = ways
        self.until = until
        self.worth = worth
        self.units = [
            [(worth + price) / speed for price, speed in zip(ways.prices, speeds, strict=True)]
            for speeds in ways.speeds
        ]
        self.least = [min(units, default=0.0) for units in self.units]

    @cached_property
    def _excess(self) -> list[list[float]]:
        """Of phase p and option o: ``excess`` from the end of p, of a job of one unit of work."""
        found = [[0.0] * len(self.ways.prices)]
        work = work_of_phases(self.until, 1.0)
        for left, units, least in zip(reversed(work[1:]), reversed(self.units), reversed(self.least), strict=False):
            found.append([then + left * (unit - least) for then, unit in zip(found[-1], units, strict=True)])
        return found[::-1]

    def excess(self, option: int, total: float, done: float) -> float:
        """What keeping ``option`` to the end costs more than the best option of each phase, if changing were free."""
        phase, left = present(self.until, 1.0, done)
        return total * (self._excess[phase][option] + left * (self.units[phase][option] - self.least[phase]))


class BackwardInduction:
    """The phases of a life of ``total`` work; jobs only differ in where they are in it (``CostToGo``).

    Of phase p and option o, ``after[p][o]`` are the dollars from the phase's end to the job's; ``follow[p][o]`` is the
    option of the next phase.
    """

    def __init__(self, rates: UnitCosts, total: float) -> None:
        self.ways = rates.ways
        self.until = rates.until
        self.units = rates.units
        self.worth = rates.worth
        self.total = total
        self.work = work_of_phases(self.until, total)
        options = len(self.ways.prices)
        self.after = [[0.0] * options]
        self.follow = [list(range(options))]
        if len(self.work) > 1:
            self._look_back()
        self._ahead: list[dict[int, tuple[float, float, float]]] = [{} for _ in self.work]

    def _look_back(self) -> None:
        """Fill ``after`` and ``follow`` from the last phase to the first."""
        ways, to_go = self.ways, self.after[0]
        boot = [price * start for price, start in zip(ways.prices, ways.starts, strict=True)]
        enter = [(self.worth + price) * ways.restart for price in ways.prices]
        lanes: list[PoolOptions] = [(lane, enter) for lane in ways.lanes]
        if ways.in_place is not None:
            enter = [(self.worth + price) * ways.in_place.seconds for price in ways.prices]
            lanes += [([at for at in lane if ways.fleets[at] is not None], enter) for lane in ways.lanes]
        for left, units in zip(reversed(self.work[1:]), reversed(self.units), strict=False):
            cost = [then + left * unit for then, unit in zip(to_go, units, strict=True)]
            follow, to_go = self._change_or_stay(cost, lanes, boot)
            self.after.append(to_go)
            self.follow.append(follow)
        self.after.reverse()
        self.follow.reverse()

    def _change_or_stay(
        self, to_go: Sequence[float], lanes: Sequence[PoolOptions], boot: Sequence[float]
    ) -> tuple[list[int], list[float]]:
        """For each option at a phase's end: the one that follows, and its dollars to go, the change included.

        ``lanes``: options of one pool with what changing to each among them costs, those with a restart first.
        ``boot``: what starting an option's nodes costs. In a lane options are in order of price, so the best narrower
        and the best wider one are running minima.
        """
        follow, best = list(range(len(to_go))), list(to_go)
        cheapest: list[tuple[float, int]] = []
        for lane, enter in lanes:
            least, to = inf, 0
            for at in lane:
                entered = to_go[at] + enter[at]
                if entered < least:
                    least, to = entered, at
                if least < best[at]:
                    best[at], follow[at] = least, to
            least, to = inf, 0
            for at in reversed(lane):
                rented = to_go[at] + enter[at] + boot[at]
                if rented <= least:
                    least, to = rented, at
                if least - boot[at] < best[at]:
                    best[at], follow[at] = least - boot[at], to
            cheapest.append((least, to))
        if len(self.ways.lanes) > 1:
            entered_at = cheapest[: len(self.ways.lanes)]
            first, second = sorted((cost, number) for number, (cost, _) in enumerate(entered_at))[:2]
            for number, lane in enumerate(self.ways.lanes):
                least, to = cheapest[(second if number == first[1] else first)[1]]
                for at in lane:
                    if least < best[at]:
                        best[at], follow[at] = least, to
        return follow, best

    def ahead(self, phase: int, option: int) -> tuple[float, float, float]:
        """From the end of ``phase`` on ``option`` to the job's end, changes included: billed dollars, seconds, and
        dollars that room counts on top of the bill.
        """
        trail = []
        while (known := self._ahead[phase].get(option)) is None and phase + 1 < len(self.work):
            trail.append((phase, option))
            phase, option = phase + 1, self.follow[phase][option]
        money, seconds, room = known or (0.0, 0.0, 0.0)
        for before, had in reversed(trail):
            more, longer, extra = self._leg(before + 1, had, self.follow[before][had])
            money, seconds, room = money + more, seconds + longer, room + extra
            self._ahead[before][had] = money, seconds, room
        return money, seconds, room

    def _leg(self, phase: int, before: int, option: int) -> tuple[float, float, float]:
        """The same of a whole phase on ``option`` for a job that had ``before``."""
        ways = self.ways
        seconds = self.work[phase] / ways.speeds[phase][option]
        money = self._paid(ways.bills, seconds, before, option)
        room = 0.0 if ways.prices is ways.bills else self._paid(ways.prices, seconds, before, option) - money
        return money, seconds + (ways.change(ways.fleets[before], option) if option != before else 0.0), room

    def _paid(self, prices: Sequence[float], seconds: float, before: int, option: int) -> float:
        ways = self.ways
        money = prices[option] * seconds
        if option != before:
            same_pool = any(option in lane and before in lane for lane in ways.lanes)
            money += prices[option] * ways.change(ways.fleets[before], option)
            money += ways.start_up(prices, before, option, same_pool)
        return money

    @cached_property
    def leaves(self) -> list[list[int | None]]:
        """Of phase p and option o: the first phase from p on after which the path leaves o; None if it never does."""
        found: list[list[int | None]] = []
        later: list[int | None] = [None] * len(self.ways.prices)
        for phase in range(len(self.work) - 1, -1, -1):
            follow = self.follow[phase]
            later = [last if at == to else phase for at, (to, last) in enumerate(zip(follow, later, strict=True))]
            found.append(later)
        return found[::-1]


class CostToGo:
    """The best that a job can make of each option it might have now, when the part ``done`` of its work is done.

    ``cost[o]``: dollars of money and time to its end on option o. Entering an option now is not included.
    """

    def __init__(self, life: BackwardInduction, done: float) -> None:
        self._life = life
        self._first, self._left = present(life.until, life.total, done)
        self.cost = [
            then + self._left * unit
            for then, unit in zip(life.after[self._first], life.units[self._first], strict=True)
        ]

    def path(self, option: int) -> tuple[int, ...]:
        """The option in each phase from the present one on, when ``option`` is had now."""
        taken = [option]
        for follow in self._life.follow[self._first : -1]:
            taken.append(follow[taken[-1]])
        return tuple(taken)

    def point(self, option: int) -> tuple[float, float]:
        """Billed dollars and seconds to the job's end along that path, changes included, entering ``option`` not."""
        ways = self._life.ways
        now = self._left / ways.speeds[self._first][option]
        money, seconds, _ = self._life.ahead(self._first, option)
        return money + ways.bills[option] * now, seconds + now

    def room(self, option: int) -> float:
        """What ``cost`` counts on that path on top of its bill, in dollars."""
        ways = self._life.ways
        if ways.prices is ways.bills:
            return 0.0
        now = self._left / ways.speeds[self._first][option]
        return self._life.ahead(self._first, option)[2] + (ways.prices[option] - ways.bills[option]) * now

    def leaves_after(self, option: int) -> float | None:
        """Seconds until that path leaves the option; None if it never does."""
        last = self._life.leaves[self._first][option]
        if last is None:
            return None
        speeds, work = self._life.ways.speeds, self._life.work
        later = range(self._first + 1, last + 1)
        return self._left / speeds[self._first][option] + sum(work[at] / speeds[at][option] for at in later)
