"""The dollars that a budget may still commit to jobs that wait, while one plan is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, ArrivalsBasis
from charterer.domain.reasons.facts import Facts
from charterer.domain.reasons.facts_of_waits import CostsTooMuch, OthersWaitForMoney, SpendsTooMuch
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.options.option_value import Projection
from charterer.policy.solve.phase_dp import key_of


class Commitments:
    """The money of one plan: asked and counted job by job, in the order of the queue.

    ``ranked``: the projections of each waiting job, best first. In dollars: ``_committed``, the expected cost of
    those let in so far; ``_rate``, a second of these and of all that run. ``_expected``: whether one of them is of a
    class whose arrival rate is known. ``_refused``: whether a job of the queue was not let in.
    """

    def __init__(self, plan: BudgetPlan, ranked: Mapping[JobId, Sequence[Projection]]) -> None:
        running = plan.jobs.running
        self._plan = plan
        self._solution = plan.solution
        self._ranked = ranked
        self._committed = 0.0
        self._rate = Price(sum([kept.micros for kept in running])).dollars_per_second
        self._expected = any(self._is_expected(kept.group.key) for kept in running)
        self._refused = False

    def affords(self, job: Job, option: Option) -> bool:
        """Whether the budget can still pay for it, and no job before it in the queue was refused.

        While the budget is too small for all, a job whose class has no known arrival rate starts as long as what it
        costs may still be committed, beside the jobs that start before it. Any job starts if the rate of what runs
        stays within the allowed rate; a first job starts anyway, or jobs dearer than that would never run. Jobs of
        classes without a known rate do not count for that: the first of a class with one starts beside them.
        Where its nodes are there already, half its price counts: they were rented when it fitted, and what is rented
        makes the rate that is still allowed smaller by up to the other half (``pacing``: h / 2 of it, paid over h).
        """
        if self._solution.feasible:
            return True
        if self._refused:
            return False
        expected = self._is_expected(self._solution.key(job))
        if not expected and self._committed + self._cost(job, option) <= self._solution.committable:
            return True
        first = self._rate == 0 or (expected and not self._expected)
        allowed = self._solution.allowed
        price = option.price.dollars_per_second * (1.0 if self._plan.placer.must_rent(job, option) else 0.5)
        return allowed > 0 and (first or self._rate + price <= allowed)

    def use(self, job: Job, option: Option) -> None:
        """Count the price of nodes that the job has now, or that are kept or rented for it."""
        self._rate += option.price.dollars_per_second
        self._expected |= self._is_expected(self._solution.key(job))

    def start(self, job: Job, given: Allocate) -> None:
        """Count what a job costs that begins."""
        if not self._solution.feasible:
            self._committed += self._solution.commitment(job, given)

    def wait(self, job: Job, option: Option) -> None:
        """Count what a job costs that waits for its nodes: what it will cost once it begins."""
        if not self._solution.feasible:
            self._committed += self._cost(job, option)

    def refuse(self, job: Job, option: Option) -> Facts:
        """Refuse a job of the queue: nobody behind it gets what the first cannot have.

        The dollars that the job needs, and what the budget has for it; or that others come first.
        """
        if self._refused:
            return OthersWaitForMoney()
        self._refused = True
        if not self._is_expected(self._solution.key(job)):
            left = Money.of(max(self._solution.committable - self._committed, 0.0))
            return CostsTooMuch(Money.of(self._cost(job, option)), left)
        used, allowed = Price.per_second(self._rate), Price.per_second(max(self._solution.allowed, 0.0))
        return SpendsTooMuch(option.price, used, allowed)

    def _is_expected(self, group: GroupKey) -> bool:
        """Whether the arrival rate of the group's class is known, and no assumption."""
        assignment = self._solution.assignments.get(group)
        return assignment is not None and assignment.group.basis is not ArrivalsBasis.ASSUMED

    def _cost(self, job: Job, option: Option) -> float:
        """Dollars that the job is expected to cost to its end on that option, or on the cheapest."""
        factor, projections = self._solution.calibration.factor(self._solution.key(job)[0]), self._ranked[job.id]
        there = [projection.dollars for projection in projections if key_of(projection.option) == key_of(option)]
        return min(there or [projection.dollars for projection in projections]) * factor
