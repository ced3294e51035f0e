"""Nodes that are paid for whether they are used or not (``spec.price.committed``): they are rented at once, and kept.

A machine that runs idle costs no more than a reservation that nobody uses, and a job begins on it at once. All limits
hold for them too. That they are kept is in ``release_idle``; that jobs use them first is in their price
(``Pool.marginal``).
"""

from __future__ import annotations

from charterer.policy.actions.budget_plan import BudgetPlan


def rent_committed(plan: BudgetPlan) -> None:
    """Rent the nodes of the budget's committed pools that are not there yet, as far as all limits allow it.

    All budgets' are rented before any job asks for nodes, so that no job takes the room under a limit, also of a budget
    above. The plan is made again when a commitment ends.
    """
    for name, pool in plan.snapshot.committed_to(plan.solution.budget).items():
        if pool.committed is None or pool.offering is None or pool.quote is None:
            continue
        plan.decided.again_at.append(pool.committed.until)
        refused = plan.placer.rent_committed(name)
        if refused is not None:
            plan.decided.not_rented[name] = refused
