"""Writes to the API server; the object that it answers with goes into the store at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from charterer.api.metadata import controller_of
from charterer.api.models.base import ApiModel, dump
from charterer.api.models.gpubudget_status import GPUBudgetRecord
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.gpurental import GPURentalRecord
from charterer.api.models.trainingjob_status import TrainingJobRecord
from charterer.api.names import MANAGER_RECORD
from charterer.cluster import kinds
from charterer.cluster.client import Client, RawObject
from charterer.cluster.errors import AlreadyExists, NotFound
from charterer.cluster.kinds import AnyKind
from charterer.cluster.patches import status_apply
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.execute.decided import Stale
from charterer.controller.outcome import ActionOutcome
from charterer.domain.budget import Budget
from charterer.domain.job import Job
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental


class ObjectWriter:
    """One mutation a method. Every write of a record holds only against the resourceVersion that was read."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store

    # --- records: the part of a status that the operator reads back -----------------------------------------------

    async def record_job(self, job: Job) -> Job:
        """Write the job's record; returns the job of the version that this made."""
        key = ObjectKey(job.namespace, job.name)
        record = TrainingJobRecord.from_domain(job)
        raw = await self._record(kinds.TRAINING_JOBS, key, job.resource_version, record)
        return replace(job, resource_version=raw["metadata"]["resourceVersion"])

    async def record_rental(self, rental: Rental) -> None:
        """Write the rental's record."""
        key = ObjectKey("", rental.id)
        await self._record(kinds.GPU_RENTALS, key, rental.resource_version, GPURentalRecord.from_domain(rental))

    async def record_budget(self, budget: Budget) -> None:
        """Write the budget's record: the ledger."""
        key = ObjectKey("", budget.id)
        await self._record(kinds.GPU_BUDGETS, key, budget.resource_version, GPUBudgetRecord.from_domain(budget.balance))

    async def record_pool(self, pool: Pool) -> None:
        """Write the pool's record."""
        key = ObjectKey("", pool.id)
        await self._record(kinds.GPU_POOLS, key, pool.resource_version, GPUPoolRecord.from_domain(pool))

    async def _record(self, kind: AnyKind, key: ObjectKey, version: str, record: ApiModel) -> RawObject:
        path = kind.resource.status(key.name, key.namespace or None)
        body = status_apply(kind, key, version, dump(record))
        raw = await self._client.apply(path, body, MANAGER_RECORD)
        self._store.put(kind, raw)
        return raw

    # --- whole objects ----------------------------------------------------------------------------------------------

    async def create(self, kind: AnyKind, body: RawObject, *, strict: bool = False) -> ActionOutcome:
        """POST under a deterministic name. An object of that name, labels and owner is taken for the one wanted.

        Raises AlreadyExists when the name is taken by another object, such as what an earlier job of the same name
        left behind.
        """
        metadata = body["metadata"]
        namespace = metadata.get("namespace")
        try:
            answer = await self._client.post(kind.resource.all(namespace), body, strict=strict)
        except AlreadyExists:
            answer = await self._client.get(kind.resource.one(metadata["name"], namespace))
            labels = metadata.get("labels") or {}
            alike = labels.items() <= (answer["metadata"].get("labels") or {}).items()
            if not alike or controller_of(answer) != controller_of(body):
                raise
        self._store.put(kind, answer)
        return ActionOutcome.DONE

    async def json_patch(self, kind: AnyKind, path: str, operations: Sequence[Mapping[str, Any]]) -> RawObject:
        """A JSON patch with its tests; returns the object as it is now."""
        answer = await self._client.json_patch(path, operations)
        self._store.put(kind, answer)
        return answer

    async def merge_patch(self, kind: AnyKind, path: str, version: str, body: RawObject) -> None:
        """A merge patch, without metadata of its own, that holds against this resourceVersion."""
        conditional = {**body, "metadata": {"resourceVersion": version}}
        self._store.put(kind, await self._client.merge_patch(path, conditional))

    async def delete(
        self, kind: AnyKind, key: ObjectKey, uid: str, *, grace: int | None = None, propagation: str = "Background"
    ) -> None:
        """Delete the object with this uid. Stale when it is gone already: the store forgets it."""
        path = kind.resource.one(key.name, key.namespace or None)
        try:
            answer = await self._client.delete(path, uid=uid, grace=grace, propagation=propagation)
        except NotFound:
            self._store.remove(kind, {"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}})
            raise Stale from None
        if "deletionTimestamp" in answer.get("metadata", {}):
            self._store.put(kind, answer)

    async def set_finalizer(self, kind: AnyKind, path: str, uid: str, finalizer: str, *, present: bool) -> None:
        """Add or remove one finalizer of the object with this uid; those of others stay."""
        metadata = (await self._client.get(path))["metadata"]
        if metadata["uid"] != uid:
            raise Stale
        finalizers: list[str] = metadata.get("finalizers") or []
        wanted = [*(item for item in finalizers if item != finalizer), *([finalizer] if present else [])]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted}}
        answer = await self._client.merge_patch(path, body)
        if "deletionTimestamp" in answer["metadata"] and not wanted:
            self._store.remove(kind, answer)
        else:
            self._store.put(kind, answer)
