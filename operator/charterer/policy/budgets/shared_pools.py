"""Pools too small for what every budget would choose by itself: what their room is worth, and what jobs take then.

Every budget is solved alone first (``standing``), as if there were room for all. Where what all of that would hold in
the long run fits into the pools, it is the answer, to the last bit. Else the linear program of ``scarcity`` shares room
and money out together, and jobs choose by its exchange rates and with its prices on top of their bills.

Budgets that only observe share what those that enforce leave, as they do when the plan is carried out. Budgets that are
being deleted, or whose exchange rate is fixed, take part in nothing: what they would hold is not there for the others.

Two things make the program come more than once:

- Jobs in sight (``load``) are N, not λ: with other options they take longer, and then λ = N / a is smaller. Each
  round corrects λ by the secant through the last two, on a logarithmic scale.
- Of paths over several phases only some are in the program. Each round adds the one that each group would take at the
  prices found, if it is new (column generation).

After ``_ROUNDS`` the last answer stands: it fits into the pools and budgets for the λ it was found with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.plan import PoolVerdict
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.budgets import forecast_inputs
from charterer.policy.budgets.cost_calibration import corrected
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.pool_usage import PathUsage, expected_use, lp_column, path_usages, use_of
from charterer.policy.budgets.solution import BudgetSolution, GroupAssignment, PathShare, ScarcePool, dearer
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.nodes.pool_size import PoolSize, pool_sizes
from charterer.policy.nodes.rental_index import RentalIndex
from charterer.policy.options.option_value import JobPosition, OptionValues, ScarcityCharge
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.policy.solve.hull import Path
from charterer.policy.solve.phase_dp import key_of
from charterer.policy.solve.scarcity import LpClass, LpColumn, ScarceSolution, solve_scarce

_ROUNDS = 6
_SETTLED = 0.02
"""A change of λ below this part moves less than a job of fifty."""
_BETTER = 1e-6
"""A path must be better by this part to be worth another round."""
_TAKEN = 0.75
"""What a job is charged of the price. With random arrivals a pool is not always full. Where the load just fills it, who
takes room that is free takes about half a job's from the others (Erlang's loss formula: n·(B(n−1) − B(n)) is 0.50 to
0.55 for any n), and where far more want it, all of one; pools with a price are in between. With the whole price room
stays empty, with half of it too many take it who need it least (tests/bench/full_pool.py)."""
_FITS = 1.0 + 1e-9
_ALL = 1.0 - 1e-9


def solve_with_pool_limits(
    standings: Sequence[BudgetSolution], snapshot: Snapshot, fleet: RentalIndex
) -> list[BudgetSolution]:
    """The standings, each solved alone, as they are with the room there is; in the same order."""
    if not any(_chooses(one) for one in standings):
        return [*standings]
    room = pool_sizes(snapshot, fleet)
    left = {pool: float(one.gpus) for pool, one in room.items()}
    held: dict[BudgetId, Mapping[PoolId, float]] = {one.budget.id: _uses(one) for one in standings}
    found = {one.budget.id: one for one in standings}
    _take(left, *(held[one.budget.id] for one in standings if not _chooses(one)))
    for mode in (Mode.ENFORCE, Mode.OBSERVE):
        together = [one.budget.id for one in standings if _chooses(one) and one.budget.mode is mode]
        shared = dict(left)
        _take(left, *(held[name] for name in together))
        if not fit(sum_of(held[name] for name in together), shared):
            program = _Program([found[name] for name in together], shared)
            solution = program.solve()
            for name in together:
                found[name] = program.read(found[name], solution, room, snapshot.now)
                held[name] = program.uses(name, solution)
            left = dict(shared)
            _take(left, *(held[name] for name in together))
        for name in together:
            alone = dict(shared)
            _take(alone, *(held[other] for other in together if other != name))
            found[name] = replace(found[name], room=alone)
    return [found[one.budget.id] for one in standings]


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """What a budget gets for some money. ``spend``: dollars a second on the part of the load that is ``served``.

    ``mean_seconds``: of a job from submission to completion; None where not all are served.
    """

    fit: BudgetFit
    rate: Rate
    spend: float
    mean_seconds: float | None
    served: float


def with_room(standing: BudgetSolution, allowed: float) -> BudgetOutcome:
    """What a budget would get for ``allowed`` dollars a second in the room that the others leave it now."""
    program = _Program([replace(standing, allowed=allowed)], standing.room)
    return program.given(standing.budget.id, program.solve())


def sum_of(uses: Iterable[Mapping[PoolId, float]]) -> dict[PoolId, float]:
    """GPUs by pool of all together."""
    total: dict[PoolId, float] = {}
    for one in uses:
        for pool, much in one.items():
            total[pool] = total.get(pool, 0.0) + much
    return total


def fit(uses: Mapping[PoolId, float], room: Mapping[PoolId, float]) -> bool:
    """Whether pools have room for that; of a pool that is not named there is enough."""
    return all(much <= room.get(pool, much) * _FITS for pool, much in uses.items())


def _chooses(standing: BudgetSolution) -> bool:
    return standing.budget.fixed_rate is None and not standing.budget.deleting


def _take(left: dict[PoolId, float], *uses: Mapping[PoolId, float]) -> None:
    for pool in left:
        left[pool] = max(left[pool] - sum(one.get(pool, 0.0) for one in uses), 0.0)


def _uses(standing: BudgetSolution) -> dict[PoolId, float]:
    """GPUs by pool that the budget's jobs hold in the long run; where money is short, those that are paid for."""
    served = 1.0 if standing.feasible or not standing.planned else min(standing.allowed / standing.planned, 1.0)
    return sum_of(
        expected_use(
            ((lot.part, use_of(lot.path, lot.seconds, share.group)) for lot in share.lots),
            share.arrivals * longer(standing, key, share.group) * served,
        )
        for key, share in standing.shares.items()
    )


