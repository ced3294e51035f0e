"""Budgets that contest the same room: what each bids for a second, and what room and dollars then are worth.

The linear program (``mixture``) has a row for each budget and then one for each pool, and minimises Σ κ_b·w·λ·a. Its
duals μ_b and σ_p say what a budget's dollar and a pool's GPU-second are worth in the money of the bids κ. Three costs
come one after the other, each without worsening those before:

1. if not all jobs fit: the load that waits, by weight;
2. time, at the bids of the equilibrium  κ_b = min(C_b, κ_b / μ_b);
3. the dollars of budgets that have some left (among choices that are equally fast).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

from charterer.policy.solve.simplex import Costs, GubSimplex, LpColumns, Uses, inverted

_ROUNDS = 40
"""Newton's method takes two or three. Bids that cycle are an answer too: then dollars count more or less than one."""
_SETTLED = 1e-11
_DEAR = 3.0
"""Waiting first costs this many times a class's best way; only if jobs then wait is it asked exactly who must."""
_WITHIN = 1.0 - 1e-9
"""Just inside the range of rates for which the choice is the best, as ``exchange_rate`` reports a surplus."""
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class ClassBid:
    """A class: the number of its budget, jobs a second, weight; by way dollars, seconds, and uses of budget and pools.

    Rows are numbered through budgets, then pools; the first use is the dollars of its budget's row.
    ``start``: the way to try first.
    """

    owner: int
    load: float
    weight: float
    money: Sequence[float]
    seconds: Sequence[float]
    uses: Sequence[Uses]
    start: int


@dataclass(frozen=True, slots=True)
class EquilibriumPrices:
    """``bids``, ``dollars`` and ``lacking`` by budget; ``prices`` and ``short`` by pool.

    A job's best way minimises w·bid·a + dollar·m + Σ price·u. ``lacking`` and ``short``: for want of which jobs wait.
    ``spare``: budgets that have money left. ``mixes``: way → share by class, of those served; ``queued``: who waits.
    """

    bids: Sequence[float]
    dollars: Sequence[float]
    prices: Sequence[float]
    lacking: Sequence[bool]
    spare: Sequence[bool]
    short: Sequence[bool]
    mixes: Sequence[Mapping[int, float]]
    queued: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Level:
    """A cost that was minimised, and the rows' prices there."""

    costs: Costs
    prices: Sequence[float]

    def plus(self, part: float, lower: _Level) -> _Level:
        """With so much of a lesser cost."""
        costs = [
            [one + part * two for one, two in zip(ours, theirs, strict=True)]
            for ours, theirs in zip(self.costs, lower.costs, strict=True)
        ]
        return _Level(costs, [p + part * q for p, q in zip(self.prices, lower.prices, strict=True)])

    def scaled(self, factor: float) -> _Level:
        """In another unit."""
        return _Level([[factor * cost for cost in one] for one in self.costs], [factor * p for p in self.prices])


def _between(low: Sequence[float], high: Sequence[float], part: float) -> list[float]:
    """So far on the way from one to the other, by ratio."""
    return [one * (two / one) ** part for one, two in zip(low, high, strict=True)]


