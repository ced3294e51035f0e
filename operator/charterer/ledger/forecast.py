"""Where a budget's spending is heading: what is spent by the end of its period if things go on as planned."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.domain.billing import spent
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money, Price
from charterer.domain.period import period_bounds, period_end
from charterer.domain.rental import Rental
from charterer.domain.time import Instant


def current_rate(budget: BudgetId, rentals: Iterable[Rental]) -> Price:
    """Dollars an hour that the budget's nodes cost now, at their last price (the worst one where none is told yet)."""
    running = (rental for rental in rentals if rental.budget == budget and rental.billed)
    prices = (rental.segments[-1].price if rental.segments else rental.worst for rental in running)
    return Price(sum(price.micros_per_hour for price in prices))


def forecast(budget: Budget, rentals: Iterable[Rental], hourly: Price, now: Instant) -> Money:
    """Expected spend at the period's end: spent up to ``now``, and ``hourly`` for every whole second that is left.

    ``hourly`` is the caller's best guess of the rate for the rest of the period: what is planned in the long run, or
    ``current_rate`` where nothing is planned.
    """
    start = period_bounds(budget.time_zone, now)[0] if budget.balance is None else budget.balance.period_start
    left = max(period_end(budget.time_zone, start) - now, 0) // 1_000_000
    return spent(budget, rentals, now) + hourly.cost(left)
