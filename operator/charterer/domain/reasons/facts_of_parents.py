"""What is known of a budget whose parents are not all known."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId


@dataclass(frozen=True, slots=True)
class ParentMissing:
    """``budget`` names a parent that is not there or cannot be read: its limits are not known."""

    budget: BudgetId
    parent: BudgetId


@dataclass(frozen=True, slots=True)
class ParentsInCircle:
    """Each of these budgets is the parent of the one before, and the first that of the last."""

    budgets: tuple[BudgetId, ...]


@dataclass(frozen=True, slots=True)
class RelativeUnreadable:
    """A budget cannot be read. It may have the same parents, and nobody knows what it spent."""

    budget: BudgetId


ParentFact = ParentMissing | ParentsInCircle | RelativeUnreadable
"""Why it is not known what the budgets above a budget allow."""
