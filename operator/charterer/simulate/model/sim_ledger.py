"""A budget's balance during a simulation, kept by the operator's own ledger."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.billing import accrued_in
from charterer.domain.budget import Balance, Budget
from charterer.domain.job import Job
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.money import Money
from charterer.domain.period import period_bounds, period_end
from charterer.domain.steps import CountedJob, CountJobs, OpenPeriod
from charterer.domain.time import Instant
from charterer.ledger.balance import apply_open_period
from charterer.ledger.class_history import apply_count
from charterer.simulate.model.domain_objects import gpu_rental
from charterer.simulate.model.node_market import NodeMarket, SimMachine


class SimLedger:
    """The budget with its balance. Bills of ended machines are summed aside and enter the balance when it is read."""

    def __init__(self, budget: Budget, market: NodeMarket, now: Instant) -> None:
        self._budget = budget
        self._market = market
        self._period_end = Instant(0)
        self._settled = 0
        self._lifetime = 0
        self._balance(now)

    def budget(self, now: Instant) -> Budget:
        """The budget as of now, in the period that contains ``now``."""
        self._balance(now)
        return self._flush()

    def end(self, machine: SimMachine, now: Instant, *, taken: bool = False) -> None:
        """End the machine now and add its bill to the sums; ``taken``: the cloud takes it back."""
        begin = self._balance(now).period_start
        bill = self._market.end(machine, now, taken=taken)
        in_period = bill if machine.created >= begin else accrued_in(gpu_rental(machine), begin, now)
        self._settled += in_period.micros
        self._lifetime += bill.micros

    def count(self, job: Job, now: Instant) -> None:
        """Record a job that is complete now: its cost beside the predicted one."""
        budget = self.budget(now)
        assert budget.balance is not None
        assert job.predicted is not None
        cost, opening = job_cost(job, {}, now), budget.is_opening(job.created)
        counted = CountedJob(job.id, job.statistics, job.predicted, cost, job.created, now, opening)
        balance = apply_count(budget.balance, CountJobs(budget.id, (counted,)))
        self._budget = replace(budget, balance=balance)

    def _balance(self, now: Instant) -> Balance:
        """The balance of the period that contains ``now``; periods that ended since are closed, month by month."""
        if now >= self._period_end:
            start, self._period_end = period_bounds(self._budget.time_zone, now)
            budget = self._flush()
            rentals = [gpu_rental(machine) for machine in self._market.machines.values()]
            balance = budget.balance or apply_open_period(None, OpenPeriod(budget.id, start, None, None))
            while balance.period_start < start:
                begin = balance.period_start
                end = period_end(budget.time_zone, begin)
                used = sum((accrued_in(rental, begin, end) for rental in rentals), balance.settled)
                balance = apply_open_period(
                    balance, OpenPeriod(budget.id, end, used, begin, budget.carries(used), budget.aim)
                )
                budget = replace(budget, balance=balance)
            self._budget = replace(budget, balance=balance)
        assert self._budget.balance is not None
        return self._budget.balance

    def _flush(self) -> Budget:
        """The budget, with the sums of ended machines entered into its balance."""
        if self._lifetime:
            balance = self._budget.balance
            assert balance is not None
            settled, lifetime = Money(self._settled), Money(self._lifetime)
            balance = replace(balance, settled=balance.settled + settled, lifetime=balance.lifetime + lifetime)
            self._budget = replace(self._budget, balance=balance)
            self._settled = self._lifetime = 0
        return self._budget
