"""Steps on budgets: their periods, and what their ledgers hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from charterer.domain.budget import Costs
from charterer.domain.ids import BudgetId, ClassId, RentalId
from charterer.domain.money import ZERO, Money
from charterer.domain.spending.cost_row import CostRow
from charterer.domain.spending.use import RecordedCost
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """Begin a budget's period: its first one, or the next one with the last one put into history.

    ``last_start``: when the period that ends here began (None for the first), so that repeating changes nothing.
    ``last_spent`` and ``last_aim``: what that period spent and aimed at. ``carried``: how much of its surplus
    (negative: deficit) goes into the new one. ``borrowed``: what others lent it in the period that ends, by lender.
    """

    budget: BudgetId
    start: Instant
    last_spent: Money | None
    last_start: Instant | None
    carried: Money = ZERO
    last_aim: Money | None = None
    borrowed: Mapping[BudgetId, Money] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A finished job: the ``actual`` cost of its GPUs, and the one ``predicted`` when it first got some.

    ``opening``: it waited for its budget, and is no arrival.
    """

    uid: str
    class_id: ClassId
    predicted: Money
    actual: Money
    created: Instant
    finished: Instant
    opening: bool = False


@dataclass(frozen=True, slots=True)
class CountJobs:
    """One conditional write of the budget: add finished jobs to the histories of their classes.

    See ``ledger.class_history.apply_count``.
    """

    budget: BudgetId
    jobs: tuple[CountedJob, ...]


@dataclass(frozen=True, slots=True)
class AddCosts:
    """One conditional write: add what was spent from ``since`` to ``added.through`` (``ledger.costs.apply_costs``).

    ``day``: when the day of that began in the budget's time zone.
    """

    budget: BudgetId
    since: Instant | None
    added: Costs
    day: Instant


@dataclass(frozen=True, slots=True)
class PruneFolded:
    """Remove the uids of rentals that no longer exist from the budget's list of folded ones."""

    budget: BudgetId
    rental_uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """A part of a rental's cost, made from the GPURental of that ``version``, and what is on record ``after`` it.

    Without ``rows`` it only marks that a part is about to be written.
    """

    rental: RentalId
    version: str
    rows: tuple[CostRow, ...]
    after: RecordedCost


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """Write the rows of many rentals into the record of costs, and then onto each rental that they are there.

    A rental that has changed meanwhile is left out: its part is made anew, and the later version counts.
    """

    budget: BudgetId
    parts: tuple[RecordedPart, ...]


CostRecordStep = RecordCosts
BudgetStep = OpenPeriod | CountJobs | AddCosts | PruneFolded
