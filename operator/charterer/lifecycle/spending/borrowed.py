"""What a budget was lent in a period that is over: what it spent beyond its aim, as others spent less (ADR 76)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.billing import spent
from charterer.domain.budget import LENDERS_KEPT, Budget
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.spending.budget_tree import lending_families
from charterer.domain.spending.loans import Loan, Need, loans, net_loan
from charterer.domain.time import Instant
from charterer.lifecycle.view import LifecycleView


def borrowed_by(budget: Budget, start: Instant, end: Instant, view: LifecycleView) -> Mapping[BudgetId, Money]:
    """What others lent the budget in the period from ``start`` to ``end``, by lender; of many the largest.

    It is on record with the borrower alone. So no two records can differ, whichever budget closes the period first.
    """
    budgets, made = view.snapshot.known_budgets, list[Loan]()
    for name in (budget.parent, budget.id):
        parent = None if name is None else budgets.get(name)
        if parent is not None and parent.lends:
            for family in lending_families(parent, budgets.values()):
                if any(each.id == budget.id for each in family):
                    needs = [_need(each, start, end, made, view) for each in family]
                    made += loans([need for need in needs if need is not None])
    lent = {loan.lender: loan.amount for loan in made if loan.borrower == budget.id}
    return dict(sorted(lent.items(), key=lambda each: (-each[1].micros, each[0]))[:LENDERS_KEPT])


def _need(budget: Budget, start: Instant, end: Instant, made: Sequence[Loan], view: LifecycleView) -> Need | None:
    """What the budget spent in the period, which it may have closed already; None if it had none."""
    balance, lent = budget.balance, net_loan(budget.id, made)
    if balance is None:
        return None
    if balance.period_start == start:
        used = spent(budget, view.rentals_of_budget.get(budget.id, ()), end)
        return Need(budget.id, budget.own_aim + lent, used, high=used, short=False)
    past = next((past for past in balance.history if past.start == start and past.aim is not None), None)
    if past is None or past.aim is None:
        return None
    return Need(budget.id, past.aim + lent, past.spent, high=past.spent, short=False)
