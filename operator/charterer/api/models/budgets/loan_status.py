"""A loan between budgets, as it is shown."""

from __future__ import annotations

from typing import Self

from charterer.api.models.base import Amount, ApiModel, Cents, ObjectName
from charterer.domain.spending.loans import Loan

LOANS_SHOWN = 10
"""Loans that a status lists."""


class LoanStatus(ApiModel):
    """A budget aims at less in this month, and another one at more."""

    lender: ObjectName
    """The GPUBudget that is not forecast to need it."""
    borrower: ObjectName
    """The GPUBudget that may spend it."""
    amount: Cents
    """Dollars."""

    @classmethod
    def from_domain(cls, loan: Loan) -> Self:
        """The loan as it is shown."""
        return cls(lender=loan.lender, borrower=loan.borrower, amount=loan.amount)


class BorrowedStatus(ApiModel):
    """What a budget was lent in a past period."""

    lender: ObjectName
    """The GPUBudget that spent less than its own aim."""
    amount: Amount
    """Dollars."""
