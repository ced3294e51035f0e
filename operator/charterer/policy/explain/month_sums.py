"""What a month's forecast is made of: dollars spent, of jobs in sight, and of jobs that are expected to come."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.money import ZERO, Money
from charterer.policy.budgets.solution import BudgetSolution


@dataclass(frozen=True, slots=True)
class MonthSums:
    """They add up to the forecast. ``in_sight``: what running and waiting jobs will still cost, in this month.

    ``assumed``: nothing tells yet how often jobs come, so that ``to_come`` is an assumption. ``jobs``: in sight.
    """

    spent: Money
    in_sight: Money
    to_come: Money
    assumed: bool
    jobs: int

    @property
    def without_more_jobs(self) -> Money:
        """The month's dollars if no other job comes."""
        return self.spent + self.in_sight


def month_sums(solution: BudgetSolution, forecast: Money) -> MonthSums:
    """The sums of a budget whose month is expected to end at ``forecast``."""
    waiting = sum(
        len(solution.groups[key].waiting) * share.dollars * solution.calibration.factor(key[0])
        for key, share in solution.shares.items()
        if key in solution.groups
    )
    left = max(forecast - solution.spent, ZERO)
    in_sight = min(Money.of(solution.pacing.left + waiting), left)
    return MonthSums(solution.spent, in_sight, left - in_sight, assumed(solution), _in_sight(solution))


def assumed(solution: BudgetSolution) -> bool:
    """Whether no group's arrivals are declared or counted."""
    groups = [share.group for share in solution.shares.values()]
    return bool(groups) and all(group.arrivals is None or group.assumed for group in groups)


def _in_sight(solution: BudgetSolution) -> int:
    return sum(share.group.active for share in solution.shares.values())
