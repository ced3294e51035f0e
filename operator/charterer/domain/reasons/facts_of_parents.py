"""What is known of a budget whose parents are not all known."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId
from charterer.domain.reasons.fact import Fact


@dataclass(frozen=True, slots=True)
class ParentMissing(Fact):
    """``budget`` names a parent that is not there or cannot be read: its limits are not known."""

    budget: BudgetId
    parent: BudgetId

    def sentence(self) -> str:
        return (
            f"spec.parent of GPUBudget {self.budget} is {self.parent}, which does not exist or "
            "cannot be read, so that its "
            "limits are not known: nothing new is rented"
        )


@dataclass(frozen=True, slots=True)
class ParentsInCircle(Fact):
    """Each of these budgets is the parent of the one before, and the first that of the last."""

    budgets: tuple[BudgetId, ...]

    def sentence(self) -> str:
        return (
            f"spec.parent of GPUBudgets goes in a circle ({' below '.join([*self.budgets, self.budgets[0]])}), so that "
            "nothing new is rented: correct one of them"
        )


@dataclass(frozen=True, slots=True)
class RelativeUnreadable(Fact):
    """A budget cannot be read. It may have the same parents, and nobody knows what it spent."""

    budget: BudgetId

    def sentence(self) -> str:
        return (
            f"GPUBudget {self.budget} cannot be read, and may count against the same limits of a "
            "parent: nothing new is "
            "rented until it is corrected"
        )
