"""The limits of budgets that are above others: one purse each, of all that it and the budgets below it have rented.

Each dollar counts in the month of the budget that paid it, in that budget's time zone. While the month has begun for
some of them only, the sum of either month counts, whichever is more; and what all rentals can still cost counts in
both. So no month exceeds the limit, as those who pay count it (docs/development/adr/0076).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.period import period_bounds, period_end
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, moment
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.accrued_cost import spent
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.nodes.hard_limit import Purse, exposure
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.rental_index import PoolRentals


def parent_purses(
    solutions: Iterable[BudgetSolution], inputs: PlanInputs, capacity: Capacity
) -> Mapping[BudgetId, Purse]:
    """The purse of each budget that is above others, with what is rented now."""
    tree, budgets = inputs.tree, inputs.snapshot.known_budgets
    if not tree.below:
        return {}
    snapshot, now = inputs.snapshot, inputs.snapshot.now
    nodes: dict[BudgetId, list[PoolNodes]] = {}
    for (payer, _), here in inputs.nodes.items():
        nodes.setdefault(payer, []).append(here)
    known = {solution.budget.id: solution.spent for solution in solutions}
    purses = {}
    for name, below in tree.below.items():
        parent, family = budgets[name], [budgets[each] for each in (name, *below)]
        months = []
        for budget in family:
            rentals = [here.rentals for here in nodes.get(budget.id, ())]
            months.append(_paid(budget, rentals, now, inputs, known.get(budget.id)))
        purse = purses[name] = Purse(parent.hard_limit, parent.max_hourly_rate, most_of_a_month(months), name)
        for budget in family:
            hold_rentals(purse, nodes.get(budget.id, ()), capacity, snapshot)
    return purses


def hold_rentals(purse: Purse, nodes: Iterable[PoolNodes], capacity: Capacity, snapshot: Snapshot) -> None:
    """Count what can still be spent on the rentals of these pools."""
    for here in nodes:
        purse.hold_all(here.exposed)
        for rental in here.rentals.booting:
            purse.hold(rental.id, rental.dearest, rental_exposure(rental, capacity.grace.get(rental.id, 0), snapshot))


def rental_exposure(rental: Rental, grace_seconds: int, snapshot: Snapshot) -> Money:
    """``exposure`` now, with the seconds by which the cloud's list may lag behind."""
    survey = snapshot.surveys.get(rental.pool)
    lag_seconds = survey.traits.lag_seconds if survey is not None else 0.0
    return exposure(rental, grace_seconds, lag_seconds, snapshot.now)


class MonthPaid(NamedTuple):
    """What a budget spent in the ``month`` (counted since year 0) in which it is now, and in the month ``before``."""

    month: int
    spent: Money
    before: Money


def most_of_a_month(paid: Iterable[MonthPaid]) -> Money:
    """The most that the budgets spent together in one of the months in which some of them are now."""
    each = list(paid)
    return max(
        total(
            budget.spent if budget.month == month else budget.before
            for budget in each
            if budget.month in (month, month + 1)
        )
        for month in {budget.month for budget in each}
    )


def _paid(
    budget: Budget, rentals: list[PoolRentals], now: Instant, inputs: PlanInputs, known: Money | None
) -> MonthPaid:
    """``known``: what it spent in the month, where it is known already."""
    balance, start = budget.balance, period_bounds(budget.time_zone, now)[0]
    over = balance is not None and period_end(budget.time_zone, balance.period_start) <= now
    if known is None:
        known, _ = spent(replace(budget, balance=None) if over else budget, rentals, now, inputs.memo)
    before = ZERO
    if balance is not None and over:
        before, _ = spent(budget, rentals, start, inputs.memo)
    elif balance is not None and balance.history and balance.history[-1].start >= after(start, -_MONTH_SECONDS):
        before = balance.history[-1].spent
    middle = moment(after(start, _MONTH_SECONDS / 2))
    return MonthPaid(middle.year * 12 + middle.month, known, before)


_MONTH_SECONDS = 32 * 86_400.0
"""Longer than a month, and shorter than two."""
