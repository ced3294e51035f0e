"""Where a budget's spending is heading: what is spent by the end of its period if things go on as planned."""

from __future__ import annotations

from collections.abc import Iterable

from purser.domain.billing import spent
from purser.domain.budget import Budget
from purser.domain.ids import BudgetId
from purser.domain.money import Money, Price
from purser.domain.period import period_bounds, period_end
from purser.domain.rental import Rental, RentalPhase
from purser.domain.time import Instant


def current_rate(budget: BudgetId, rentals: Iterable[Rental]) -> Price:
    """Dollars an hour that the budget's nodes cost now, at their last price (the worst one where none is told yet)."""
    running = (rental for rental in rentals if rental.budget == budget and rental.billed)
    prices = (rental.segments[-1].price if rental.segments else rental.worst for rental in running)
    return Price(sum(price.micros_per_hour for price in prices))


def forecast(budget: Budget, rentals: Iterable[Rental], planned: Price, now: Instant) -> Money:
    """Expected spend at the period's end: spent so far, and the rest of the period at the ``planned`` hourly rate.

    While more is rented than planned, what runs now is expected to come down to the plan within an hour: a burst that
    is being paid for must not be hidden by a long-run mean. Whole seconds, exact.
    """
    rentals = tuple(rentals)
    balance = budget.balance
    start = period_bounds(budget.time_zone, now)[0] if balance is None else balance.period_start
    left = max(period_end(budget.time_zone, start) - now, 0) // 1_000_000
    above = current_rate(budget.id, rentals).micros_per_hour - planned.micros_per_hour
    burst = Price(max(above, 0)).cost(min(left, 3600) // 2)
    return spent(budget, rentals, now) + planned.cost(left) + burst


def committed(budget: Budget, rentals: Iterable[Rental], now: Instant) -> Money:
    """Spent, and for each rental that has not ended what its reserve holds back beyond what it has already cost.

    This is the number that may never exceed the hard limit.
    """
    from purser.domain.billing import accrued

    rentals = tuple(rental for rental in rentals if rental.budget == budget.id)
    open_reserves = (
        max(rental.reserved.micros - accrued(rental, now).micros, 0)
        for rental in rentals
        if rental.phase is not RentalPhase.ENDED
    )
    return spent(budget, rentals, now) + Money(sum(open_reserves))
