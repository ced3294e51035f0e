"""The limits of budgets that are above others: one purse each, of all that it and the budgets below it have rented.

Each dollar counts in the month of the budget that paid it, in that budget's time zone. While the month has begun for
some of them only, the sum of either month counts, whichever is more; and what all rentals can still cost counts in
both. So no month exceeds the limit, as those who pay count it (docs/development/adr/0076).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.period import period_bounds, period_end
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after, moment
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.nodes.accrued_cost import spent
from charterer.policy.nodes.capacity import Capacity
from charterer.policy.nodes.hard_limit import Purse, exposure
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.rental_index import PoolRentals


def parent_purses(inputs: PlanInputs, capacity: Capacity) -> Mapping[BudgetId, Purse]:
    """The purse of each budget that is above others, with what is rented now."""
    tree, snapshot = inputs.tree, inputs.snapshot
    if not tree.below:
        return {}
    budgets, nodes = snapshot.known_budgets, dict[BudgetId, list[PoolNodes]]()
    for (payer, _), here in inputs.nodes.items():
        nodes.setdefault(payer, []).append(here)
    paid = {
        name: _paid(budgets[name], [here.rentals for here in nodes.get(name, ())], inputs)
        for name in {*tree.above, *tree.below}
    }
    purses = {}
    for name, below in tree.below.items():
        parent, family = budgets[name], (name, *below)
        spent_together = most_of_a_month([paid[each] for each in family])
        purse = purses[name] = Purse(parent.hard_limit, parent.max_hourly_rate, spent_together, name)
        for each in family:
            hold_rentals(purse, nodes.get(each, ()), capacity, snapshot)
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


def most_of_a_month(paid: Sequence[MonthPaid]) -> Money:
    """The most that the budgets spent together in one of the months in which some of them are now."""
    return max(
        total(
            budget.spent if budget.month == month else budget.before
            for budget in paid
            if budget.month in (month, month + 1)
        )
        for month in {budget.month for budget in paid}
    )


def _paid(budget: Budget, rentals: Sequence[PoolRentals], inputs: PlanInputs) -> MonthPaid:
    now, memo, balance = inputs.snapshot.now, inputs.memo, budget.balance
    start = period_bounds(budget.time_zone, now)[0]
    over = balance is not None and period_end(budget.time_zone, balance.period_start) <= now
    in_month, _ = spent(replace(budget, balance=None) if over else budget, rentals, now, memo)
    before = ZERO
    if balance is not None and over:
        before, _ = spent(budget, rentals, start, memo)
    elif balance is not None and balance.history and balance.history[-1].start >= after(start, -_MONTH_SECONDS):
        before = balance.history[-1].spent
    middle = moment(after(start, _MONTH_SECONDS / 2))
    return MonthPaid(middle.year * 12 + middle.month, in_month, before)


_MONTH_SECONDS = 32 * 86_400.0
"""Longer than a month, and shorter than two."""
