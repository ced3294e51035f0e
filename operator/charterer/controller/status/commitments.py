"""The conditions of committed pools, and of the budgets that pay for them."""

from __future__ import annotations

from collections.abc import Iterable

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition
from charterer.controller.status.conditions import condition
from charterer.domain.budget import Budget, Mode
from charterer.domain.plan import BudgetVerdict, Plan
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import format_minute
from charterer.sentences import count, did_you_mean

_FIELD = "spec.price.committed.budget"


def pool_commitment(pool: Pool, snapshot: Snapshot, plan: Plan, live: int) -> Iterable[Condition]:
    """Whether all nodes of a committed pool are rented, and who pays; nothing of other pools. ``live``: its nodes."""
    if pool.committed is None or pool.closed_because:
        return
    holds, reason, message = _kept(pool, snapshot, plan, live)
    yield condition(ConditionType.COMMITMENT_KEPT, holds, reason, message, snapshot.now, pool.generation)


def _kept(pool: Pool, snapshot: Snapshot, plan: Plan, live: int) -> tuple[bool, str, str]:
    assert pool.committed is not None
    name, until = pool.committed.budget, format_minute(pool.committed.until)
    budget = snapshot.budgets.get(name)
    if budget is None:
        hint = did_you_mean(name, snapshot.budgets)
        message = f"there is no GPUBudget {name}, so nothing is rented in this pool: create it, or correct {_FIELD}"
        message += f"; {hint}" if hint else ""
        return False, "NoSuchBudget", message
    if not budget.pool_selector.matches(pool.labels):
        message = (
            f"GPUBudget {name} does not select this pool (spec.poolSelector: {budget.pool_selector}), so nothing is "
            f"rented in it: label the pool as that says, or correct {_FIELD}"
        )
        return False, "NotSelected", message
    there = f"{live} of {count(pool.max_nodes, 'node')} {'is' if live == 1 else 'are'} rented"
    if budget.mode is Mode.OBSERVE:
        return False, "OnlyObserved", f"GPUBudget {name} only observes (spec.mode), so {there}"
    if (refused := plan.not_rented.get(pool.id)) is not None:
        return False, refused.value, f"{there}, though all are paid for until {until}"
    return True, "Kept", f"{there} and kept until {until}, used or not, by GPUBudget {name}"


def budget_commitments(budget: Budget, verdict: BudgetVerdict | None, snapshot: Snapshot) -> Iterable[Condition]:
    """Whether the amount and the hard limit are enough for what the budget is committed to; nothing without that."""
    if verdict is None or not snapshot.committed_to(budget):
        return
    holds, reason, message = _covered(budget, verdict)
    yield condition(ConditionType.COMMITMENTS_COVERED, holds, reason, message, snapshot.now, budget.generation)


def _covered(budget: Budget, verdict: BudgetVerdict) -> tuple[bool, str, str]:
    still = f"nodes that are paid for whether they are used or not cost {verdict.commitments} until the period's end"
    whole = verdict.spent + verdict.commitments
    if budget.hard_limit is not None and whole > budget.hard_limit:
        left = budget.hard_limit - verdict.spent
        return False, "LimitBelowCommitments", f"{still}, and the hard limit leaves {left}: all nodes end before"
    if whole > budget.aim:
        return False, "AmountBelowCommitments", f"{still}, and the amount leaves {budget.aim - verdict.spent}"
    return True, "CommitmentsCovered", still
