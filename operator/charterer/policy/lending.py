"""Which budgets lend each other money in this plan: those of a parent that allows it, by their forecasts (ADR 76)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from charterer.domain.budget import Budget
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.spending.budget_tree import lending_families
from charterer.domain.spending.loans import Loan, Need, loans, net_loan
from charterer.policy.budgets.inputs import PlanInputs
from charterer.policy.budgets.solution import BudgetSolution, solve_budget


def with_loans(solutions: Sequence[BudgetSolution], inputs: PlanInputs) -> Sequence[BudgetSolution]:
    """The solutions, in their order; those of budgets that lend or borrow are solved again for what they then aim at.

    The topmost parents come first: what a budget has lent there, its own children cannot have.
    """
    solved, made = {each.budget.id: each for each in solutions}, list[Loan]()
    for parent in _lending([each.budget for each in solutions], inputs):
        for family in lending_families(parent, [each.budget for each in solutions]):
            made += loans([_need(solved[each.id], made) for each in family])
    found = []
    for each in solutions:
        name = each.budget.id
        mine = tuple([loan for loan in made if name in (loan.lender, loan.borrower)])
        found.append(solve_budget(replace(each.budget, loans=mine), inputs) if mine else each)
    return found


def _lending(budgets: Sequence[Budget], inputs: PlanInputs) -> Sequence[Budget]:
    """The parents that allow loans, the topmost first; none while nobody knows what all below them have spent."""
    tree, unknown = inputs.tree, {each.parent for each in inputs.snapshot.unplanned.values()}
    known = [each for each in budgets if each.lends and each.id not in tree.faults and each.id not in unknown]
    return sorted(known, key=lambda each: (len(tree.above.get(each.id, ())), each.id))


def _need(solution: BudgetSolution, made: Sequence[Loan]) -> Need:
    """A budget's month with the loans that are made already. One that pays for nothing itself needs nothing more."""
    budget = solution.budget
    idle, high = budget.selector.nothing, None if _unknown(solution) else solution.forecast_verdict().high
    return Need(
        budget=budget.id,
        aim=budget.own_aim + net_loan(budget.id, made),
        spent=solution.spent,
        high=solution.spent if idle else high,
        short=not idle and not solution.surplus,
        most=budget.hard_limit,
    )


def _unknown(solution: BudgetSolution) -> bool:
    return solution.arrivals_verdict().basis is ArrivalsBasis.ASSUMED
