"""The best path through the phases of a job's life, by dynamic programming from the end.

An option is chosen for each phase, and a change of the option between phases costs a restart. For an exchange rate θ
and a weight w, the best path is the path with the least w·θ·a + m, where m is its dollars and a its seconds. The
computation goes backwards through the phases. x_p is the work of phase p, and s and c are an option's speed and
price:

    J_p(o) = x_p·(w·θ + c_o)/s_p(o) + min( J_p+1(o),  min over o' of J_p+1(o') + change(o, o') )
    change(o, o') = (w·θ + c_o')·r + start-up of the nodes that o' has more, in dollars

So the plan charges for a change exactly what the change costs when it is made. r is the seconds of a restart. If a
job can be resized in place, r is the seconds of a resize between options of whole nodes. In a resize, the pods that
join get ready beforehand, which costs the difference of the prices for r_restart − r seconds. The computation takes
O(phases × options) steps for a job (docs/theory/policy.md, section 2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from charterer.domain.ids import PoolId
from charterer.domain.option import Option

OptionKey = tuple[PoolId, int, str, str]
PoolOfVariant = tuple[PoolId, str]
"""A pool and a variant. A run keeps both while it is resized in place."""
PoolOptions = tuple[Sequence[int], Sequence[float], Sequence[float]]
"""Options of one pool, cheapest first, and two lists of dollars by option: the cost of a change to the option, and
the cost of starting all of its nodes. A change to a wider option pays the difference of the starting costs."""


def key_of(option: Option) -> OptionKey:
    """The key of an option, which does not depend on its price and speed."""
    return option.pool, option.gpus, option.resource, option.variant


@dataclass(frozen=True, slots=True)
class InPlaceResize:
    """A change of the number of equal pods of a run while it runs.

    ``seconds``: seconds for which training stands still.
    ``nodes``: GPUs of a node of each pool.
    ``fewest``: the least number of whole nodes that a run must have so that it can be changed: 2 if its launcher
    needs a peer to go on, 1 if its trainer forms its groups itself.
    """

    seconds: float
    nodes: Mapping[PoolId, int]
    fewest: int = 2

    def resizable_pool(self, option: Option) -> PoolOfVariant | None:
        """The option's pool and variant if the option consists of enough whole nodes; otherwise None."""
        size = self.nodes.get(option.pool)
        whole = size is not None and option.gpus >= self.fewest * size and option.takes % size == 0 and not option.empty
        return (option.pool, option.variant) if whole else None


