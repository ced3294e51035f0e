"""What a month's dollars are made of: dollars spent, of jobs in sight, and of jobs that are expected to come."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.money import ZERO, Money
from charterer.domain.plan import ArrivalsBasis, BudgetVerdict
from charterer.policy.budgets.solution import BudgetSolution


@dataclass(frozen=True, slots=True)
class MonthSums:
    """They add up to the forecast, if there is one. ``in_sight``: what the nodes of running and waiting
    jobs still cost, until they can be given back.

    ``assumed``: nothing tells yet how often jobs come, so that ``to_come`` is an assumption. ``jobs``: in sight.
    ``commitments``: what nodes will still cost that are paid for whether they are used or not.
    """

    spent: Money
    in_sight: Money
    to_come: Money
    assumed: bool
    jobs: int
    commitments: Money = ZERO

    @property
    def without_more_jobs(self) -> Money:
        """The month's dollars if no other job comes."""
        return self.spent + self.in_sight + self.commitments


def month_sums(verdict: BudgetVerdict) -> MonthSums:
    """The sums of a budget."""
    arrivals = verdict.arrivals
    return MonthSums(
        spent=verdict.spent,
        in_sight=verdict.in_sight,
        to_come=verdict.to_come,
        assumed=arrivals.basis is ArrivalsBasis.ASSUMED,
        jobs=arrivals.jobs,
        commitments=verdict.commitments,
    )


def assumed(solution: BudgetSolution) -> bool:
    """Whether nothing tells yet how often the budget's jobs come."""
    return solution.arrivals_verdict().basis is ArrivalsBasis.ASSUMED
