"""The tools that the handlers of commands and steps use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

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
from charterer.cluster.kinds import AnyKind, status_apply
from charterer.cluster.store import ObjectKey, Store
from charterer.controller.outcome import ActionOutcome, Held
from charterer.controller.surveys import Surveys
from charterer.cost_record import CostRecord, RecordUnavailable
from charterer.domain.budget import Budget
from charterer.domain.cost_row import CostRecording, CostRow
from charterer.domain.ids import BudgetId, InstanceId, JobId, OrderToken, PoolId, RentalId
from charterer.domain.job import Job, Run
from charterer.domain.node_demands import NO_DEMANDS
from charterer.domain.order import Ask, Refusal, RefusalKind, Reply, Scope
from charterer.domain.pool import Pool, acting_pool
from charterer.domain.rental import Rental, by_gang
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.providers.accounts import Accounts
from charterer.providers.errors import ProviderError
from charterer.providers.provider import Drained
from charterer.workloads import RunEnvironment, Workload

# Each mutation of a cloud is followed by a survey of the pool, even after a failure, because the mutation may have
# taken effect.


T = TypeVar("T")


class CloudWriter:
    """The mutating calls of ``providers.provider.Provider``. All raise ProviderError."""

    def __init__(self, accounts: Accounts, surveys: Surveys) -> None:
        self._accounts = accounts
        self._surveys = surveys

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        """Ask for the nodes of these orders. If the cloud refuses the call, each order counts as refused.

        If the cloud does not answer other calls about the pool either, no order counts as refused, and the call is
        repeated. The cause then says nothing about the pool: the credentials may have expired, for example.
        """

        async def asked() -> Reply:
            reply = await self._accounts.account_of(pool).ask(pool, ask)
            self._surveys.note_reply(pool, ask, reply)
            return reply

        try:
            return await self._then_survey(pool, asked())
        except ProviderError as error:
            if error.refuses is not None and pool.id not in self._surveys.errors:
                self._surveys.note_reply(pool, ask, self._refused(pool, ask, error, error.refuses))
                await self._surveys.refresh(pool.id)
            raise

    async def withdraw(self, pool: Pool, orders: Sequence[OrderToken], keep: int) -> None:
        """Withdraw orders that did not get a node."""
        self._surveys.note_withdrawal(pool, orders)
        await self._then_survey(pool, self._accounts.account_of(pool).withdraw(pool, orders, keep))

    async def terminate(self, pool: Pool, instance: InstanceId, proof: Drained) -> None:
        """End one instance."""

        async def ended() -> None:
            await self._accounts.account_of(pool).terminate(pool, instance, proof)
            self._surveys.note_end(pool, instance)

        await self._then_survey(pool, ended())

    def _refused(self, pool: Pool, ask: Ask, error: ProviderError, kind: RefusalKind) -> Reply:
        """The reply for a refusal of the whole call, after which the pool cools down and jobs use other pools."""
        survey = self._surveys.latest.get(pool.id)
        at = Instant(0) if survey is None else survey.asked
        said = kind, Scope.POOL, pool.id, error.code, error.message, at
        return Reply(refused={order.token: Refusal(*said, order.token) for order in ask.orders})

    async def _then_survey(self, pool: Pool, call: Awaitable[T]) -> T:
        try:
            return await call
        finally:
            await self._surveys.refresh(pool.id)


# The objects that a command or step was decided on, as the store has them now. Stale is raised if they have changed.


class Stale(Exception):
    """The objects of a decision have changed. Nothing is done, and the next turn decides anew."""


class DecidedObjects:
    """Looks objects up. ``snapshot`` returns the snapshot on which the present turn was decided."""

    def __init__(self, store: Store, snapshot: Callable[[], Snapshot]) -> None:
        self._store = store
        self.snapshot = snapshot

    def job(self, job: JobId) -> Job:
        """The job as the store has it. Raises Stale unless its spec and its record equal those of the decision."""
        decided = self.decided_job(job)
        fresh = self._store.get(kinds.TRAINING_JOBS, decided.name, decided.namespace)
        if fresh is None or fresh.job.id != job or _spec_and_record(fresh.job) != _spec_and_record(decided):
            raise Stale
        return fresh.job

    def decided_job(self, job: JobId) -> Job:
        """The job with its runs, as it was at the decision. Raises Stale if the snapshot lacks it."""
        decided = self.snapshot().jobs.get(job)
        if decided is None:
            raise Stale
        return decided

    def run(self, job: JobId, number: int) -> tuple[Job, Run]:
        """The job and one of its runs, as they were at the decision. Raises Stale if the snapshot lacks either.

        A write to the run carries its resourceVersion, so the write fails if the run has changed since.
        """
        decided = self.decided_job(job)
        run = next((run for run in decided.runs if run.number == number), None)
        if run is None:
            raise Stale
        return decided, run

    def rental(self, rental: RentalId) -> Rental:
        """The rental as the store has it. Raises Stale unless it equals the rental of the decision."""
        fresh = self._store.get(kinds.GPU_RENTALS, rental)
        decided = self.snapshot().rentals.get(rental)
        if fresh is None or decided is None or fresh != decided:
            raise Stale
        return fresh

    def gang(self, name: str) -> Sequence[Rental]:
        """The rentals of a gang. Raises Stale unless they all equal those of the decision."""
        return [self.rental(rental.id) for rental in by_gang(self.snapshot().rentals.values()).get(name, ())]

    def rental_of(self, instance: InstanceId, pool: PoolId) -> Rental | None:
        """The rental in the store that names this instance of the pool, or of another pool with the same machines."""
        pools = self.snapshot().pools
        acting = acting_pool(pool, pools)
        rentals = self._store.view(kinds.GPU_RENTALS).objects.values()
        named = (rental for rental in rentals if rental.instance == instance)
        return next((rental for rental in named if acting_pool(rental.pool, pools) == acting), None)

    def budget(self, budget: BudgetId) -> Budget:
        """The budget as the store has it now. Its record may be newer than the decision, because changes of a balance
        are idempotent and name their period. Raises Stale if the budget was deleted and created again.
        """
        fresh = self._store.get(kinds.GPU_BUDGETS, budget)
        decided = self.snapshot().budgets.get(budget)
        if fresh is None or decided is None or fresh.uid != decided.uid:
            raise Stale
        return fresh

    def pool(self, pool: PoolId) -> Pool:
        """The pool as the store has it. If the pool's object was already gone at the decision, the pool of the
        snapshot.

        Raises Stale if the store lacks the pool.
        """
        decided = self.snapshot().pools.get(pool)
        if decided is not None and decided.gone:
            return decided
        fresh = self._store.get(kinds.GPU_POOLS, pool)
        if fresh is None:
            raise Stale
        return fresh


def _spec_and_record(job: Job) -> Job:
    """The job's spec and record. Joined facts and fields that other components write are left out: no decision rests on
    them.
    """
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
        demands=NO_DEMANDS,  # the job's own demands change with its generation, and those of its volumes are joined
    )


# Writes to the record of costs, and the state of the place where it is.


class CostWriter:
    """Writes files of rows. ``recording``: the present state of the record."""

    def __init__(self, recording: CostRecording, now: Callable[[], Instant]) -> None:
        self.recording = recording
        self._now = now

    async def write(self, rows: Sequence[CostRow]) -> None:
        """Put the rows on record. Raises Held while the place refuses them. Raises Stale if no record of costs is
        configured.
        """
        if not self.recording.place:
            raise Stale
        if not rows:
            return
        try:
            await CostRecord(self.recording.place).write(rows)
        except RecordUnavailable as error:
            self.recording = replace(self.recording, refused=str(error))
            raise Held(str(error)) from error
        self.recording = replace(self.recording, refused="", written=self._now())


# Writes to the API server. The object in the answer goes into the store at once.


class ObjectWriter:
    """Each method makes one mutation. The API server refuses a record if the resourceVersion has changed since it was
    read.
    """

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store

    # --- records: the part of a status that the operator reads back -----------------------------------------------

    async def record_job(self, job: Job) -> Job:
        """Write the job's record. Returns the job with the resourceVersion of this write."""
        key = ObjectKey(job.namespace, job.name)
        record = TrainingJobRecord.from_domain(job)
        raw = await self._record(kinds.TRAINING_JOBS, key, job.resource_version, record)
        return replace(job, resource_version=raw["metadata"]["resourceVersion"])

    async def record_rental(self, rental: Rental) -> None:
        """Write the rental's record."""
        key = ObjectKey("", rental.id)
        await self._record(kinds.GPU_RENTALS, key, rental.resource_version, GPURentalRecord.from_domain(rental))

    async def record_budget(self, budget: Budget) -> None:
        """Write the budget's record, which is the ledger."""
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
        """POST under a deterministic name. An existing object with that name, owner and labels counts as created.

        Raises AlreadyExists if another object has the name, such as one that an earlier job of the same name left.
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
        """Send a JSON patch with its tests. Returns the object after the patch."""
        answer = await self._client.json_patch(path, operations)
        self._store.put(kind, answer)
        return answer

    async def merge_patch(self, kind: AnyKind, path: str, version: str, body: RawObject) -> None:
        """Send a merge patch without metadata of the caller's own. The patch fails if the resourceVersion has
        changed.
        """
        conditional = {**body, "metadata": {"resourceVersion": version}}
        self._store.put(kind, await self._client.merge_patch(path, conditional))

    async def delete(
        self, kind: AnyKind, key: ObjectKey, uid: str, *, grace: int | None = None, propagation: str = "Background"
    ) -> None:
        """Delete the object with this uid. If the object does not exist any more, it is dropped from the store, and
        Stale is raised.
        """
        path = kind.resource.one(key.name, key.namespace or None)
        try:
            answer = await self._client.delete(path, uid=uid, grace=grace, propagation=propagation)
        except NotFound:
            self._store.remove(kind, {"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}})
            raise Stale from None
        if "deletionTimestamp" in answer.get("metadata", {}):
            self._store.put(kind, answer)

    async def set_finalizer(self, kind: AnyKind, path: str, uid: str, finalizer: str, *, present: bool) -> None:
        """Add or remove one finalizer of the object with this uid. Other finalizers stay."""
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


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """``client`` is for uncached reads before a mutation. Writes go through ``objects``, ``clouds`` and ``costs``.

    ``unwritten`` is called for a job whose record the API server refuses. ``matching`` is a lock. A handler holds it
    from the lookup whether a rental names a machine until a rental names the machine, because two pools of one group
    may match the same machine at the same time.
    """

    decided: DecidedObjects
    objects: ObjectWriter
    clouds: CloudWriter
    costs: CostWriter
    client: Client
    workload: Workload
    environment: RunEnvironment
    now: Callable[[], Instant]
    unwritten: Callable[[JobId, str], None]
    matching: asyncio.Lock = field(default_factory=asyncio.Lock)


Handler: TypeAlias = Callable[[ExecutionContext, Any], Awaitable[ActionOutcome]]
"""Carries out one type of command or step."""