class Equilibrium:
    """One program. ``rooms``: dollars a second by budget, then GPUs by pool; ``most``: C by budget."""

    def __init__(self, bidders: Sequence[ClassBid], rooms: Sequence[float], most: Sequence[float]) -> None:
        self._bidders, self._most, self._budgets = bidders, most, len(most)
        self._mixture = GubSimplex([LpColumns(one.load, one.uses) for one in bidders], rooms)

    def settle(self) -> EquilibriumPrices:
        """Solve it."""
        mixture, must = self._mixture, None
        mixture.start([one.start for one in self._bidders])
        waiting = [
            _DEAR * min(one.weight * self._most[one.owner] * a + m for m, a in zip(one.money, one.seconds, strict=True))
            for one in self._bidders
        ]
        mixture.minimise(self._time(self._most, waiting))
        if any(self._queued(at) for at in range(len(self._bidders))):
            waiting = [0.0] * len(self._bidders)
            costs = [[*(0.0 for _ in one.money), one.weight] for one in self._bidders]
            mixture.minimise(costs)
            must = _Level(costs, mixture.prices)
            mixture.settle()
        lacking = [must is not None and price > 0.0 for price in (must.prices if must else mixture.prices)]
        bids = self._equilibrium(waiting, lacking)
        time = _Level(self._time(bids, waiting), mixture.prices)
        spare = [
            price <= 0.0 and not lacks for price, lacks in zip(time.prices[: self._budgets], lacking, strict=False)
        ]
        if not any(spare):
            return self._read(bids, spare, must, time, None)
        mixture.settle()
        costs = [[*(m if spare[one.owner] else 0.0 for m in one.money), 0.0] for one in self._bidders]
        mixture.minimise(costs)
        return self._read(bids, spare, must, time, _Level(costs, mixture.prices))

    # -- bids ------------------------------------------------------------------------------------------------------

    def _time(self, bids: Sequence[float], waiting: Sequence[float]) -> Costs:
        """w·κ·a by class and way, and what waiting costs."""
        costs: list[list[float]] = []
        for one, wait in zip(self._bidders, waiting, strict=True):
            worth = one.weight * bids[one.owner]
            costs.append([*(worth * seconds for seconds in one.seconds), wait])
        return costs

    def _queued(self, of: int) -> float:
        return self._mixture.shares(of).get(len(self._bidders[of].money), 0.0)

    def _equilibrium(self, waiting: Sequence[float], lacking: Sequence[bool]) -> list[float]:
        """κ by budget; the mixture is left optimal for them.

        Newton's method on the duals, which are continuous and piecewise linear in the bids; a step after which the
        bids are further from what they aim at is taken back, and made half as long towards the aim itself.
        """
        bids, best, nearest, stride = list(self._most), list(self._most), inf, 1.0
        for _ in range(_ROUNDS):
            self._mixture.minimise(self._time(bids, waiting))
            aims = self._aims(bids, lacking)
            far = max((abs(log(aim / bid)) for aim, bid in zip(aims, bids, strict=True)), default=0.0)
            if far <= _SETTLED:
                return bids
            if far < nearest:
                best, towards, nearest, stride = bids, aims, far, min(2.0 * stride, 1.0)
                bids = self._exact(aims, waiting) or _between(bids, aims, 0.5)
            else:
                stride /= 2.0
                bids = _between(best, towards, stride)
        self._mixture.minimise(self._time(best, waiting))
        return best

    def _aims(self, bids: Sequence[float], lacking: Sequence[bool]) -> list[float]:
        """min(C, κ / μ) of budgets that share a pool with a price; C of others, whose bids change nothing."""
        prices = self._mixture.prices
        rivals = {at for group in self._groups(prices[self._budgets :]) if len(group) > 1 for at in group}
        return [
            min(most, bid / price) if at in rivals and price > 0.0 and not lacks else most
            for at, (bid, most, price, lacks) in enumerate(zip(bids, self._most, prices, lacking, strict=False))
        ]

    def _exact(self, aims: Sequence[float], waiting: Sequence[float]) -> list[float] | None:
        """The bids below C at which a dollar of each counts one with the present mixtures; None if there are none."""
        free = [at for at, (aim, most) in enumerate(zip(aims, self._most, strict=True)) if aim < most]
        base = self._prices_at([0.0 if at in free else aim for at, aim in enumerate(aims)], waiting)
        nothing = [0.0] * len(waiting)
        units = [self._prices_at([float(at == only) for at in range(self._budgets)], nothing) for only in free]
        solved = inverted([[unit[row] for unit in units] for row in free])
        if not free or solved is None:
            return list(aims)
        bids = list(aims)
        for at, line in zip(free, solved, strict=True):
            bids[at] = sum(part * (1.0 - base[row]) for part, row in zip(line, free, strict=True))
            if not 0.0 < bids[at] <= self._most[at]:
                return None
        return bids

    def _prices_at(self, bids: Sequence[float], waiting: Sequence[float]) -> list[float]:
        """The rows' prices at other bids with the present mixtures."""
        bidders = self._bidders

        def cost(of: int, way: int) -> float:
            one = bidders[of]
            return waiting[of] if way == len(one.money) else bids[one.owner] * one.weight * one.seconds[way]

        return self._mixture.prices_at(cost)

    def _groups(self, prices: Sequence[float]) -> list[list[int]]:
        """Budgets that are connected by pools with a price which their ways use; each budget is in one group."""
        group = list(range(self._budgets))
        holder: dict[int, int] = {}
        for one in self._bidders:
            for row in {row for use in one.uses for row, _ in use[1:] if prices[row - self._budgets] > 0.0}:
                mine, theirs = group[one.owner], group[holder.setdefault(row, one.owner)]
                if mine != theirs:
                    group = [theirs if each == mine else each for each in group]
        return [[at for at, each in enumerate(group) if each == name] for name in sorted(set(group))]

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read(
        self, bids: Sequence[float], spare: Sequence[bool], must: _Level | None, time: _Level, money: _Level | None
    ) -> EquilibriumPrices:
        """All three costs as one, so that its prices say every choice."""
        count = self._budgets
        part, whole = 0.0, time
        if money is not None:
            part = min(1.0, self._most_of(time, money))
            whole = time.plus(part, money)
        if must is not None:
            little = self._most_of(must, whole)
            whole = must.plus(little, whole).scaled(1.0 / little)
        prices = [max(price, 0.0) for price in whole.prices]
        dollars = [price + part * has for price, has in zip(prices, spare, strict=False)]
        queued_for = [price > 0.0 for price in must.prices] if must else [False] * len(prices)
        scaled = list(bids)
        for group in self._groups(prices[count:]):
            largest = max((dollars[at] for at in group if not queued_for[at]), default=0.0) or 1.0
            for at in group:
                dollars[at] /= largest
                scaled[at] /= largest
            for row in {row for one in self._bidders if one.owner in group for use in one.uses for row, _ in use[1:]}:
                if prices[row] > 0.0:
                    prices[row] /= largest
        queued = [self._queued(at) for at in range(len(self._bidders))]
        return EquilibriumPrices(
            bids=scaled,
            dollars=dollars,
            prices=prices[count:],
            lacking=queued_for[:count],
            spare=spare,
            short=queued_for[count:],
            mixes=[self._mix(at, whole) for at in range(len(self._bidders))],
            queued=queued,
        )

    def _mix(self, of: int, whole: _Level) -> dict[int, float]:
        """The shares of those of a class that are served; where none is, what the first would take."""
        wait = len(self._bidders[of].money)
        shares = {way: share for way, share in self._mixture.shares(of).items() if way != wait}
        if not shares:
            values = self._values(of, whole)[:wait]
            return {values.index(min(values)): 1.0}
        served = sum(shares.values())
        return {way: share / served for way, share in shares.items()}

    def _values(self, of: int, level: _Level) -> list[float]:
        """Cost and prices of each way."""
        return [
            cost + sum(level.prices[row] * much for row, much in uses)
            for cost, uses in zip(level.costs[of], [*self._bidders[of].uses, ()], strict=True)
        ]

    def _most_of(self, upper: _Level, lower: _Level) -> float:
        """How much of a lesser cost can be added before a choice or a row's price would change; 1 if nothing would."""
        most = [price / -less for price, less in zip(upper.prices, lower.prices, strict=True) if less < 0.0 < price]
        for of in range(len(self._bidders)):
            key = self._mixture.key(of)
            ours, theirs = self._values(of, upper), self._values(of, lower)
            rounding = _ROUNDING * max(map(abs, theirs))
            most += [
                (one - ours[key]) / (theirs[key] - two)
                for one, two in zip(ours, theirs, strict=True)
                if two < theirs[key] - rounding and one > ours[key]
            ]
        return min(most) * _WITHIN if most else 1.0
