"""What a budget spent in its present period, by cause: amounts that add up to ``spent`` to the micro-dollar.

The ledger counts the causes about once a minute, over all periods (``ledger.costs``). Those of this period are what the
counts have grown by since it began. What was spent since the last count is an amount of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from charterer.domain.billing import opening_in, spent
from charterer.domain.budget import Budget, Cause
from charterer.domain.money import ZERO, Money, total
from charterer.domain.period import period_bounds
from charterer.domain.rental import Rental
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class SpentByCause:
    """``opening`` is the budget's opening spend. ``uncounted``: spent since the last count.

    ``uncounted`` is negative while a count was too high: a machine had ended before the cloud said so.
    """

    spent: Money
    causes: Mapping[Cause, Money]
    opening: Money
    uncounted: Money


def spent_by_cause(budget: Budget, rentals: Iterable[Rental], now: Instant) -> SpentByCause:
    """The amounts of the present period; they add up to ``spent``."""
    balance = budget.balance
    start = period_bounds(budget.time_zone, now)[0] if balance is None else balance.period_start
    causes: Mapping[Cause, Money] = {}
    if balance is not None:
        before = balance.costs.before
        grown = {cause: amount - before.get(cause, ZERO) for cause, amount in balance.costs.by_cause.items()}
        causes = {cause: grown[cause] for cause in Cause if grown.get(cause, ZERO) != ZERO}
    whole, opening = spent(budget, rentals, now), opening_in(budget, start)
    return SpentByCause(whole, causes, opening, whole - opening - total(causes.values()))
