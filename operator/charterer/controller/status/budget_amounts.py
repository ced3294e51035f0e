"""What the view of a GPUBudget says of its amount: whether there is any, and whether the month ends within it."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.api.models.budgets.loan_status import LOANS_SHOWN, LoanStatus
from charterer.domain.budget import Budget
from charterer.domain.money import Money
from charterer.domain.plan import BudgetVerdict, ForecastVerdict, SpendVerdict
from charterer.domain.spending.loans import Loan
from charterer.policy.budgets.reasons import ends_at_least, no_history, of_share

_CENT = Money(10_000)


def overspent(budget: Budget, verdict: BudgetVerdict) -> bool:
    """Whether more than the amount is spent, of a parent by all below it too."""
    family = verdict.with_descendants
    if family is not None:
        return family.spent > family.amount
    return verdict.spent > budget.aim


def why_penniless(budget: Budget) -> str:
    """Why it has no amount, and what to do."""
    share = budget.share
    if share is None or not share.declared.micros:
        return 'spec.amount is "0": nothing can be rented; set the dollars to spend in a month'
    if share.below.micros:
        return (
            f"the budgets below it have {share.below} together, and it has {share.in_all}: nothing is left for the "
            "namespaces that it pays for itself; raise spec.amount, or lower theirs"
        )
    return f"nothing can be rented: {of_share(budget)}"


def within_budget(budget: Budget, verdict: BudgetVerdict) -> tuple[bool | None, str, str]:
    """Whether the period can end within the amount, the reason and the message."""
    if verdict.with_descendants is not None:
        return _together(verdict.with_descendants)
    if verdict.forecast is None:
        message = f"{no_history(verdict)} of {budget.aim}"
        if ends_at_least(verdict) > budget.aim:
            return False, "ForecastExceedsAmount", message
        return None, "NoHistory", message
    forecast = verdict.forecast
    message = f"forecast {forecast.expected} of {budget.aim}{_interval(forecast)}"
    return (True, "OnCourse", message) if forecast.low <= budget.aim else (False, "ForecastExceedsAmount", message)


def _together(family: SpendVerdict) -> tuple[bool | None, str, str]:
    """The same of a budget with all below it."""
    amount = family.amount
    if family.forecast is None:
        message = f"{family.spent} of {amount} are spent with all budgets below it; how the month ends is not known yet"
        return (False, "ForecastExceedsAmount", message) if family.spent > amount else (None, "NoHistory", message)
    message = f"forecast {family.forecast.expected} of {amount} with all budgets below it{_interval(family.forecast)}"
    return (True, "OnCourse", message) if family.forecast.low <= amount else (False, "ForecastExceedsAmount", message)


def _interval(forecast: ForecastVerdict) -> str:
    low, high = forecast.low, forecast.high
    return "" if low == high else f"; nine months in ten like this one end between {low} and {high}"


def shown_loans(loans: Sequence[Loan]) -> tuple[LoanStatus, ...]:
    """The largest loans, without those of less than a cent."""
    largest = sorted(loans, key=lambda loan: (-loan.amount.micros, loan.lender, loan.borrower))
    return tuple([LoanStatus.from_domain(loan) for loan in largest if loan.amount >= _CENT][:LOANS_SHOWN])
