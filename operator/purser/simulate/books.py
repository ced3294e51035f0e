"""A budget's books during a simulation, kept by the operator's own ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from purser.domain.billing import accrued_in
from purser.domain.budget import Budget
from purser.domain.ids import RentalId
from purser.domain.job import Job
from purser.domain.job_cost import job_cost
from purser.domain.money import Money
from purser.domain.period import period_bounds, period_end
from purser.domain.rental import Rental
from purser.domain.steps import CountedJob, CountJobs, OpenPeriod
from purser.domain.time import Instant
from purser.ledger.balance import apply_open_period
from purser.ledger.experience import apply_count


def opened(budget: Budget, rentals: Iterable[Rental], now: Instant) -> Budget:
    """The budget in the period that ``now`` is in: those that ended meanwhile are closed, month by month."""
    start = period_bounds(budget.time_zone, now)[0]
    if budget.balance is None:
        return replace(budget, balance=apply_open_period(None, OpenPeriod(budget.id, start, None, None)))
    while budget.balance is not None and budget.balance.period_start < start:
        begin = budget.balance.period_start
        end = period_end(budget.time_zone, begin)
        used = sum((accrued_in(one, begin, end) for one in rentals), budget.balance.settled)
        step = OpenPeriod(budget.id, end, used, begin, budget.carries(used))
        budget = replace(budget, balance=apply_open_period(budget.balance, step))
    return budget


def settled(budget: Budget, rental: Rental, cost: Money, now: Instant) -> Budget:
    """The budget once a rental that ends now, and cost so much in all, is in its sums."""
    balance = budget.balance
    assert balance is not None
    in_period = accrued_in(rental, balance.period_start, now)
    balance = replace(balance, settled=balance.settled + in_period, lifetime=balance.lifetime + cost)
    return replace(budget, balance=balance)


def counted(budget: Budget, job: Job, rentals: Mapping[RentalId, Rental], now: Instant) -> Budget:
    """The budget once it knows what a job that is complete now has cost, beside what had been predicted."""
    if job.predicted is None or budget.balance is None:
        return budget
    cost = job_cost(job, rentals, now)
    step = CountJobs(budget.id, (CountedJob(job.id, job.statistics, job.predicted, cost, now),))
    return replace(budget, balance=apply_count(budget.balance, step))
