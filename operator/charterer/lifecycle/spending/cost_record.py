"""The record of costs: what rentals cost is written to it before they are forgotten, a day at a time.

The rental is the queue: what is on record is in its status, and the next part is made from there
(docs/development/adr/0075). While the place refuses, rentals that have ended stay, and all else goes on.
"""

from __future__ import annotations

from typing import Final

from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId
from charterer.domain.period import day_bounds
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import RecordCosts, RecordedPart, Wait
from charterer.domain.time import Instant, after
from charterer.ledger.attribution import gpus_of, in_vain
from charterer.ledger.cost_rows import Part, correction_begun, next_part, rows
from charterer.lifecycle.budget import SURVEY_WAIT_SECONDS, recorded_up_to
from charterer.lifecycle.ended_rental import payer_of
from charterer.lifecycle.view import LifecycleView

_PARTS: Final = 250
"""Most rentals of one file: their rows take about a millisecond each. More follow in the next."""
_USES_WAIT_SECONDS: Final = 600.0
"""Seconds after a machine's end until which the ends of its runs are awaited."""


def cost_record_step(budget_id: BudgetId, view: LifecycleView) -> RecordCosts | Wait | None:
    """The next file of the budget's costs: all parts that are over, one of each rental; None if there are none."""
    snapshot, budget = view.snapshot, view.snapshot.budgets[budget_id]
    recording, rentals = snapshot.cost_recording, view.rentals_of_budget.get(budget_id, ())
    if not recording.place:
        return None
    today = day_bounds(budget.time_zone, snapshot.now)[0]
    due = [(rental, part) for rental in rentals if (part := _due(rental, budget, today, view)) is not None][:_PARTS]
    if not due:
        return None
    if recording.written is not None:
        again = after(recording.written, recording.every_seconds)
        if snapshot.now < again:
            return Wait("the next file of the record of costs", until=again)
    vain = in_vain(rentals, snapshot)

    def recorded(rental: Rental, part: Part) -> RecordedPart:
        begun = correction_begun(rental)
        if begun is not None:
            return RecordedPart(rental.id, rental.resource_version, (), begun)
        pool, gpus = snapshot.pools.get(rental.pool), gpus_of(rental, snapshot)
        made = rows(part, rental, budget, pool, gpus, in_vain=rental.id in vain)
        return RecordedPart(rental.id, rental.resource_version, tuple(made), part.after)

    return RecordCosts(budget_id, tuple([recorded(rental, part) for rental, part in due]))


def _due(rental: Rental, budget: Budget, today: Instant, view: LifecycleView) -> Part | None:
    """The rental's next part, if it is over and all that it is made from is known. ``today``: when the day began."""
    through = rental.launched if rental.recorded is None else rental.recorded.through
    if rental.ended is None and (through is None or through >= today):
        return None
    part, now = next_part(rental, budget.time_zone), view.snapshot.now
    if part is None or now < part.end or payer_of(rental, view) is not budget:
        return None
    if rental.phase is not RentalPhase.ENDED:
        known = recorded_up_to(rental, part.end, view) or now >= after(part.end, SURVEY_WAIT_SECONDS)
        return part if known else None
    if budget.balance is None or rental.uid not in budget.balance.folded or rental.ended is None:
        return None
    held = any(use.until is None for use in rental.uses)
    return None if held and now < after(rental.ended, _USES_WAIT_SECONDS) else part
