"""What the views of budgets and pools count over all jobs and rentals, counted once for all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot

_WAITS_FOR_MONEY = frozenset({ReasonCode.WAITING_FOR_BUDGET, ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT})


@dataclass(frozen=True, slots=True)
class Tally:
    """``waiting``: jobs that wait for their budget's money. ``gpus_in_use``: of allocations on rentals not ended."""

    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    waiting: Mapping[BudgetId, int]
    gpus_in_use: Mapping[PoolId, int]

    @classmethod
    def of(cls, snapshot: Snapshot, plan: Plan) -> Tally:
        """Count: linear in jobs, placements and rentals."""
        of_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
        of_pool: dict[PoolId, list[Rental]] = defaultdict(list)
        for rental in snapshot.rentals.values():
            of_budget[rental.budget].append(rental)
            of_pool[rental.pool].append(rental)
        waiting: Counter[BudgetId] = Counter()
        gpus: Counter[PoolId] = Counter()
        for job in snapshot.jobs.values():
            verdict = plan.jobs.get(job.id)
            if verdict is not None and job.budget is not None and verdict.reason.code in _WAITS_FOR_MONEY:
                waiting[job.budget] += 1
            for placement in () if job.allocation is None else job.allocation.placements:
                placed_on = snapshot.rentals.get(placement.rental)
                if placed_on is not None and placed_on.phase is not RentalPhase.ENDED:
                    gpus[placed_on.pool] += placement.gpus
        return cls(of_budget, of_pool, waiting, gpus)
