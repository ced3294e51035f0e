"""Guards: a finalizer keeps a GPUBudget or GPUPool while rentals that name it run or are not yet paid."""

from __future__ import annotations

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.pool import Pool
from charterer.domain.steps import SetFinalizer, Wait
from charterer.lifecycle.pool import left_behind
from charterer.lifecycle.view import LifecycleView
from charterer.sentences import count, names


def budget_guard(budget_id: BudgetId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Guard a budget that a rental names; release it when it is being deleted and no rental needs it any more.

    A rental whose cost is settled, and whose object is being deleted, needs only the cloud's list to forget it.
    """
    budget = view.snapshot.budgets[budget_id]
    settled = frozenset() if budget.balance is None else budget.balance.folded
    rentals = view.rentals_of_budget.get(budget_id, ())
    if budget.deleting:
        rentals = [rental for rental in rentals if not (rental.deleting and rental.uid in settled)]
    left = f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})" if rentals else ""
    return _guard("GPUBudget", budget, left)


def pool_guard(pool_id: PoolId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Guard a pool that has a rental; release it when it is being deleted and its group is empty."""
    pool = view.snapshot.pools[pool_id]
    return _guard("GPUPool", pool, left_behind(pool, view))


def _guard(kind: str, guarded: Budget | Pool, left: str) -> SetFinalizer | Wait | None:
    """The finalizer cannot be added to an object that is being deleted, and is removed only from such a one."""
    if guarded.deleting and guarded.guarded:
        return Wait(f"{left} to be gone") if left else SetFinalizer(kind, guarded.id, guarded.uid, present=False)
    if left and not guarded.guarded and not guarded.deleting:
        return SetFinalizer(kind, guarded.id, guarded.uid, present=True)
    return None
