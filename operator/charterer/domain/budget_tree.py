"""Parents of budgets: which limits hold for which budget, and the target of each budget."""

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

# The tree of budgets: which limits hold for which budget, and which budgets have unknown parents.


@dataclass(frozen=True, slots=True)
class BudgetTree:
    """The known ancestors and descendants of budgets.

    ``above``: the ancestors of each budget that has any, the nearest first; none if the chain is a cycle. ``below``:
    all descendants of each budget that has any. ``faults``: errors by budget, for budgets whose ancestors are not all
    known. Budgets with a fault rent nothing new.
    """

    above: Mapping[BudgetId, tuple[BudgetId, ...]] = field(default_factory=dict)
    below: Mapping[BudgetId, tuple[BudgetId, ...]] = field(default_factory=dict)
    faults: Mapping[BudgetId, Fact] = field(default_factory=dict)

    def with_parents(self, budget: BudgetId) -> tuple[BudgetId, ...]:
        """The budgets whose limits hold for ``budget``: the budget itself and its ancestors, the nearest first."""
        return (budget, *self.above.get(budget, ()))

    def without_parents_among(self, budgets: list[Budget]) -> list[Budget]:
        """The budgets, in their order, without budgets that are ancestors of other given budgets."""
        parents = {parent for budget in budgets for parent in self.above.get(budget.id, ())} if self.above else set()
        return [budget for budget in budgets if budget.id not in parents] if parents else budgets


NO_TREE = BudgetTree()


def budget_tree(budgets: Mapping[BudgetId, Budget], problems: Iterable[Problem] = ()) -> BudgetTree:
    """The tree of the budgets.

    If ``problems`` says that a GPUBudget is unreadable, its parent and its spending are unknown. So every budget that
    has a parent or a child then gets a fault.
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
    """The known ancestors of a budget, the nearest first, and the fault if not all ancestors are known.

    A parent with another kind of period or another grant is a fault: no balance holds the spending of a part of a
    period, so the sums could not be computed.
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
    """The families of budgets that lend each other money: a parent and its children, each in one family.

    Budgets of a family have the same calendar and the same carry-over percentage. So if a lender carries a loan over,
    the borrower carries over a deficit of the same amount. Budgets in mode Observe or with a fixed exchange rate take
    no part.
    """
    alike: dict[tuple[Calendar, int], list[Budget]] = {}
    for each in budgets:
        if parent.id in (each.id, each.parent) and each.mode is Mode.ENFORCE and each.fixed_rate is None:
            alike.setdefault((each.calendar, each.carry_over_percent), []).append(each)
    return list(alike.values())


# The targets of budgets whose parent has less money than its children ask for.


def with_shares(budgets: Mapping[BudgetId, Budget]) -> Mapping[BudgetId, Budget]:
    """The budgets, each with the ``amount`` that it may spend on the namespaces that it pays for itself.

    If budgets declare more in sum than their parent may give, each is scaled down in proportion, rounded down to the
    micro-dollar. The parent's own amount is the remainder. So the amounts of a budget and its descendants never add up
    to more than its ``share.in_all``. A budget without a known parent keeps its declared amount. The function is
    idempotent.
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
    """``amount``, or ``amount`` times ``given`` ÷ ``asked`` if ``asked`` exceeds ``given``."""
    return amount if asked <= given else Money(amount.micros * given.micros // asked.micros)
