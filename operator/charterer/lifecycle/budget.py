"""Budgets: open each period when it begins, count finished jobs, record what the money was for, and keep the list of
folded rentals short."""

from __future__ import annotations

from charterer.domain.billing import spent
from charterer.domain.budget import FOLDED_KEPT, Balance, Budget
from charterer.domain.ids import BudgetId
from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.period import period_bounds, period_end
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import AddCosts, BudgetStep, CountedJob, CountJobs, OpenPeriod, PruneFolded, Wait
from charterer.domain.time import Instant, after
from charterer.ledger.costs import next_costs
from charterer.lifecycle.rental import cloud_update
from charterer.lifecycle.spending.borrowed import borrowed_by
from charterer.lifecycle.view import LifecycleView, must_show
from charterer.sentences import count, names

SURVEY_WAIT_SECONDS = 600
"""Seconds that a period is kept open for clouds that do not answer: long outages must not keep a budget in the past."""

_MANY_FORGOTTEN = FOLDED_KEPT // 4
"""Rentals that are gone at which the list of folded ones is shortened first, however many jobs are to be counted."""
_FORGOTTEN_TOGETHER = 50
"""Rentals that are gone at which the list is shortened although money is spent: a write for each would be too many."""
_COSTS_SECONDS = 60
"""Seconds between two additions to the costs by cause: the resolution of the counters that metrics show."""


def budget_step(budget_id: BudgetId, view: LifecycleView) -> BudgetStep | Wait | None:
    """The budget's next step, what it waits for, or None while its period lasts."""
    budget = view.snapshot.budgets[budget_id]
    now = view.snapshot.now
    if budget.balance is None:
        return OpenPeriod(budget.id, period_bounds(budget.time_zone, now)[0], None, None)
    end = period_end(budget.time_zone, budget.balance.period_start)
    if now >= end:
        return _next_period(budget, budget.balance, end, view)
    existing = {rental.uid for rental in view.rentals_of_budget.get(budget.id, ())}
    forgotten = budget.balance.folded - existing
    few = len(forgotten) < _MANY_FORGOTTEN
    if few and (jobs := view.uncounted.get(budget.id)):
        return CountJobs(budget.id, tuple(_counted(job, budget, view) for job in jobs))
    if few and (added := _costs(budget, budget.balance, view)) is not None:
        return added
    if forgotten and (len(forgotten) >= _FORGOTTEN_TOGETHER or not _costs_are_recent(budget.balance, now)):
        return PruneFolded(budget.id, tuple(sorted(forgotten)))
    return None


def _next_period(budget: Budget, balance: Balance, end: Instant, view: LifecycleView) -> OpenPeriod | Wait:
    """Close the period that is over: one month at a time, however many have passed.

    What ended before the boundary must be in the balance first; what runs across it is split there. A rental that
    ended after the boundary is folded by the next period (see ``lifecycle.rental``), so neither waits for the other.
    """
    rentals = view.rentals_of_budget.get(budget.id, ())
    unfolded = [rental for rental in rentals if rental.uid not in balance.folded]
    late = [rental.id for rental in unfolded if rental.cost is not None and (rental.ended or end) <= end]
    if late:
        return Wait(f"{count(len(late), 'rental')} that ended in the period to be folded ({names(late)})")
    unsurveyed = [
        rental.id
        for rental in unfolded
        if rental.phase is not RentalPhase.ENDED and not recorded_up_to(rental, end, view)
    ]
    deadline = after(end, SURVEY_WAIT_SECONDS)
    if unsurveyed and view.snapshot.now < deadline:
        return Wait(f"the clouds to say what {names(unsurveyed)} had cost by its end", until=deadline)
    before = [rental for rental in rentals if rental.launched is not None and rental.launched < end]
    used = spent(budget, before, end)
    borrowed = borrowed_by(budget, balance.period_start, end, view)
    return OpenPeriod(budget.id, end, used, balance.period_start, budget.carries(used), budget.own_aim, borrowed)


def _costs(budget: Budget, balance: Balance, view: LifecycleView) -> AddCosts | None:
    """The spend since the last addition, once a minute, and at once when a rental was folded."""
    if _costs_are_recent(balance, view.snapshot.now) and balance.costs.lifetime == balance.lifetime:
        return None
    return next_costs(budget, balance, view.rentals_of_budget.get(budget.id, ()), view.snapshot)


def _costs_are_recent(balance: Balance, now: Instant) -> bool:
    through = balance.costs.through
    return through is not None and now < after(through, _COSTS_SECONDS)


def _counted(job: Job, budget: Budget, view: LifecycleView) -> CountedJob:
    assert job.finish is not None
    assert job.predicted is not None
    actual = job_cost(job, view.snapshot.rentals, view.snapshot.now)
    return CountedJob(
        job.id, job.statistics, job.predicted, actual, job.created, job.finish.at, budget.is_opening(job.created)
    )


def recorded_up_to(rental: Rental, boundary: Instant, view: LifecycleView) -> bool:
    """Whether everything that the cloud billed for the rental up to the boundary is on record: its split is final.

    For a rental without an instance: whether no instance of the pool that it might adopt was launched by then.
    """
    survey = view.survey(rental)
    if survey is None or not must_show(survey, boundary):
        return False
    if rental.launched is None:
        return rental.instance is None and all(
            item.launched >= boundary for item in view.unclaimed(view.acting(rental.pool))
        )
    return cloud_update(rental, view) is None and rental.missing_since is None
