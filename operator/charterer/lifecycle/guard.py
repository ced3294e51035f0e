"""Guards: a finalizer keeps a GPUBudget or GPUPool while rentals that name it run or are not yet paid."""

from __future__ import annotations

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.pool import Pool
from charterer.domain.steps import SetFinalizer, Wait
from charterer.domain.time import after
from charterer.lifecycle.ended_rental import on_record
from charterer.lifecycle.pool import left_behind
from charterer.lifecycle.view import LifecycleView, must_show
from charterer.sentences import count, names

_SURVEY_WAIT_SECONDS = 600
"""Seconds that a deleted pool waits for its cloud to answer: a cloud that is gone for good must not keep it."""


def budget_guard(budget_id: BudgetId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Guard a budget that a rental names; release it when it is being deleted and no rental needs it any more.

    A rental whose cost is settled and on record, and whose object is being deleted, needs only the cloud's list to
    forget it.
    """
    budget = view.snapshot.budgets[budget_id]
    if _is_kept(budget):
        return None
    settled = frozenset() if budget.balance is None else budget.balance.folded
    rentals = view.rentals_of_budget.get(budget_id, ())
    if budget.deleting:
        over = [rental for rental in rentals if rental.deleting and rental.uid in settled and on_record(rental, view)]
        rentals = [rental for rental in rentals if rental not in over]
    left = f"{count(len(rentals), 'rental')} ({names(rental.id for rental in rentals)})" if rentals else ""
    return _guard("GPUBudget", budget, left)


def pool_guard(pool_id: PoolId, view: LifecycleView) -> SetFinalizer | Wait | None:
    """Guard a pool that has a rental; release it when it is being deleted and its group is empty."""
    pool = view.snapshot.pools[pool_id]
    if _is_kept(pool):
        return None
    return _guard("GPUPool", pool, left_behind(pool, view) or _unlisted(pool, view))


def _unlisted(pool: Pool, view: LifecycleView) -> str:
    """Machines that the cloud may not list yet, in words; empty where its list is late enough to show all of them.

    A call whose answer was lost may have launched one, and once the pool is gone nobody looks for it.
    Twice the lag after the deletion, a list shows also what a call launched that was under way then.
    """
    survey, deleted = view.snapshot.surveys.get(pool.id), pool.deleted
    if survey is None or pool.taken_by is not None or deleted is None or not survey.traits.lag_seconds:
        return ""
    shown = must_show(survey, after(deleted, survey.traits.lag_seconds))
    given_up = view.snapshot.now >= after(deleted, _SURVEY_WAIT_SECONDS)
    return "" if shown or given_up else "machines that the cloud may not list yet"


def _is_kept(guarded: Budget | Pool) -> bool:
    """Whether the object has its finalizer and stays, so that it does not matter what it is needed for."""
    return guarded.guarded and not guarded.deleting


def _guard(kind: str, guarded: Budget | Pool, left: str) -> SetFinalizer | Wait | None:
    """The finalizer cannot be added to an object that is being deleted, and is removed only from such a one."""
    if guarded.deleting and guarded.guarded:
        return Wait(f"{left} to be gone") if left else SetFinalizer(kind, guarded.id, guarded.uid, present=False)
    if left and not guarded.guarded and not guarded.deleting:
        return SetFinalizer(kind, guarded.id, guarded.uid, present=True)
    return None
