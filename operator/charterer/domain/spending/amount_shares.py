"""What each budget may aim at where budgets above it have less than all below them ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.budget import AmountShare, Budget
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.spending.budget_tree import budget_tree


def with_shares(budgets: Mapping[BudgetId, Budget]) -> Mapping[BudgetId, Budget]:
    """The budgets, each with the ``amount`` that it may aim at for the namespaces that it pays for itself.

    Budgets whose amounts add up to more than their parent may give are each scaled down in proportion, rounded down to
    the micro-dollar. A parent's own is what is left. So the amounts of a budget and all below it never add up to more
    than its ``share.in_all``. Budgets without a known parent keep their amount. Applied again, nothing changes.
    """
    tree = budget_tree(budgets)
    if not tree.above:
        return budgets
    declared = {name: budget.declared_amount for name, budget in budgets.items()}
    children: dict[BudgetId, list[BudgetId]] = {}
    for name, above in tree.above.items():
        children.setdefault(above[0], []).append(name)
    shares: dict[BudgetId, AmountShare] = {}
    for name in sorted({*tree.above, *tree.below}, key=lambda name: len(tree.with_parents(name))):
        above = tree.above.get(name, ())
        in_all, asked = declared[name], ZERO
        if above:
            given = shares[above[0]]
            asked = total(declared[each] for each in children[above[0]])
            in_all = _in_proportion(in_all, asked, given.in_all)
        shares[name] = AmountShare(
            declared=declared[name],
            in_all=in_all,
            below=total(declared[each] for each in children.get(name, ())),
            siblings=asked,
            given=shares[above[0]].in_all if above else None,
        )
    return {
        name: replace(budget, amount=shares[name].own, share=shares[name]) if name in shares else budget
        for name, budget in budgets.items()
    }


def _in_proportion(amount: Money, asked: Money, given: Money) -> Money:
    """Its part of what is given, where more is asked for."""
    return amount if asked <= given else Money(amount.micros * given.micros // asked.micros)
