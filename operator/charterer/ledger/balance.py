"""Fold, OpenPeriod and PruneFolded applied to a balance: each changes it once, however often it is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from charterer.domain.budget import LENDING_KEPT, PERIODS_KEPT, Balance, PastPeriod
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Price
from charterer.domain.rental import Rental
from charterer.domain.steps import Fold, OpenPeriod, PruneFolded


class StalePeriod(ValueError):
    """The step was made for another period than the balance is in: look again and make it anew."""


def apply_fold(balance: Balance, step: Fold) -> Balance:
    """Add a rental's cost and its uid; the same balance when it is listed already. StalePeriod: see Fold."""
    if step.rental_uid in balance.folded:
        return balance
    if step.period_start != balance.period_start:
        raise StalePeriod(
            f"GPURental {step.rental} was to be folded into the period of GPUBudget {step.budget} that began at "
            f"{step.period_start}, but the balance is in the one that began at {balance.period_start}: plan again"
        )
    return replace(
        balance,
        settled=balance.settled + step.in_period,
        lifetime=balance.lifetime + step.whole,
        folded=balance.folded | {step.rental_uid},
    )


def apply_open_period(balance: Balance | None, step: OpenPeriod) -> Balance:
    """Begin the period; what the last one spent goes into history. The same balance when it has begun already."""
    if balance is None:
        if step.last_start is not None:
            raise StalePeriod(f"GPUBudget {step.budget} has no balance whose period could end: plan again")
        return Balance(step.start, ZERO, ZERO, frozenset(), ())
    if balance.period_start >= step.start:
        return balance
    if step.last_start != balance.period_start or step.last_spent is None:
        raise StalePeriod(
            f"the period of GPUBudget {step.budget} that was to end began at {step.last_start}, but the balance is in "
            f"the one that began at {balance.period_start}: plan again"
        )
    past = PastPeriod(balance.period_start, step.last_spent, step.last_aim, step.borrowed)
    history = (*_without_old_lenders(balance.history), past)[-PERIODS_KEPT:]
    costs = replace(balance.costs, before=balance.costs.by_cause)
    return replace(balance, period_start=step.start, settled=ZERO, history=history, carried=step.carried, costs=costs)


def _without_old_lenders(history: Sequence[PastPeriod]) -> Iterable[PastPeriod]:
    """The periods, of which only the last ones keep their lenders: one more is to come."""
    first_kept = len(history) - LENDING_KEPT + 1
    return (
        replace(past, borrowed={}) if number < first_kept and past.borrowed else past
        for number, past in enumerate(history)
    )


def apply_prune_folded(balance: Balance, step: PruneFolded) -> Balance:
    """Drop the uids of rentals that are gone; sums stay."""
    return replace(balance, folded=balance.folded - frozenset(step.rental_uids))


def current_rate(budget: BudgetId, rentals: Iterable[Rental]) -> Price:
    """The sum of the newest prices of the budget's nodes that the cloud may be billing now."""
    billed = (rental for rental in rentals if rental.budget == budget and rental.billed)
    return Price(sum(rental.price.micros_per_hour for rental in billed))