@dataclass(frozen=True, slots=True)
class OptionTable:
    """A menu's options as numbers.

    ``speeds[p][o]`` is the speed of option o in phase p, ``prices[o]`` its dollars a second.
    ``pool_options`` groups options by pool, cheapest first. ``start_seconds[o]``: seconds for which a node of the
    option's pool is paid before it is ready. ``restart``: seconds of a restart. ``index``: the number of an option.
    ``in_place``: how a run changes without a restart; None if no run can. ``resizable_pools[o]``: the pool and
    variant of an option that can change in place; otherwise None.
    ``narrowest``: by pool, the fewest GPUs that an option takes.
    """

    speeds: tuple[tuple[float, ...], ...]
    prices: tuple[float, ...]
    start_seconds: tuple[float, ...]
    pool_options: tuple[tuple[int, ...], ...]
    restart: float
    index: Mapping[OptionKey, int]
    in_place: InPlaceResize | None
    resizable_pools: tuple[PoolOfVariant | None, ...]
    narrowest: Mapping[PoolId, int]

    @classmethod
    def of(
        cls, stages: Sequence[Sequence[Option]], restart: float, in_place: InPlaceResize | None = None
    ) -> OptionTable:
        """The table of a menu. ``stages``: for each phase, the same options with that phase's speeds."""
        first = stages[0]
        pool_options: dict[PoolId, list[int]] = {}
        for at, option in enumerate(first):
            pool_options.setdefault(option.pool, []).append(at)
        prices = tuple([option.price.dollars_per_second for option in first])
        return cls(
            speeds=tuple([tuple([option.speed for option in stage]) for stage in stages]),
            prices=prices,
            start_seconds=tuple([max(option.entry_seconds - restart, 0.0) for option in first]),
            pool_options=tuple([tuple(sorted(lane, key=prices.__getitem__)) for lane in pool_options.values()]),
            restart=restart,
            index={(option.pool, option.gpus, option.resource, option.variant): at for at, option in enumerate(first)},
            in_place=in_place,
            resizable_pools=(None,) * len(first)
            if in_place is None
            else tuple([in_place.resizable_pool(option) for option in first]),
            narrowest={pool: min([first[at].takes for at in lane]) for pool, lane in pool_options.items()},
        )

    def resizable_pool(self, option: Option) -> PoolOfVariant | None:
        """The pool and variant in which an option can change in place, even if the table lacks the option; None if it
        cannot change in place."""
        return None if self.in_place is None else self.in_place.resizable_pool(option)

    def change_seconds(self, resizable_pool: PoolOfVariant | None, to: int) -> float:
        """Seconds without training when a job changes from an option of ``resizable_pool`` to option ``to``."""
        if self.in_place is None or resizable_pool is None or resizable_pool != self.resizable_pools[to]:
            return self.restart
        return self.in_place.seconds

    @property
    def joining_seconds(self) -> float:
        """Seconds for which joining pods get ready and are paid for while the run trains at its former width.

        The pods start as after a restart. The pause of training is not part of these seconds.
        """
        return 0.0 if self.in_place is None else max(self.restart - self.in_place.seconds, 0.0)

    def joining_cost(self, here: float, resizable_pool: PoolOfVariant | None, to: int) -> float:
        """Dollars for pods that get ready to join a run that costs ``here`` dollars a second; 0 for a restart."""
        if self.in_place is None or resizable_pool is None or resizable_pool != self.resizable_pools[to]:
            return 0.0
        return max(self.prices[to] - here, 0.0) * self.joining_seconds

    def start_up_cost(self, here: int, to: int, same_pool: bool) -> float:
        """Dollars for booting nodes while the job runs on: for all nodes of ``to``, or for the added nodes in the
        same pool."""
        more = self.prices[to] - self.prices[here] if same_pool else self.prices[to]
        return max(more, 0.0) * self.start_seconds[to]


def work_of_phases(until: Sequence[float], total: float) -> tuple[float, ...]:
    """The work of each phase of a job of ``total`` work. Phase p ends when the fraction ``until[p]`` of the work is
    done."""
    return tuple((end - begin) * total for begin, end in zip([0.0, *until], until, strict=False))


def phase_at(until: Sequence[float], total: float, done: float) -> tuple[int, float]:
    """The job's present phase, and the remaining work in this phase."""
    phase = min(bisect_right(until, done), len(until) - 1)
    return phase, max(until[phase] - done, 0.0) * total


class UnitCosts:
    """Dollars for a unit of work of jobs of any size whose life is worth ``worth`` = w·θ dollars a second.

    ``costs[p][o]``: dollars in phase p on option o, including the worth of time. ``least_costs[p]``: the least of
    these over all options.
    """

    def __init__(self, table: OptionTable, until: Sequence[float], worth: float) -> None:
        self.table = table
        self.until = until
        self.worth = worth
        self.costs = [
            [(worth + price) / speed for price, speed in zip(table.prices, speeds, strict=True)]
            for speeds in table.speeds
        ]
        self.least_costs = [min(costs, default=0.0) for costs in self.costs]

    @cached_property
    def _excess(self) -> list[list[float]]:
        """For each phase and option, ``excess`` from the phase's end on, for a job of one unit of work."""
        excesses = [[0.0] * len(self.table.prices)]
        phases = zip(work_of_phases(self.until, 1.0), self.costs, self.least_costs, strict=True)
        for left, costs, least in list(phases)[:0:-1]:
            excesses.append([then + left * (cost - least) for then, cost in zip(excesses[-1], costs, strict=True)])
        return excesses[::-1]

    def excess(self, option: int, total: float, done: float) -> float:
        """Dollars by which ``option``, kept to the end, costs more than the best option of each phase would if
        changes were free."""
        phase, left = phase_at(self.until, 1.0, done)
        return total * (self._excess[phase][option] + left * (self.costs[phase][option] - self.least_costs[phase]))


