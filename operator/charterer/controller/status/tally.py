"""Counts over all jobs and rentals for the views of budgets and pools, made once for all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.rental import Rental, RentalPhase

_WAITS_FOR_MONEY = frozenset({ReasonCode.WAITING_FOR_BUDGET, ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT})


@dataclass(frozen=True, slots=True)
class Tally:
    """``waiting``: jobs that wait for their budget's money. ``gpus_in_use``: of allocations on rentals not ended."""

    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    waiting: Mapping[BudgetId, int]
    gpus_in_use: Mapping[PoolId, int]

    @classmethod
    def of(
        cls, jobs: Mapping[JobId, Job], rentals: Mapping[RentalId, Rental], verdicts: Mapping[JobId, Verdict]
    ) -> Tally:
        """Count: linear in jobs, placements and rentals."""
        of_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
        of_pool: dict[PoolId, list[Rental]] = defaultdict(list)
        for rental in rentals.values():
            of_budget[rental.budget].append(rental)
            of_pool[rental.pool].append(rental)
        pools = {rental.id: rental.pool for rental in rentals.values() if rental.phase is not RentalPhase.ENDED}
        waiting = Counter(
            jobs[job].budget for job, verdict in verdicts.items() if verdict.reason.code in _WAITS_FOR_MONEY
        )
        gpus: Counter[PoolId] = Counter()
        for job in jobs.values():
            for placement in () if job.allocation is None else job.allocation.placements:
                if placement.rental in pools:
                    gpus[pools[placement.rental]] += placement.gpus
        return cls(of_budget, of_pool, {budget: count for budget, count in waiting.items() if budget is not None}, gpus)