def longer(standing: BudgetSolution, key: GroupKey, group: GroupDemand) -> float:
    """How much longer than predicted the group's jobs hold their GPUs. Of jobs in sight, what they hold is seen."""
    return 1.0 if group.arrivals is None else standing.reckoning.of(key[0]).value


@dataclass(slots=True)
class _Member:
    """A group in the program. ``dearer``: dollars paid, ``longer``: GPU-seconds held, for each one predicted."""

    standing: BudgetSolution
    key: GroupKey
    group: GroupDemand
    load: float
    dearer: float
    longer: float
    routes: list[PathUsage]
    known: set[Path]
    tried: list[tuple[float, float]] = field(default_factory=list)

    def as_class(self) -> LpClass:
        """With the load that dollars are counted with; the room is what is held of it."""
        held = self.longer / self.dearer
        ways = [one.way for one in self.routes]
        if held != 1.0:
            ways = [replace(way, use={pool: much * held for pool, much in way.use.items()}) for way in ways]
        return LpClass(self.standing.budget.id, self.load * self.dearer, self.group.weight, ways)

    def reload(self, mix: Mapping[int, float]) -> float:
        """Correct the load of jobs in sight to the options they are given; by which part it changed."""
        if self.group.arrivals is not None:
            return 0.0
        seconds = sum(part * self.routes[at].way.seconds for at, part in mix.items())
        had, aim = log(self.load), log(self.group.active / seconds)
        slope = 0.0
        if self.tried:
            before, aimed = self.tried[-1]
            slope = min((aim - aimed) / (had - before), 0.0) if had != before else 0.0
        self.tried.append((had, aim))
        new = had + (aim - had) / (1.0 - slope if self.tried[1:] else 2.0)
        self.load = exp(new)
        return abs(exp(aim - had) - 1.0)

    def extend(self, worth: float, charge: ScarcityCharge) -> bool:
        """Add the path that a new job would take at these prices; whether it is new and better than all others."""
        if len(self.group.menu.stages) == 1:
            return False
        chooser, new = OptionValues(self.group.menu, worth, charge), JobPosition(self.group.work)
        path = chooser.path(chooser.entering(new)[0].option, new)
        if path in self.known:
            return False
        rents = dict(charge.rents)
        best = min(_value(one.way, worth, rents) for one in self.routes)
        route = PathUsage(path, lp_column(path, self.group.menu, self.group.work))
        if _value(route.way, worth, rents) >= best * (1.0 - _BETTER):
            return False
        self.known.add(path)
        self.routes.append(route)
        return True


def _value(way: LpColumn, worth: float, rents: Mapping[PoolId, float]) -> float:
    return worth * way.seconds + way.money + sum(rents.get(pool, 0.0) * much for pool, much in way.use.items())


