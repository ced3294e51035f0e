"""The frontier: completion time against dollars a period, as the planner itself would spend them.

In the long run a budget of A dollars a period of P seconds allows b = A / P. ``exchange_rate.solve`` gives the corner
of each group's hull at that rate, and with λ_i jobs a second of a_i seconds the mean completion time is Σ λ·a / Σ λ.
A dollar more saves 1 / θ seconds of (weighted) job life: that is what θ means, and a property test holds it to it.

λ_i is how often the group's jobs come; jobs in sight are no part of the long run (docs/theory/policy.md, section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from charterer.domain.ids import PoolId, Rate
from charterer.domain.money import Money
from charterer.domain.period import period_bounds
from charterer.domain.time import after, seconds_between
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.pool_usage import expected_use, pools_hold, sum_uses, use_of
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.month_sums import assumed
from charterer.policy.solve.exchange_rate import BudgetFit, Demand, Solution, solve, spend_rate

FACTORS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of the amount that are shown: beyond four times most teams would ask another question."""

_EPSILON = 1.0 + 1e-9
"""Factor just above θ, where two corners tie, at which the faster one is taken."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A point: what ``amount`` dollars a period buy in the long run, ``factor`` times the budget's own amount.

    ``spend``: what is then spent of it (dollars a period). ``mean_seconds``: from submitting a job to its completion;
    None where jobs queue without end, because even the cheapest options are too dear. ``served``: the fraction of the
    load that the money is enough for. ``room``: whether pools have room for what jobs choose; the time is as if so.
    """

    factor: float
    amount: Money
    spend: Money
    rate: Rate
    fit: BudgetFit
    mean_seconds: float | None
    served: float
    room: bool

    @property
    def seconds_per_dollar(self) -> float | None:
        """Seconds of weighted job life that one more dollar saves; None while jobs queue, 0 where nothing is faster."""
        if self.fit is BudgetFit.INFEASIBLE:
            return None
        return 0.0 if self.fit is BudgetFit.SURPLUS or not self.rate else 1.0 / self.rate


class Frontier:
    """The frontier of one budget. Without any job in sight or expected it is ``empty``, and nothing may be asked.

    ``told``: whether it is worth telling, as it rests on jobs that came or are declared. Arrivals that are assumed
    follow from the amount, so that they say nothing of it.

    It asks the bills only. More money does not make pools larger: points say where they are too small. What commitments
    cost now is spent of every amount, before any job.
    """

    def __init__(self, solution: BudgetSolution, amount: Money | None = None) -> None:
        """``amount``: another than the budget's own, of which multiples are asked about."""
        solution = solution.in_the_long_run()
        self._solution = solution
        self.amount = solution.budget.amount if amount is None else amount
        self.period_seconds = period_seconds(solution)
        self._demands = _demands(solution)
        self._most = sum(demand.load * demand.spends[-1] for demand in self._demands)
        self._arrivals = sum(assignment.arrivals for assignment in solution.assignments.values())
        self.empty = not self._arrivals
        self.told = not self.empty and not assumed(solution)
        self._committed = sum([rate for rate, _ in solution.pacing.commitments])

    def of_amount(self, amount: Money) -> Frontier:
        """The same frontier, as seen from another amount."""
        return Frontier(self._solution, amount)

    @cached_property
    def cheapest(self) -> Money:
        """The smallest budget (a period) with which no job queues for money."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[0] for demand in self._demands))

    @cached_property
    def fastest(self) -> Money:
        """The budget (a period) above which a surplus stays unspent: every job has the fastest that there is for it."""
        return self._a_period(self._committed + sum(demand.load * demand.spends[-1] for demand in self._demands))

    def at(self, amount: Money) -> FrontierPoint:
        """The point of that many dollars a period."""
        allowed = amount.dollars / self.period_seconds - self._committed
        factor = amount.dollars / self.amount.dollars if self.amount.dollars else 0.0
        solution = solve(self._demands, allowed)
        feasible = solution.fit is not BudgetFit.INFEASIBLE
        served = 1.0 if feasible else max(allowed, 0.0) / solution.spend
        return FrontierPoint(
            factor=factor,
            amount=amount,
            spend=self._a_period(self._committed + max(min(solution.spend, allowed), 0.0)),
            rate=solution.rate,
            fit=solution.fit,
            mean_seconds=self._mean_seconds(solution) if feasible else None,
            served=served,
            room=self._fits(solution, served),
        )

    def times(self, factors: Sequence[float] = FACTORS) -> tuple[FrontierPoint, ...]:
        """Points at multiples of the budget's amount; of a zero budget, of the smallest one that suffices."""
        base = self.amount.micros or self.cheapest.micros
        return tuple(self.at(Money(round(base * factor))) for factor in factors)

    def amount_for(self, rate: Rate) -> Money:
        """The budget (a period) from which on a second is worth ``rate`` and whatever costs that much is bought."""
        return self._a_period(self._committed + spend_rate(self._demands, Rate(rate * _EPSILON)))

    def _fits(self, solution: Solution, served: float) -> bool:
        """Whether the pools have room for what is then held, by those who are served."""
        uses = [
            use_at(
                solution,
                at,
                assignment.group,
                assignment.arrivals * self._solution.calibration.of(key[0]).value * served,
            )
            for at, (key, assignment) in enumerate(self._solution.assignments.items())
        ]
        return pools_hold(sum_uses(uses), self._solution)

    def _mean_seconds(self, solution: Solution) -> float:
        assignments = enumerate(self._solution.assignments.values())
        whole = sum(assignment.arrivals * seconds_at(solution, at, assignment.group) for at, assignment in assignments)
        return whole / self._arrivals

    def _a_period(self, dollars_a_second: float) -> Money:
        return Money.of(dollars_a_second * self.period_seconds)


def mean_seconds(solution: BudgetSolution) -> float | None:
    """Mean completion time of the jobs to come at what the budget pays now; None without jobs, or while they queue."""
    assignments = solution.assignments.values()
    load = sum(assignment.arrivals for assignment in assignments)
    if not load or not solution.feasible:
        return None
    return sum(assignment.arrivals * assignment.mean_seconds for assignment in assignments) / load


def _demands(solution: BudgetSolution) -> list[Demand]:
    """The groups as the planner's own solver sees them: as dear as they turned out to be."""
    calibration = solution.calibration
    return [
        assignment.group.demand(calibration.factor(key[0]), calibration.overhead)
        for key, assignment in solution.assignments.items()
    ]


def period_seconds(solution: BudgetSolution) -> float:
    """Seconds of the budget's present period."""
    return seconds_between(*period_bounds(solution.budget.time_zone, after(solution.period_end, -1.0)))


def seconds_at(found: Solution, at: int, group: GroupDemand) -> float:
    """Expected seconds of a new job of the group, which is class ``at`` of what was solved."""
    return sum(fraction * group.hull.seconds[corner] for fraction, corner in _corners(found, at))


def use_at(found: Solution, at: int, group: GroupDemand, load: float) -> Mapping[PoolId, float]:
    """GPUs by pool that ``load`` jobs a second of that group hold."""
    hull = group.hull
    uses = (
        (fraction, use_of(hull.paths[corner], hull.seconds[corner], group)) for fraction, corner in _corners(found, at)
    )
    return expected_use(uses, load)


def _corners(found: Solution, at: int) -> list[tuple[float, int]]:
    """The corners of its hull that class ``at`` takes, each with the fraction of jobs that do."""
    level, mix = found.levels[at], found.mix if at == found.mixed else 0.0
    return [(1.0 - mix, level), (mix, level + 1)] if mix else [(1.0, level)]
