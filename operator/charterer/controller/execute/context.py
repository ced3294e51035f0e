"""What carrying out needs: the API server, the clouds, the store, and the last snapshot that was decided on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from charterer.api import encode
from charterer.api.names import MANAGER_RECORD
from charterer.cluster import kinds
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.kinds import AnyKind, status_body
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.outcome import ActionOutcome
from charterer.controller.surveys import Surveys
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts
from charterer.workloads import RunEnvironment, Workload


class Stale(Exception):
    """The world has changed since the decision: look again."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """Everything that is acted with. ``last`` gives the snapshot of the turn that is being carried out."""

    client: Client
    store: Store
    surveys: Surveys
    accounts: Accounts
    workload: Workload
    environment: RunEnvironment
    now: Callable[[], Instant]
    last: Callable[[], Snapshot]
    ledger: asyncio.Lock
    """Held while a balance is written: several rentals often end together, and each write must see the one before."""

    # --- the objects decided on, raising Stale where the store has moved on since ---------------------------------

    def job(self, job: JobId) -> Job:
        """The job as the store has it, if its spec and its record are those that were decided on."""
        decided = self.last().jobs.get(job)
        if decided is None:
            raise Stale
        fresh = self.store.get(kinds.TRAINING_JOBS, decided.name, decided.namespace)
        if fresh is None or fresh.job.id != job or _recorded(fresh.job) != _recorded(decided):
            raise Stale
        return fresh.job

    def rental(self, rental: RentalId) -> Rental:
        """The rental as the store has it, if that is what was decided on."""
        fresh = self.store.get(kinds.GPU_RENTALS, rental)
        decided = self.last().rentals.get(rental)
        if fresh is None or decided is None or fresh != decided:
            raise Stale
        return fresh

    def budget(self, budget: BudgetId) -> Budget:
        """The budget as the store has it: what changes a balance is idempotent and names the period it is for."""
        fresh = self.store.get(kinds.GPU_BUDGETS, budget)
        decided = self.last().budgets.get(budget)
        if fresh is None or decided is None or fresh.uid != decided.uid:
            raise Stale
        return fresh

    def pool(self, pool: PoolId) -> Pool:
        """The pool as the store has it."""
        fresh = self.store.get(kinds.GPU_POOLS, pool)
        if fresh is None:
            raise Stale
        return fresh

    # --- writing, the answer going into the store -----------------------------------------------------------------

    async def record_job(self, job: Job) -> None:
        """Write the job's record."""
        key = ObjectKey(job.namespace, job.name)
        await self._record(kinds.TRAINING_JOBS, key, job.resource_version, encode.job_record(job))

    async def record_rental(self, rental: Rental) -> None:
        """Write the rental's record."""
        key = ObjectKey("", rental.id)
        await self._record(kinds.GPU_RENTALS, key, rental.resource_version, encode.rental_record(rental))

    async def record_budget(self, budget: Budget) -> None:
        """Write the budget's record: the ledger."""
        key = ObjectKey("", budget.id)
        await self._record(kinds.GPU_BUDGETS, key, budget.resource_version, encode.budget_record(budget))

    async def record_pool(self, pool: Pool) -> None:
        """Write the pool's record."""
        key = ObjectKey("", pool.id)
        await self._record(kinds.GPU_POOLS, key, pool.resource_version, encode.pool_record(pool))

    async def _record(self, kind: AnyKind, key: ObjectKey, version: str, status: Mapping[str, Any]) -> None:
        path = kind.resource.status(key.name, key.namespace or None)
        self.store.put(kind, await self.client.apply(path, status_body(kind, key, version, status), MANAGER_RECORD))

    async def create(self, kind: AnyKind, body: RawObject, *, strict: bool = False) -> ActionOutcome:
        """POST under a deterministic name. What is there already is taken in, if it is the very thing.

        Raises AlreadyExists when the name is taken by something else, such as the leavings of a job of the same name.
        """
        metadata = body["metadata"]
        namespace = metadata.get("namespace")
        try:
            answer = await self.client.post(kind.resource.all(namespace), body, strict=strict)
        except AlreadyExists:
            answer = await self.client.get(kind.resource.one(metadata["name"], namespace))
            labels = metadata.get("labels") or {}
            if not labels.items() <= (answer["metadata"].get("labels") or {}).items():
                raise
        self.store.put(kind, answer)
        return ActionOutcome.DONE

    async def patch(self, kind: AnyKind, path: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """JSON patch with its tests."""
        self.store.put(kind, await self.client.json_patch(path, operations))

    async def delete(
        self, kind: AnyKind, path: str, uid: str, *, grace: int | None = None, propagation: str = "Background"
    ) -> None:
        """Delete that very object; gone already is as good."""
        try:
            answer = await self.client.delete(path, uid=uid, grace=grace, propagation=propagation)
        except NotFound:
            return
        if "deletionTimestamp" in answer.get("metadata", {}):
            self.store.put(kind, answer)

    async def on_cloud(self, pool: Pool, call: Awaitable[None]) -> None:
        """One mutation of a cloud, then a look at the pool: also after a failure, since it may have happened."""
        try:
            await call
        finally:
            await self.surveys.refresh(pool.id)


Handler: TypeAlias = Callable[[ExecutionContext, Any], Awaitable[ActionOutcome]]
"""Carries out one type of command or step."""


def escaped(key: str) -> str:
    """A label or annotation key as a JSON pointer's token."""
    return key.replace("~", "~0").replace("/", "~1")


def _recorded(job: Job) -> Job:
    """The job's spec and record alone: what a decision rests on, whoever else wrote to the object."""
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
    )
