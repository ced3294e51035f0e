"""The linear program of budgets that share pools, round after round, and what each budget gets of it.

Two things take more than one round:

- How many jobs a second the money and the pools have to be enough for depends on how long a job takes (``demand``),
  and so on the paths that are chosen. Each round corrects the seconds by the secant through the last two, on a
  logarithmic scale. Seconds beyond the interval between those that were too few and those that were too many are not
  tried, but the middle: where options change, they jump.
- Only some of the paths over several phases are in the program. Each round adds the one that each group would take at
  the prices found, if it is better (column generation).

After ``_ROUNDS`` the last answer stands: it fits into the pools and budgets for the seconds it was found with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log

from charterer.domain.ids import BudgetId, PoolId, Rate
from charterer.domain.money import Price
from charterer.domain.plan import PoolVerdict
from charterer.domain.time import Instant
from charterer.policy.budgets.assignment import AssignedPath, GroupAssignment
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.pool_usage import PathUsage, expected_use, lp_column, lp_columns, path_usages, sum_uses
from charterer.policy.budgets.solution import BudgetSolution, ScarcePool, forecast_assigned
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.nodes.pool_size import PoolSize
from charterer.policy.options.option_value import JobPosition, OptionValues, ScarcityCharge
from charterer.policy.solve.exchange_rate import BudgetFit
from charterer.policy.solve.hull import Path
from charterer.policy.solve.lp_columns import LpClass, LpColumn, LpColumns
from charterer.policy.solve.phase_dp import key_of
from charterer.policy.solve.scarce_solution import ScarceSolution
from charterer.policy.solve.scarcity import solve_scarce

_ROUNDS = 8
"""Programs solved at most: loads and paths are usually settled after two or three, and seldom after seven."""
_SETTLED = 0.02
"""A change of all loads together by a smaller fraction moves less than one job of fifty."""
_BETTER = 1e-6
"""Fraction by which a path must be better to be worth another round."""
_CHARGED = 0.75
"""Fraction of the price that a job is charged. With random arrivals a pool is not always full. Where the load just
fills it, a job that takes free room displaces about half a job (Erlang's loss formula: n·(B(n−1) − B(n)) is 0.50 to
0.55 for any n), and where far more want it, a whole one; pools with a price are in between. At the whole price room
stays empty, at half of it too many take it that need it least (tests/bench/full_pool.py)."""
_ALL = 1.0 - 1e-9
"""Fraction of the load from which on all of it is served."""


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """A budget's result for some money. ``spend``: dollars a second on the fraction of the load that is ``served``.

    ``mean_seconds``: of a job from submission to completion; None where not all are served.
    """

    fit: BudgetFit
    rate: Rate
    spend: float
    mean_seconds: float | None
    served: float


@dataclass(slots=True)
class _GroupProgram:
    """A group in the program. ``seconds``: of a job, by which its jobs a second are counted.

    ``usages``, ``columns``: its paths, and those as the program sees them. ``pools``: of its menu.
    ``tried``: logarithms of seconds and of the seconds that they led to.
    """

    solution: BudgetSolution
    key: GroupKey
    group: GroupDemand
    seconds: float
    usages: list[PathUsage]
    columns: LpColumns
    pools: Sequence[PoolId]
    paths: set[Path]
    tried: list[tuple[float, float]] = field(default_factory=list)

    @classmethod
    def of(cls, solution: BudgetSolution, key: GroupKey, assignment: GroupAssignment) -> _GroupProgram:
        """The group with the paths that it may take at first."""
        group = assignment.group
        hull = group.hull if len(group.menu.stages) > 1 else None
        memo = solution.inputs.memo
        usages = memo(path_usages, group.menu, group.work, hull)
        return cls(
            solution=solution,
            key=key,
            group=group,
            seconds=assignment.mean_seconds,
            usages=[*usages],
            columns=memo(lp_columns, usages),
            pools=sorted({option.pool for option in group.menu.options}),
            paths=set() if hull is None else {usage.path for usage in usages},
        )

    @property
    def paid(self) -> float:
        """Jobs a second that the money has to be enough for."""
        return self._paid(self.seconds)

    @property
    def held(self) -> float:
        """Jobs a second that the pools have to be large enough for."""
        return self._held(self.seconds)

    @property
    def held_per_dollar(self) -> float:
        """GPU-seconds held for each dollar's worth predicted: the program's uses are scaled by it."""
        return self.held / self.paid if self.paid else 1.0

    def lp_class(self) -> LpClass:
        """The class with the load that dollars are counted with; its room is scaled to what is held of it."""
        group = self.group
        budget, held = self.solution.budget.id, self.held_per_dollar
        return LpClass(budget, self.paid, group.weight, group.most, self.columns, held)

    def changes(self, mix: Mapping[int, float]) -> tuple[float, float]:
        """By how much the loads, paid and held, are other ones with the paths that the jobs are given."""
        seconds = self._led_to(mix)
        return abs(self._paid(seconds) - self.paid), abs(self._held(seconds) - self.held)

    def reload(self, mix: Mapping[int, float]) -> None:
        """Correct the seconds to those of the paths that the jobs are given."""
        tried, led = log(self.seconds), log(self._led_to(mix))
        slope = 0.0
        if self.tried:
            last_tried, last_led = self.tried[-1]
            slope = min((led - last_led) / (tried - last_tried), 0.0) if tried != last_tried else 0.0
        self.tried.append((tried, led))
        found = tried + (led - tried) / (1.0 - slope if self.tried[1:] else 2.0)
        least = max((before for before, after in self.tried if after > before), default=-inf)
        most = min((before for before, after in self.tried if after <= before), default=inf)
        if -inf < least < most < inf and not least < found < most:
            found = (least + most) / 2.0
        self.seconds = exp(found)

    def _led_to(self, mix: Mapping[int, float]) -> float:
        """Mean seconds of a job on these paths."""
        return sum(fraction * self.usages[at].column.seconds for at, fraction in mix.items())

    def _paid(self, seconds: float) -> float:
        calibration = self.solution.calibration
        return self.group.spend(seconds, 1.0, calibration.factor(self.key[0]), calibration.overhead)

    def _held(self, seconds: float) -> float:
        return self.group.held(seconds, self.solution.calibration.of(self.key[0]).value)

    def extend(self, solution: ScarceSolution) -> bool:
        """Add the path that a new job would take at these prices; whether it is new and better than all others."""
        menu, work = self.group.menu, self.group.work
        if len(menu.stages) == 1:
            return False
        worth, charge = self.terms(solution)
        values, position = OptionValues(menu, worth, charge), JobPosition(work)
        path = values.path(values.entering(position)[0].option, position)
        if path in self.paths:
            return False
        rents = dict(charge.rents)
        best = min(_cost(usage.column, worth, rents) for usage in self.usages)
        usage = PathUsage(path, lp_column(path, menu, work))
        if _cost(usage.column, worth, rents) >= best * (1.0 - _BETTER):
            return False
        self.paths.add(path)
        self.usages.append(usage)
        self.columns = lp_columns(self.usages)
        return True

    def terms(self, solution: ScarceSolution) -> tuple[float, ScarcityCharge]:
        """The value of a second to a job of the group, and the prices of room on its own menu."""
        budget, held = self.solution.budget.id, self.held_per_dollar
        rents = tuple((pool, rent) for pool in self.pools if (rent := solution.price(budget, pool) * held) > 0.0)
        return self.group.worth(solution.rates[budget]), ScarcityCharge(rents, frozenset())

    def assignment(self, mix: Mapping[int, float], solution: ScarceSolution) -> GroupAssignment:
        """The paths that the group's jobs are given."""
        worth, charge = self.terms(solution)
        rents = tuple((pool, _CHARGED * rent) for pool, rent in charge.rents)
        remember, assigned_paths = self.solution.inputs.memo, []
        for at in sorted(mix, key=lambda at: self.usages[at].column.money):
            path, column = self.usages[at].path, self.usages[at].column
            favours = frozenset(key_of(option) for option in path)
            values = remember(OptionValues, self.group.menu, worth, ScarcityCharge(rents, favours))
            assigned_paths.append(AssignedPath(path, mix[at], column.seconds, column.money, values))
        return GroupAssignment(self.group, tuple(assigned_paths))