class _Program:
    """The linear program of some budgets that share ``room`` (GPUs by pool)."""

    def __init__(self, standings: Sequence[BudgetSolution], room: Mapping[PoolId, float]) -> None:
        self._budgets = {one.budget.id: max(one.allowed, 0.0) for one in standings}
        self._room = room
        self._members = [_member(one, key, share) for one in standings for key, share in one.shares.items()]

    def solve(self) -> ScarceSolution:
        """Rounds until loads and paths stay as they are."""
        for number in range(_ROUNDS):
            solution = solve_scarce([one.as_class() for one in self._members], self._budgets, self._room)
            changes = [one.reload(mix) for one, mix in zip(self._members, solution.mixes, strict=True)]
            extended = [one.extend(*self._terms(one, solution)) for one in self._members]
            if number + 1 == _ROUNDS or (not any(extended) and max(changes, default=0.0) <= _SETTLED):
                break
        return solution

    def _terms(self, member: _Member, solution: ScarceSolution) -> tuple[float, ScarcityCharge]:
        """What a second is worth to a job of the group, and what room costs it on its own menu."""
        budget = member.standing.budget.id
        pools = sorted({option.pool for option in member.group.menu.options})
        rents = tuple((pool, rent) for pool in pools if (rent := solution.price(budget, pool) * _per_use(member)) > 0.0)
        return solution.rates[budget] * member.group.weight, ScarcityCharge(rents, frozenset())

    def _of(self, budget: BudgetId, solution: ScarceSolution) -> list[tuple[_Member, Mapping[int, float], float]]:
        """The budget's groups with what each is given, and which part of it is served."""
        rows = zip(self._members, solution.mixes, solution.queued, strict=True)
        return [(one, mix, 1.0 - waits) for one, mix, waits in rows if one.standing.budget.id == budget]

    def uses(self, budget: BudgetId, solution: ScarceSolution) -> Mapping[PoolId, float]:
        """GPUs by pool that are held by the budget's jobs, as far as they are served."""
        return sum_of(
            expected_use(((part, one.routes[at].way.use) for at, part in mix.items()), one.load * one.longer * served)
            for one, mix, served in self._of(budget, solution)
        )

    def given(self, budget: BudgetId, solution: ScarceSolution) -> BudgetOutcome:
        """What the budget gets."""
        rows = self._of(budget, solution)
        load = sum(one.load for one, _, _ in rows)
        served = sum(one.load * part for one, _, part in rows) / load
        seconds = sum(
            one.load * share * one.routes[at].way.seconds for one, mix, _ in rows for at, share in mix.items()
        )
        return BudgetOutcome(
            fit=solution.fits[budget],
            rate=solution.rates[budget],
            spend=sum(
                one.load * one.dearer * part * share * one.routes[at].way.money
                for one, mix, part in rows
                for at, share in mix.items()
            ),
            mean_seconds=seconds / load if served > _ALL else None,
            served=min(served, 1.0),
        )

    def read(
        self, standing: BudgetSolution, solution: ScarceSolution, room: Mapping[PoolId, PoolSize], now: Instant
    ) -> BudgetSolution:
        """The standing of one of the budgets."""
        budget = standing.budget.id
        shares = {one.key: self._share(one, mix, solution) for one, mix, _ in self._of(budget, solution)}
        demands = [
            corrected(one.group.demand(), dearer(key, one.group, standing.reckoning)) for key, one in shares.items()
        ]
        return replace(
            standing,
            rate=Rate(solution.rates[budget]),
            planned=solution.spends[budget],
            feasible=solution.fits[budget] is not BudgetFit.INFEASIBLE,
            shares=shares,
            forecast=forecast_inputs.forecast_budget(
                standing.money, shares, demands, standing.reckoning, standing.budget.balance, now
            ),
            scarce={
                pool: ScarcePool(
                    solution.price(budget, pool), _verdict(room[pool], price, pool in solution.short), room[pool].until
                )
                for pool, price in solution.prices.items()
                if price > 0.0 or pool in solution.short
            },
        )

    def _share(self, member: _Member, mix: Mapping[int, float], solution: ScarceSolution) -> GroupAssignment:
        worth, charge = self._terms(member, solution)
        charge = ScarcityCharge(tuple((pool, _TAKEN * rent) for pool, rent in charge.rents), frozenset())
        lots = []
        for at in sorted(mix, key=lambda at: member.routes[at].way.money):
            route = member.routes[at]
            favours = frozenset(key_of(option) for option in route.path)
            remember = member.standing.inputs.memo
            view = remember(OptionValues, member.group.menu, worth, charge._replace(favours=favours))
            lots.append(PathShare(route.path, mix[at], route.way.seconds, route.way.money, view))
        return GroupAssignment(member.group, tuple(lots))


def _per_use(member: _Member) -> float:
    """GPU-seconds held for each dollar's worth predicted: what the program's uses were scaled by."""
    return member.longer / member.dearer


def _member(standing: BudgetSolution, key: GroupKey, share: GroupAssignment) -> _Member:
    menu, group = share.group.menu, share.group
    hull = group.hull if len(menu.stages) > 1 else None
    found = standing.inputs.memo(path_usages, menu, group.work, hull)
    return _Member(
        standing=standing,
        key=key,
        group=share.group,
        load=share.arrivals,
        dearer=dearer(key, share.group, standing.reckoning),
        longer=longer(standing, key, share.group),
        routes=[*found],
        known=set() if hull is None else {one.path for one in found},
    )


def _verdict(room: PoolSize, price: float, short: bool) -> PoolVerdict:
    node_price = Price.per_second(price * room.gpus_per_node)
    return PoolVerdict(room.limit, room.nodes, Price.per_second(price), node_price, short)
