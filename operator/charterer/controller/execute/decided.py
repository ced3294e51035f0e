"""The objects that a command or step was decided on, as the store has them now: Stale where they have changed since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from charterer.cluster import kinds
from charterer.cluster.store import Store
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, InstanceId, JobId, PoolId, RentalId
from charterer.domain.job import Job, Run
from charterer.domain.nodes.demands import NO_DEMANDS
from charterer.domain.pool import Pool, acting_pool
from charterer.domain.rental import Rental, by_gang
from charterer.domain.snapshot import Snapshot


class Stale(Exception):
    """The objects of a decision have changed: nothing is done, and the next turn decides anew."""


class DecidedObjects:
    """Looks objects up. ``snapshot`` gives the one that the turn being carried out was decided on."""

    def __init__(self, store: Store, snapshot: Callable[[], Snapshot]) -> None:
        self._store = store
        self.snapshot = snapshot

    def job(self, job: JobId) -> Job:
        """The job as the store has it. Stale unless its spec and its record are those that were decided on."""
        decided = self.decided_job(job)
        fresh = self._store.get(kinds.TRAINING_JOBS, decided.name, decided.namespace)
        if fresh is None or fresh.job.id != job or _spec_and_record(fresh.job) != _spec_and_record(decided):
            raise Stale
        return fresh.job

    def decided_job(self, job: JobId) -> Job:
        """The job with its runs, as it was when the decision was taken."""
        decided = self.snapshot().jobs.get(job)
        if decided is None:
            raise Stale
        return decided

    def run(self, job: JobId, number: int) -> tuple[Job, Run]:
        """The job and one of its runs, as they were when the decision was taken.

        A write to the run carries its resourceVersion, which finds out whether the run has changed since.
        """
        decided = self.decided_job(job)
        run = next((run for run in decided.runs if run.number == number), None)
        if run is None:
            raise Stale
        return decided, run

    def rental(self, rental: RentalId) -> Rental:
        """The rental as the store has it. Stale unless it equals the one that was decided on."""
        fresh = self._store.get(kinds.GPU_RENTALS, rental)
        decided = self.snapshot().rentals.get(rental)
        if fresh is None or decided is None or fresh != decided:
            raise Stale
        return fresh

    def gang(self, name: str) -> Sequence[Rental]:
        """The rentals of a gang. Stale unless they all equal those that were decided on."""
        return [self.rental(rental.id) for rental in by_gang(self.snapshot().rentals.values()).get(name, ())]

    def rental_of(self, instance: InstanceId, pool: PoolId) -> Rental | None:
        """The rental in the store that names this instance of the pool, or of another one with the same machines."""
        pools = self.snapshot().pools
        acting = acting_pool(pool, pools)
        rentals = self._store.view(kinds.GPU_RENTALS).objects.values()
        named = (rental for rental in rentals if rental.instance == instance)
        return next((rental for rental in named if acting_pool(rental.pool, pools) == acting), None)

    def budget(self, budget: BudgetId) -> Budget:
        """The budget as the store has it, which may be newer than the decision.

        Changes of a balance are idempotent and name the period that they are for.
        """
        fresh = self._store.get(kinds.GPU_BUDGETS, budget)
        decided = self.snapshot().budgets.get(budget)
        if fresh is None or decided is None or fresh.uid != decided.uid:
            raise Stale
        return fresh

    def pool(self, pool: PoolId) -> Pool:
        """The pool as the store has it; one that is gone, as it was when the decision was taken."""
        decided = self.snapshot().pools.get(pool)
        if decided is not None and decided.gone:
            return decided
        fresh = self._store.get(kinds.GPU_POOLS, pool)
        if fresh is None:
            raise Stale
        return fresh


def _spec_and_record(job: Job) -> Job:
    """The job without what others than the executor write, or what is joined to it: what a decision rests on."""
    return replace(
        job,
        resource_version="",
        budget=None,
        weight=1.0,
        remaining=None,
        progress=None,
        runs=(),
        has_service=False,
        invalid="",
        checking=False,
        doubts=(),
        bottlenecks=(),
        adopted=None,
        told_ready=None,
        demands=NO_DEMANDS,  # those of its volumes are joined; its own change with its generation
    )
