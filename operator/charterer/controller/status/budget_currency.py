"""What a GPUBudget shows of the currency in which its owner writes amounts."""

from __future__ import annotations

from charterer.api.models.budgets.currency import InCurrency
from charterer.domain.budget import Budget
from charterer.domain.plan import BudgetVerdict
from charterer.domain.spending.currency import DAYS_CURRENT, Currency
from charterer.domain.time import Instant


def in_currency(budget: Budget, verdict: BudgetVerdict) -> InCurrency | None:
    """The amounts in that currency; None for dollars."""
    if budget.currency is None:
        return None
    forecast = None if verdict.forecast is None else verdict.forecast.expected
    return InCurrency.of(budget.currency, verdict.spent, budget.aim - verdict.spent, forecast)


def rate_current(currency: Currency, now: Instant) -> tuple[bool, str, str]:
    """Whether the rate is current, the reason and the message."""
    days = currency.days_old(now)
    if days < -1:
        return False, "RateOfTheFuture", f"spec.currencyRate is {currency}, a day still to come: correct asOf"
    if days > DAYS_CURRENT:
        message = f"spec.currencyRate is {currency}: {days} days old; set what a dollar costs now, and the day"
        return False, "RateStale", message
    return True, "RateCurrent", str(currency)
