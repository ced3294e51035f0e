"""What ``charterer costs`` answers: sums of a month, and how they compare with the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.cli.costs.cost_sums import CostSum, SumKey
from charterer.cli.costs.rows_of_month import LedgerMonth
from charterer.domain.money import ZERO, Money, total


@dataclass(frozen=True, slots=True)
class BudgetMonth:
    """A budget's month. ``ledger`` is None where the cluster was not read or has no such budget."""

    budget: str
    time_zone: str
    ledger: LedgerMonth | None
    sums: Sequence[tuple[SumKey, CostSum]]

    @property
    def cost(self) -> Money:
        """What its rentals cost, as far as it is known."""
        return total(found.cost + found.waste for _, found in self.sums)

    @property
    def still_open(self) -> Money:
        """What of that is not on record yet."""
        return total(found.open_cost for _, found in self.sums)

    @property
    def on_record(self) -> Money:
        """What of that is on record."""
        return self.cost - self.still_open

    @property
    def not_on_record(self) -> Money:
        """What the ledger has and the rows lack; negative if rows are those of a former budget of that name."""
        if self.ledger is None or self.ledger.spent is None:
            return ZERO
        return self.ledger.spent - self.ledger.opening - self.cost


@dataclass(frozen=True, slots=True)
class CostsAnswer:
    """The sums by ``keys`` of each budget; ``with_cause``: what no job held has sums of its own.

    ``shares_waste``: it was shared out to the jobs. ``place``: of the record, empty without one.
    """

    month: str
    keys: Sequence[str]
    with_cause: bool
    shares_waste: bool
    place: str
    budgets: Sequence[BudgetMonth]