def _cost(column: LpColumn, worth: float, rents: Mapping[PoolId, float]) -> float:
    room = sum(rents.get(pool, 0.0) * amount for pool, amount in column.use.items())
    return worth * column.seconds + column.money + room


def _settled(rows: Sequence[tuple[_GroupProgram, Mapping[int, float]]]) -> bool:
    changes = [group.changes(mix) for group, mix in rows]
    paid, held = (sum(group.paid for group, _ in rows), sum(group.held for group, _ in rows))
    return sum(new for new, _ in changes) <= _SETTLED * paid and sum(new for _, new in changes) <= _SETTLED * held


class PoolProgram:
    """The linear program of some budgets that share ``room`` (GPUs by pool), solved."""

    def __init__(self, solutions: Sequence[BudgetSolution], room: Mapping[PoolId, float]) -> None:
        budgets = {
            solution.budget.id: max(solution.allowed, solution.planned if solution.rate else 0.0)
            for solution in solutions
        }
        self._groups = [
            _GroupProgram.of(solution, key, assignment)
            for solution in solutions
            for key, assignment in solution.assignments.items()
        ]
        before: ScarceSolution | None = None
        for number in range(_ROUNDS):
            self._solution = solve_scarce([group.lp_class() for group in self._groups], budgets, room, before)
            before = self._solution
            rows = list(zip(self._groups, self._solution.mixes, strict=True))
            extended = [group.extend(self._solution) for group in self._groups]
            if number + 1 == _ROUNDS or (not any(extended) and _settled(rows)):
                break
            for group, mix in rows:
                group.reload(mix)

    def _of(self, budget: BudgetId) -> list[tuple[_GroupProgram, Mapping[int, float], float]]:
        """The budget's groups with their mixtures, and the fraction of each that is served."""
        rows = zip(self._groups, self._solution.mixes, self._solution.queued, strict=True)
        return [(group, mix, 1.0 - queued) for group, mix, queued in rows if group.solution.budget.id == budget]

    def uses(self, budget: BudgetId) -> Mapping[PoolId, float]:
        """GPUs by pool that the budget's served jobs hold."""
        return sum_uses(
            expected_use(
                ((fraction, group.usages[at].column.use) for at, fraction in mix.items()),
                group.held * served,
            )
            for group, mix, served in self._of(budget)
        )

    def outcome(self, budget: BudgetId) -> BudgetOutcome:
        """The budget's result."""
        rows = self._of(budget)
        load = sum(group.paid for group, _, _ in rows)
        served_load = sum(group.paid * served for group, _, served in rows) / load
        seconds = sum(
            group.paid * fraction * group.usages[at].column.seconds
            for group, mix, _ in rows
            for at, fraction in mix.items()
        )
        return BudgetOutcome(
            fit=self._solution.fits[budget],
            rate=self._solution.rates[budget],
            spend=sum(
                group.paid * served * fraction * group.usages[at].column.money
                for group, mix, served in rows
                for at, fraction in mix.items()
            ),
            mean_seconds=seconds / load if served_load > _ALL else None,
            served=min(served_load, 1.0),
        )

    def read(self, solution: BudgetSolution, sizes: Mapping[PoolId, PoolSize], now: Instant) -> BudgetSolution:
        """The solution of one of the budgets with pool limits, from the one without."""
        budget, scarce = solution.budget, self._solution
        fits = scarce.fits[budget.id] is not BudgetFit.INFEASIBLE
        assignments = {group.key: group.assignment(mix, scarce) for group, mix, _ in self._of(budget.id)}
        return replace(
            solution,
            rate=scarce.rates[budget.id],
            planned=scarce.spends[budget.id],
            feasible=fits if solution.rate else solution.feasible,
            surplus=scarce.fits[budget.id] is BudgetFit.SURPLUS,
            assignments=assignments,
            forecast=forecast_assigned(solution.pacing, assignments, solution.calibration, budget, solution.arrivals),
            scarce={
                pool: ScarcePool(
                    scarce.price(budget.id, pool),
                    _verdict(sizes[pool], price, pool in scarce.short, solution.payable),
                    sizes[pool].until,
                )
                for pool, price in scarce.prices.items()
                if price > 0.0 or pool in scarce.short
            },
        )


def _verdict(size: PoolSize, price: float, short: bool, payable: Price) -> PoolVerdict:
    node_price = Price.per_second(price * size.gpus_per_node)
    return PoolVerdict(size.limit, size.nodes, Price.per_second(price), node_price, short, payable)
