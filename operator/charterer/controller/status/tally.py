"""Counts over all jobs and rentals for the views of budgets and pools, made once for all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Job, Placement
from charterer.domain.money import Price
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.rental import Rental, RentalPhase
from charterer.incremental import Memo
from charterer.ledger.balance import current_rate

_WAITS_FOR_MONEY = frozenset({ReasonCode.WAITING_FOR_BUDGET, ReasonCode.HARD_LIMIT, ReasonCode.HOURLY_LIMIT})


@dataclass(frozen=True, slots=True)
class _Rentals:
    """``of_budget``, ``of_pool``: the rentals. ``hourly``: what those of each budget cost now. ``pools``: of those that
    have not ended."""

    of_budget: Mapping[BudgetId, Sequence[Rental]]
    of_pool: Mapping[PoolId, Sequence[Rental]]
    hourly: Mapping[BudgetId, Price]
    pools: Mapping[RentalId, PoolId]

    @classmethod
    def of(cls, rentals: Mapping[RentalId, Rental]) -> _Rentals:
        of_budget: dict[BudgetId, list[Rental]] = defaultdict(list)
        of_pool: dict[PoolId, list[Rental]] = defaultdict(list)
        for rental in rentals.values():
            of_budget[rental.budget].append(rental)
            of_pool[rental.pool].append(rental)
        hourly = {budget: current_rate(budget, of) for budget, of in of_budget.items()}
        pools = {rental.id: rental.pool for rental in rentals.values() if rental.phase is not RentalPhase.ENDED}
        return cls(of_budget, of_pool, hourly, pools)


@dataclass(frozen=True, slots=True)
class Tally:
    """``hourly``: what each budget's nodes cost now. ``waiting``: jobs that wait for their budget's money.
    ``gpus_in_use``: of allocations on rentals not ended. ``adopted``: unfinished jobs that stand for other objects.
    """

    rentals_of_budget: Mapping[BudgetId, Sequence[Rental]]
    rentals_of_pool: Mapping[PoolId, Sequence[Rental]]
    hourly: Mapping[BudgetId, Price]
    waiting: Mapping[BudgetId | None, int]
    gpus_in_use: Mapping[PoolId, int]
    adopted: Mapping[BudgetId | None, int]

    @classmethod
    def of(
        cls,
        jobs: Mapping[JobId, Job],
        rentals: Mapping[RentalId, Rental],
        verdicts: Mapping[JobId, Verdict],
        memo: Memo | None = None,
    ) -> Tally:
        """Count what has changed: linear in jobs, placements and rentals where all is new."""
        memo = Memo() if memo is None else memo
        known = memo(_Rentals.of, rentals)
        waits = memo.stable(memo.each(_waits_for_money, verdicts), "waits")
        placed = memo.stable(memo.each(_placed, jobs), "placed")
        return cls(
            known.of_budget,
            known.of_pool,
            known.hourly,
            memo(_waiting, waits, jobs),
            memo(_gpus, placed, known.pools),
            memo(_adopted, jobs),
        )


def _waits_for_money(verdict: Verdict) -> bool:
    return verdict.reason.code in _WAITS_FOR_MONEY


def _waiting(waits: Mapping[JobId, bool], jobs: Mapping[JobId, Job]) -> Mapping[BudgetId | None, int]:
    return Counter([jobs[job].budget for job, waiting in waits.items() if waiting])


def _placed(job: Job) -> tuple[Placement, ...]:
    return () if job.allocation is None else job.allocation.placements


def _gpus(placed: Mapping[JobId, tuple[Placement, ...]], pools: Mapping[RentalId, PoolId]) -> Mapping[PoolId, int]:
    gpus: Counter[PoolId] = Counter()
    for placements in placed.values():
        for placement in placements:
            if placement.rental in pools:
                gpus[pools[placement.rental]] += placement.gpus
    return gpus


def _adopted(jobs: Mapping[JobId, Job]) -> Mapping[BudgetId | None, int]:
    return Counter([job.budget for job in jobs.values() if job.target is not None and job.finish is None])
