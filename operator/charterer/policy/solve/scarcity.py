"""Exchange rates and scarcity prices where room in the pools binds too, not only money (docs/theory/policy.md).

    min Σ_b κ_b Σ_i w_i λ_i Σ_o x_io a_io    s.t.  Σ_o x_io = 1,    Σ λ x m ≤ b per budget,    Σ λ x u ≤ G per pool

With μ_b and σ_p the duals of its rows, a job picks the option that minimises  w·κ_b·a + μ_b·m + Σ_p σ_p·u_p.  With
θ_b = κ_b / μ_b and π_p = σ_p / μ_b that is  w·θ_b·a + m + Σ_p π_p·u_p:  what room is worth is added to its price.

κ_b is what budget b bids for a second where several budgets contest a pool. The equilibrium is κ_b = min(θ_b, C_b):
a dollar of each counts as one dollar and the room goes to the largest θ_b × weighted seconds saved, net of its cost,
but nobody bids more than C_b, its plain θ, what a second is worth to it with room for all. Without that bound budgets
that cannot spend their money for lack of room would bid without end; for them dollars count less than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.policy.solve.equilibrium import ClassBid, Equilibrium
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, Solution, solve
from charterer.policy.solve.hull import corners


@dataclass(frozen=True, slots=True)
class LpColumn:
    """One way to run a job to its end: dollars, seconds, and GPU-seconds by pool."""

    money: float
    seconds: float
    use: Mapping[PoolId, float]


@dataclass(frozen=True, slots=True)
class LpClass:
    """Jobs of a budget that choose alike: ``load`` jobs a second, each of ``weight``; at least one way."""

    budget: BudgetId
    load: float
    weight: float
    ways: Sequence[LpColumn]


@dataclass(frozen=True, slots=True)
class ScarceSolution:
    """What is best in the long run when budgets and pools bind.

    ``rates``: θ by budget, as ``exchange_rate.Solution`` defines them. ``prices``: dollars per GPU-second on top of the
    bill, 0 where there is room. ``dollars``: what a dollar of a budget counts where it contests a pool; 1 unless it has
    more money than room (below 1), lacks money (above), or the bids did not settle. ``mixes[i]``: way → share of class
    i's jobs. ``queued[i]``: the part of class i that must wait whatever is chosen, together the least load (by weight)
    that makes all fit. ``spends`` (dollars a second) and ``uses`` (GPUs) are of the whole load, those that wait
    included: above the budget or the capacity by what is lacking. ``short``: pools for want of which jobs wait.
    ``objective``: Σ w·λ·a, the mean weighted number of jobs at these choices.
    """

    fits: Mapping[BudgetId, BudgetFit]
    rates: Mapping[BudgetId, Rate]
    prices: Mapping[PoolId, float]
    dollars: Mapping[BudgetId, float]
    mixes: Sequence[Mapping[int, float]]
    queued: Sequence[float]
    spends: Mapping[BudgetId, float]
    uses: Mapping[PoolId, float]
    short: frozenset[PoolId]
    objective: float

    def price(self, budget: BudgetId, pool: PoolId) -> float:
        """What a GPU-second of the pool costs the budget's jobs on top of the bill, in the budget's own dollars."""
        return self.prices.get(pool, 0.0) / self.dollars[budget]


def pareto_front(ways: Sequence[LpColumn]) -> list[int]:
    """Indices of the ways that can win at some rate and prices: none is at most as dear, slow and wide in all pools.

    A way above the hull of (dollars, seconds) may win once a pool has a price. Of equal ways the first is kept.
    """
    kept: list[int] = []
    for new in sorted(range(len(ways)), key=lambda at: (ways[at].money, ways[at].seconds, sum(ways[at].use.values()))):
        way = ways[new]
        if not any(
            ways[old].seconds <= way.seconds
            and all(much <= way.use.get(pool, 0.0) for pool, much in ways[old].use.items())
            for old in kept
        ):
            kept.append(new)
    return sorted(kept)


def solve_scarce(
    classes: Sequence[LpClass], budgets: Mapping[BudgetId, float], capacity: Mapping[PoolId, float]
) -> ScarceSolution:
    """``budgets``: dollars a second; ``capacity``: GPUs; a pool that is not named has room for all.

    ValueError for a class without ways or of a budget that is not named.
    """
    for number, one in enumerate(classes):
        if not one.ways:
            raise ValueError(f"class {number} of budget {one.budget} has no way to run: leave it out")
        if one.budget not in budgets:
            raise ValueError(f"class {number} is of budget {one.budget}, which is not among the budgets: name its rate")
    plain = _Unconstrained(classes, budgets)
    uses = _uses(classes, plain.mixes)
    if all(used <= capacity.get(pool, used) for pool, used in uses.items()):
        return ScarceSolution(
            fits={budget: found.fit for budget, found in plain.found.items()},
            rates={budget: found.rate for budget, found in plain.found.items()},
            prices=dict.fromkeys(capacity, 0.0),
            dollars=dict.fromkeys(budgets, 1.0),
            mixes=plain.mixes,
            queued=_queued(classes, budgets, plain),
            spends={budget: found.spend for budget, found in plain.found.items()},
            uses=uses,
            short=frozenset(),
            objective=_objective(classes, plain.mixes),
        )
    return _contested(classes, budgets, capacity, plain)


def _objective(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> float:
    return sum(
        one.weight * one.load * sum(share * one.ways[way].seconds for way, share in mix.items())
        for one, mix in zip(classes, mixes, strict=True)
    )


def _uses(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]]) -> dict[PoolId, float]:
    uses: dict[PoolId, float] = {}
    for one, mix in zip(classes, mixes, strict=True):
        for way, share in mix.items():
            for pool, much in one.ways[way].use.items():
                uses[pool] = uses.get(pool, 0.0) + one.load * share * much
    return uses


def _queued(classes: Sequence[LpClass], budgets: Mapping[BudgetId, float], plain: _Unconstrained) -> list[float]:
    """Where only money lacks: jobs wait that cost most for their weight, until the cheapest ways are paid for."""
    excess = {
        budget: found.spend - max(budgets[budget], 0.0) if found.fit is BudgetFit.INFEASIBLE else 0.0
        for budget, found in plain.found.items()
    }
    costs = [one.ways[next(iter(mix))].money for one, mix in zip(classes, plain.mixes, strict=True)]
    queued = [0.0] * len(classes)
    paid = (at for at, one in enumerate(classes) if one.load * costs[at] > 0.0)
    for at in sorted(paid, key=lambda at: classes[at].weight / costs[at]):
        one, cost = classes[at], classes[at].load * costs[at]
        queued[at] = min(max(excess[one.budget] / cost, 0.0), 1.0)
        excess[one.budget] -= queued[at] * cost
    return queued


class _Unconstrained:
    """Each budget by itself, with room for all (``exchange_rate.solve`` on the hulls)."""

    def __init__(self, classes: Sequence[LpClass], budgets: Mapping[BudgetId, float]) -> None:
        self.found: dict[BudgetId, Solution] = {}
        mixes: list[dict[int, float]] = [{} for _ in classes]
        for budget, allowed in budgets.items():
            members = [at for at, one in enumerate(classes) if one.budget == budget]
            chains = [corners([(way.money, way.seconds) for way in classes[at].ways]) for at in members]
            demands = [_demand(classes[at], chain) for at, chain in zip(members, chains, strict=True)]
            self.found[budget] = found = solve(demands, allowed)
            for number, (at, chain) in enumerate(zip(members, chains, strict=True)):
                level = found.levels[number]
                mixes[at] = {chain[level]: 1.0}
                if number == found.mixed and found.mix > 0.0:
                    mixes[at] = {chain[level]: 1.0 - found.mix, chain[level + 1]: found.mix}
        self.mixes: list[dict[int, float]] = mixes


def _demand(one: LpClass, chain: Sequence[int]) -> Demand:
    ways = [one.ways[at] for at in chain]
    slopes = tuple((fast.money - cheap.money) / (cheap.seconds - fast.seconds) for cheap, fast in pairwise(ways))
    return Demand(slopes, tuple(way.money for way in ways), one.load, one.weight)


def _most(classes: Sequence[LpClass], mixes: Sequence[Mapping[int, float]], plain: Solution) -> float:
    """C: the plain θ; where that is 0 (nothing to choose, or too little money) what a second costs on average."""
    if plain.rate > 0.0:
        return plain.rate
    weighted = _objective(classes, mixes)
    return plain.spend / weighted if weighted > 0.0 < plain.spend else 1.0


def _contested(
    classes: Sequence[LpClass],
    budgets: Mapping[BudgetId, float],
    capacity: Mapping[PoolId, float],
    plain: _Unconstrained,
) -> ScarceSolution:
    """With rows for the budgets and the pools."""
    names, pools = list(budgets), list(capacity)
    row = {pool: len(names) + at for at, pool in enumerate(pools)}
    number = {budget: at for at, budget in enumerate(names)}
    bidders = [
        ClassBid(
            owner=number[one.budget],
            load=one.load,
            weight=one.weight,
            money=[way.money for way in one.ways],
            seconds=[way.seconds for way in one.ways],
            uses=[
                (
                    (number[one.budget], way.money),
                    *((row[pool], much) for pool, much in way.use.items() if much and pool in row),
                )
                for way in one.ways
            ],
            start=max(mix, key=mix.__getitem__),
        )
        for one, mix in zip(classes, plain.mixes, strict=True)
    ]
    most = []
    for budget in names:
        mine = [at for at, one in enumerate(classes) if one.budget == budget]
        most.append(_most([classes[at] for at in mine], [plain.mixes[at] for at in mine], plain.found[budget]))
    found = Equilibrium(bidders, [max(room, 0.0) for room in (*budgets.values(), *capacity.values())], most).settle()
    spends = dict.fromkeys(names, 0.0)
    for one, mix in zip(classes, found.mixes, strict=True):
        spends[one.budget] += one.load * sum(share * one.ways[way].money for way, share in mix.items())
    return ScarceSolution(
        fits={
            budget: BudgetFit.INFEASIBLE if lacks else BudgetFit.SURPLUS if spare else BudgetFit.MET
            for budget, lacks, spare in zip(names, found.lacking, found.spare, strict=True)
        },
        rates={
            budget: Rate(0.0 if lacks else bid / dollar)
            for budget, lacks, bid, dollar in zip(names, found.lacking, found.bids, found.dollars, strict=True)
        },
        prices=dict(zip(pools, found.prices, strict=True)),
        dollars=dict(zip(names, found.dollars, strict=True)),
        mixes=found.mixes,
        queued=found.queued,
        spends=spends,
        uses=_uses(classes, found.mixes),
        short=frozenset(pool for pool, short in zip(pools, found.short, strict=True) if short),
        objective=_objective(classes, found.mixes),
    )