class BackwardInduction:
    """The best continuations of jobs of ``total`` work, from any progress on (``CostToGo``).

    ``after_phase[p][o]``: dollars from the end of phase p on option o to the job's end, including the worth of time.
    ``next_option[p][o]``: the option of the phase after p.
    """

    def __init__(self, unit_costs: UnitCosts, total: float) -> None:
        self.table = unit_costs.table
        self.until = unit_costs.until
        self.costs = unit_costs.costs
        self.worth = unit_costs.worth
        self.total = total
        self.work = work_of_phases(self.until, total)
        options = len(self.table.prices)
        self.after_phase = [[0.0] * options]
        self.next_option = [list(range(options))]
        if len(self.work) > 1:
            self._go_backwards()
        self._known: list[dict[int, tuple[float, float]]] = [{} for _ in self.work]

    def _go_backwards(self) -> None:
        """Fill ``after_phase`` and ``next_option`` from the last phase to the first."""
        table, to_go = self.table, self.after_phase[0]
        boot = [price * start for price, start in zip(table.prices, table.start_seconds, strict=True)]
        enter = [(self.worth + price) * table.restart for price in table.prices]
        pool_options: list[PoolOptions] = [(pool, enter, boot) for pool in table.pool_options]
        if table.in_place is not None:
            enter = [(self.worth + price) * table.in_place.seconds for price in table.prices]
            resizable: dict[PoolOfVariant, list[int]] = {}
            for at in (at for pool in table.pool_options for at in pool):
                if (where := table.resizable_pools[at]) is not None:
                    resizable.setdefault(where, []).append(at)
            join = [start + price * table.joining_seconds for start, price in zip(boot, table.prices, strict=True)]
            pool_options += [(pool, enter, join) for pool in resizable.values()]
        for work, unit_costs in zip(reversed(self.work[1:]), reversed(self.costs), strict=False):
            phase_costs = [then + work * cost for then, cost in zip(to_go, unit_costs, strict=True)]
            next_option, to_go = self._change_or_stay(phase_costs, pool_options)
            self.after_phase.append(to_go)
            self.next_option.append(next_option)
        self.after_phase.reverse()
        self.next_option.reverse()

    def _change_or_stay(
        self, to_go: Sequence[float], pool_options: Sequence[PoolOptions]
    ) -> tuple[list[int], list[float]]:
        """For each option at a phase's end: the option of the next phase, and the dollars from there to the job's
        end, including the change.

        ``to_go``: for each option of the next phase, the dollars from the beginning of that phase. ``pool_options``:
        groups that change by a restart, then groups that change in place. The options of a group are in order of price,
        so the best narrower option and the best wider option are found as running minima.
        """
        next_option, best = list(range(len(to_go))), list(to_go)
        cheapest: list[tuple[float, int]] = []
        for pool, enter, boot in pool_options:
            least, to = inf, 0
            for at in pool:
                entered = to_go[at] + enter[at]
                if entered < least:
                    least, to = entered, at
                if least < best[at]:
                    best[at], next_option[at] = least, to
            least, to = inf, 0
            for at in reversed(pool):
                rented = to_go[at] + enter[at] + boot[at]
                if rented <= least:
                    least, to = rented, at
                if least - boot[at] < best[at]:
                    best[at], next_option[at] = least - boot[at], to
            cheapest.append((least, to))
        if len(self.table.pool_options) > 1:
            entered_at = cheapest[: len(self.table.pool_options)]
            first, second = sorted((cost, number) for number, (cost, _) in enumerate(entered_at))[:2]
            for number, pool in enumerate(self.table.pool_options):
                least, to = cheapest[(second if number == first[1] else first)[1]]
                for at in pool:
                    if least < best[at]:
                        best[at], next_option[at] = least, to
        return next_option, best

    def cost_to_go(self, phase: int, option: int) -> tuple[float, float]:
        """Dollars and seconds from the end of ``phase`` on ``option`` to the job's end, including changes."""
        trail = []
        while (known := self._known[phase].get(option)) is None and phase + 1 < len(self.work):
            trail.append((phase, option))
            phase, option = phase + 1, self.next_option[phase][option]
        money, seconds = known or (0.0, 0.0)
        for earlier, here in reversed(trail):
            more, longer = self._phase(earlier + 1, here, self.next_option[earlier][here])
            money, seconds = money + more, seconds + longer
            self._known[earlier][here] = money, seconds
        return money, seconds

    def _phase(self, phase: int, before: int, option: int) -> tuple[float, float]:
        """Dollars and seconds of a whole phase on ``option`` after a phase on ``before``."""
        table = self.table
        seconds = self.work[phase] / table.speeds[phase][option]
        money = table.prices[option] * seconds
        if option == before:
            return money, seconds
        same_pool = any(option in pool and before in pool for pool in table.pool_options)
        change = table.change_seconds(table.resizable_pools[before], option)
        money += table.prices[option] * change
        money += table.start_up_cost(before, option, same_pool)
        money += table.joining_cost(table.prices[before], table.resizable_pools[before], option)
        return money, seconds + change

    @cached_property
    def switch_phase(self) -> list[list[int | None]]:
        """For each phase p and option o, the first phase from p on after which the path leaves o; None if it never
        leaves o."""
        phases: list[list[int | None]] = []
        later: list[int | None] = [None] * len(self.table.prices)
        for phase in range(len(self.work) - 1, -1, -1):
            following = zip(self.next_option[phase], later, strict=True)
            later = [last if at == to else phase for at, (to, last) in enumerate(following)]
            phases.append(later)
        return phases[::-1]


