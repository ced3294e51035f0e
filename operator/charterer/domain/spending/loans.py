"""Loans between budgets of one parent: what some are not forecast to need this month, others may spend (ADR 76).

Nothing is recorded of a loan. It follows from what each has spent and is forecast to spend, anew in every plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, apportion, total


@dataclass(frozen=True, slots=True)
class Loan:
    """Dollars by which the lender aims at less in this month, and the borrower at more."""

    lender: BudgetId
    borrower: BudgetId
    amount: Money


@dataclass(frozen=True, slots=True)
class Need:
    """A budget's month, as it is without loans.

    ``aim``: what it is to spend; ``spent`` of it is. ``high``: the upper end of the forecast; None if there is none.
    ``short``: more money would make its jobs faster. ``most``: what it may aim at whatever is lent; None for no limit.
    """

    budget: BudgetId
    aim: Money
    spent: Money
    high: Money | None
    short: bool
    most: Money | None = None

    @property
    def over(self) -> Money:
        """What it has spent of others' money."""
        return max(self.spent - self.aim, ZERO)

    @property
    def unspent(self) -> Money:
        """What it has not spent of its own."""
        return max(self.aim - self.spent, ZERO)

    @property
    def spare(self) -> Money:
        """What it is not forecast to spend of that."""
        return ZERO if self.short or self.high is None else max(self.aim - max(self.high, self.spent), ZERO)

    @property
    def room(self) -> Money | None:
        """What it may still borrow beyond what it has spent."""
        return None if self.most is None else max(self.most - max(self.aim, self.spent), ZERO)


def loans(family: Sequence[Need]) -> tuple[Loan, ...]:
    """What the budgets lend each other: all that is spare, to those that are short, in proportion to their aims.

    What one has spent beyond its aim comes first. The others bear it, out of what they have to spare, and if that is
    too little, out of what they have not spent, in proportion. No budget lends more than it has not spent, and none
    lends and borrows at once. So the aims with loans add up to those without, whatever is spent and forecast.
    """
    used = {each.budget: each.over for each in family if each.over > ZERO}
    spare = {each.budget: each.spare for each in family}
    unspent = {each.budget: each.unspent for each in family}
    if (missing := total(used.values()) - total(spare.values())) > ZERO:
        rest = {name: unspent[name] - spare[name] for name in unspent}
        more = _in_proportion(min(missing, total(rest.values())), rest)
        lent = {name: spare[name] + more.get(name, ZERO) for name in spare}
        return _pairs(lent, _in_proportion(total(lent.values()), used))
    short = {each.budget: max(each.aim, Money(1)) for each in family if each.short}
    offered = _in_proportion(total(spare.values()) - total(used.values()), short)
    rooms = {each.budget: each.room for each in family}
    granted = {name: money if (room := rooms[name]) is None else min(money, room) for name, money in offered.items()}
    borrowed = {name: used.get(name, ZERO) + granted.get(name, ZERO) for name in {**used, **granted}}
    return _pairs(_in_proportion(total(borrowed.values()), spare), borrowed)


def _in_proportion(amount: Money, weights: Mapping[BudgetId, Money]) -> Mapping[BudgetId, Money]:
    return apportion(amount, {name: each.micros for name, each in weights.items()}) if amount > ZERO else {}


def _pairs(lent: Mapping[BudgetId, Money], borrowed: Mapping[BudgetId, Money]) -> tuple[Loan, ...]:
    """Who lends whom: each in turn, until the amounts are used up. Both add up to the same."""
    found, lenders = list[Loan](), [(name, money) for name, money in lent.items() if money > ZERO]
    for borrower, wanted in borrowed.items():
        while wanted > ZERO:
            lender, there = lenders.pop(0)
            amount = min(wanted, there)
            found.append(Loan(lender, borrower, amount))
            wanted = wanted - amount
            if there > amount:
                lenders.insert(0, (lender, there - amount))
    return tuple(found)


def net_loan(budget: BudgetId, of: Iterable[Loan]) -> Money:
    """What the budget aims at more, or less, because of the loans."""
    given = total(each.amount for each in of if each.lender == budget)
    return total(each.amount for each in of if each.borrower == budget) - given
