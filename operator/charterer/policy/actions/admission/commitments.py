"""The dollars that a budget may still commit to jobs that wait, while one plan is made.

Nodes are billed as a whole. So a job is asked what it adds to their cost until they can be given back
(``nodes.run_down``): nothing on GPUs of a node that stands for others anyway, a whole node where it has one to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.facts_of_waits import CostsTooMuch, OthersWaitForMoney, SpendsTooMuch
from charterer.policy.actions.budget_plan import BudgetPlan
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.nodes.run_down import RunDown


class Commitments:
    """The money of one plan: asked and counted job by job, in the order of the queue.

    ``_rate``: dollars a second of the jobs let in so far and of all that run. ``_expected``: whether one of them is of
    a class whose arrival rate is known. ``_refused``: whether a job of the queue was not let in.
    """

    def __init__(self, plan: BudgetPlan) -> None:
        running = plan.jobs.running
        self._plan = plan
        self._solution = plan.solution
        self._in_sight = plan.in_sight()
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
        A job that adds nothing to the cost of nodes begins in any case: nobody pays for it.
        """
        if self._solution.feasible:
            return True
        expected = self._is_expected(self._solution.key(job))
        if not expected and self._costs_nothing(job, option):
            return True
        if self._refused:
            return False
        if not expected and self._cost(job, option) <= self._left:
            return True
        first = self._rate == 0 or (expected and not self._expected)
        allowed = self._solution.allowed
        price = option.price.dollars_per_second * (1.0 if self._plan.placer.must_rent(job, option) else 0.5)
        return allowed > 0 and (first or self._rate + price <= allowed)

    def use(self, job: Job, option: Option) -> None:
        """Count what nodes cost that the job has now, or that are kept or rented for it."""
        self._rate += option.price.dollars_per_second
        self._expected |= self._is_expected(self._solution.key(job))
        nodes = None if self._solution.feasible else self._nodes.get(option.pool)
        if nodes is not None:
            nodes.add(self._in_sight.waiting_job(job, option))

    def refuse(self, job: Job, option: Option) -> Fact:
        """Refuse a job of the queue: nobody behind it gets what the first cannot have.

        The dollars that the job needs, and what the budget has for it; or that others come first.
        """
        if self._refused:
            return OthersWaitForMoney()
        self._refused = True
        if not self._is_expected(self._solution.key(job)):
            return CostsTooMuch(Money.of(self._cost(job, option)), Money.of(max(self._left, 0.0)))
        used, allowed = Price.per_second(self._rate), Price.per_second(max(self._solution.allowed, 0.0))
        return SpendsTooMuch(option.price, used, allowed)

    def _is_expected(self, group: GroupKey) -> bool:
        """Whether the arrival rate of the group's class is known, and no assumption."""
        assignment = self._solution.assignments.get(group)
        return assignment is not None and assignment.group.basis is not ArrivalsBasis.ASSUMED

    @cached_property
    def _nodes(self) -> Mapping[PoolId, RunDown]:
        """The nodes with the jobs that run and those let in so far; without those that are paid for in any case."""
        return self._in_sight.running([(kept.group, kept.runners) for kept in self._plan.jobs.running])

    @property
    def _left(self) -> float:
        """Dollars that may still be committed."""
        return self._solution.committable - sum([nodes.dollars for nodes in self._nodes.values()])

    def _costs_nothing(self, job: Job, option: Option) -> bool:
        """Whether the job adds nothing to what nodes cost: it finds GPUs that are there for long enough."""
        nodes = self._nodes.get(option.pool)
        if nodes is not None and option.takes // self._plan.placer.nodes(option) > nodes.most_free:
            return False
        return not self._cost(job, option)

    def _cost(self, job: Job, option: Option) -> float:
        """Dollars that the job adds to what nodes cost on that option."""
        nodes = self._nodes.get(option.pool)
        return 0.0 if nodes is None else nodes.adds(self._in_sight.waiting_job(job, option))