class CostToGo:
    """The best continuation from each option, for a job of whose work the fraction ``done`` is done.

    ``cost[o]``: dollars from option o to the job's end, including the worth of time, but not the entry into the
    option now.
    """

    def __init__(self, induction: BackwardInduction, done: float) -> None:
        self._induction = induction
        self._first, self._left = phase_at(induction.until, induction.total, done)
        self.cost = [
            then + self._left * unit
            for then, unit in zip(induction.after_phase[self._first], induction.costs[self._first], strict=True)
        ]

    def path(self, option: int) -> tuple[int, ...]:
        """The option in each phase from the present one on, for a job that has ``option`` now."""
        path = [option]
        for next_option in self._induction.next_option[self._first : -1]:
            path.append(next_option[path[-1]])
        return tuple(path)

    def point(self, option: int) -> tuple[float, float]:
        """Dollars and seconds to the job's end on the path from ``option``. Later changes are included, but not the
        entry into ``option`` now."""
        table = self._induction.table
        now = self._left / table.speeds[self._first][option]
        money, seconds = self._induction.cost_to_go(self._first, option)
        return money + table.prices[option] * now, seconds + now

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """Dollars and seconds of all options."""
        table = self._induction.table
        if self._first + 1 < len(self._induction.work):
            each = [self.point(option) for option in range(len(table.prices))]
            return [money for money, _ in each], [seconds for _, seconds in each]
        seconds = [self._left / speed for speed in table.speeds[self._first]]
        return [price * time for price, time in zip(table.prices, seconds, strict=True)], seconds

    def seconds_until_switch(self, option: int) -> float | None:
        """Seconds until the best path leaves ``option``; None if it never does."""
        last = self._induction.switch_phase[self._first][option]
        if last is None:
            return None
        speeds, work = self._induction.table.speeds, self._induction.work
        later = range(self._first + 1, last + 1)
        return self._left / speeds[self._first][option] + sum(work[at] / speeds[at][option] for at in later)
