"""Budgets in the order of their tree, and a line on each that is above others: what all below it have and may have."""

from __future__ import annotations

from collections.abc import Iterator

from charterer.cli.shared.plan_report import PlanReport
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId
from charterer.domain.plan import SpendVerdict
from charterer.policy.budgets.solution import BudgetSolution


def in_tree_order(report: PlanReport) -> Iterator[tuple[int, BudgetSolution]]:
    """Each budget with its depth: every one directly after the one above it, and by name among those of one parent."""
    if not report.solutions:
        return
    above = report.solutions[0].inputs.tree.above
    by_line: dict[tuple[BudgetId, ...], BudgetSolution] = {}
    for solution in report.solutions:
        name = solution.budget.id
        by_line[(*reversed(above.get(name, ())), name)] = solution
    for line in sorted(by_line):
        yield len(line) - 1, by_line[line]


def family_in_words(budget: Budget, family: SpendVerdict) -> str:
    """``with all below it: $512.00 of hardLimit $600.00 committed``: what limits leave, and what is shared."""
    told = []
    if budget.hard_limit is not None:
        told.append(f"{family.committed} of hardLimit {budget.hard_limit} committed")
    if budget.max_hourly_rate is not None:
        told.append(f"nodes for up to {family.hourly} of maxHourlyRate {budget.max_hourly_rate}")
    share = budget.share
    if share is not None and share.below > share.in_all:
        told.append(f"those below ask for {share.below}, and each has its part")
    return f"with all below it: {', '.join(told)}" if told else "with all below it"
