"""Budgets above budgets: whose limits hold for whom, and what each budget may aim at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from charterer.domain.budget import AmountShare, Budget, Mode
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.waits import ParentMissing, ParentsInCircle, PeriodsDiffer, RelativeUnreadable
from charterer.domain.time import Calendar

# Budgets above budgets: whose limits hold for whom, and which budgets have parents that nobody knows.


@dataclass(frozen=True, slots=True)
class BudgetTree:
    """The parents of budgets as far as they are known.

    ``above``: of each budget that has any, the nearest first; none where they go in a circle. ``below``: of each budget
    that has any, all descendants. ``faults``: of budgets whose parents are not all known: they rent nothing new.
    """

    above: Mapping[BudgetId, tuple[BudgetId, ...]] = field(default_factory=dict)
    below: Mapping[BudgetId, tuple[BudgetId, ...]] = field(default_factory=dict)
    faults: Mapping[BudgetId, Fact] = field(default_factory=dict)

    def with_parents(self, budget: BudgetId) -> tuple[BudgetId, ...]:
        """The budgets whose limits hold for this one: itself and its parents, the nearest first."""
        return (budget, *self.above.get(budget, ()))

    def without_parents_among(self, budgets: list[Budget]) -> list[Budget]:
        """Those of the budgets, in their order, that are above none of the others."""
        parents = {parent for budget in budgets for parent in self.above.get(budget.id, ())} if self.above else set()
        return [budget for budget in budgets if budget.id not in parents] if parents else budgets


NO_TREE = BudgetTree()


def budget_tree(budgets: Mapping[BudgetId, Budget], problems: Iterable[Problem] = ()) -> BudgetTree:
    """The tree of the budgets. ``problems``: of objects; while a GPUBudget cannot be read, nobody knows whose child it
    is and what it spent, so all budgets that have a parent or a child are at fault.
    """
    if all(budget.parent is None for budget in budgets.values()):
        return NO_TREE
    above: dict[BudgetId, tuple[BudgetId, ...]] = {}
    below: dict[BudgetId, list[BudgetId]] = {}
    faults: dict[BudgetId, Fact] = {}
    for name in budgets:
        chain, fault = _parents(name, budgets)
        if fault is not None:
            faults[name] = fault
        if chain:
            above[name] = chain
        for parent in chain:
            below.setdefault(parent, []).append(name)
    unread = min([problem.name for problem in problems if problem.kind == "GPUBudget"], default=None)
    if unread is not None:
        related = {name for name in (*above, *below) if name not in faults}
        faults |= dict.fromkeys(related, RelativeUnreadable(BudgetId(unread)))
    return BudgetTree(above, {name: tuple(those) for name, those in below.items()}, faults)


def _parents(name: BudgetId, budgets: Mapping[BudgetId, Budget]) -> tuple[tuple[BudgetId, ...], Fact | None]:
    """A budget's parents, the nearest first, as far as they are known; and what is wrong with them.

    A parent of another period is none: what a budget spent in a part of its period is in no balance, so that nobody
    could add it up.
    """
    line = [name]
    while (parent := budgets[line[-1]].parent) is not None:
        if parent in line:
            return (), ParentsInCircle(tuple(line[line.index(parent) :]))
        if parent not in budgets:
            return tuple(line[1:]), ParentMissing(line[-1], parent)
        own, above = budgets[line[-1]].calendar, budgets[parent].calendar
        if (own.period, own.grant) != (above.period, above.grant):
            return tuple(line[1:]), PeriodsDiffer(line[-1], own, parent, above)
        line.append(parent)
    return tuple(line[1:]), None


def lending_families(parent: Budget, budgets: Iterable[Budget]) -> Sequence[Sequence[Budget]]:
    """The budgets that lend each other money under a parent: itself and those directly below it, each in one family.

    A family has one calendar, so that its periods are the same, and one percentage of carry-over: what one has lent
    and carries over is then a deficit of the same amount that the other carries over. Budgets that only observe, or
    whose exchange rate is fixed, take no part.
    """
    alike: dict[tuple[Calendar, int], list[Budget]] = {}
    for each in budgets:
        if parent.id in (each.id, each.parent) and each.mode is Mode.ENFORCE and each.fixed_rate is None:
            alike.setdefault((each.calendar, each.carry_over_percent), []).append(each)
    return list(alike.values())


# What each budget may aim at where budgets above it have less than all below them ask for.


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
