"""Steps: each is one mutation of Kubernetes or of a cloud, chosen by ``lifecycle`` and carried out by the executor.

Every step is idempotent or guarded (by a resourceVersion, a uid, a deterministic name or an absolute target). So a step
may be repeated if its answer was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from charterer.domain.budget import Costs
from charterer.domain.cost_row import CostRow, RecordedCost
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, OrderToken, PoolId, PoolSetId, RentalId
from charterer.domain.job import Finish, RunRecord, TrainingGroup
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.order import Ask, CoolDown
from charterer.domain.pod import Pod
from charterer.domain.pool import EndedNode, Instance, NodeStart, Offering, Quote
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Orphan
from charterer.domain.target import Target
from charterer.domain.time import Instant

# Steps on budgets: their periods and their ledgers.


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """Begin a budget's first period, or begin the next one and move the last one into the history.

    ``last_start``: the beginning of the period that ends (None for the first), by which a repeated step is
    recognised.
    ``last_spent``, ``last_aim``: the spending and the target of the period that ends. ``carried``: the part of its
    surplus (negative: deficit) that is carried into the new period. ``borrowed``: dollars that others lent the budget,
    by lender. ``last_gpu_time``: GPU-microseconds by GPU type that runs held in the period that ends.
    """

    budget: BudgetId
    start: Instant
    last_spent: Money | None
    last_start: Instant | None
    carried: Money = ZERO
    last_aim: Money | None = None
    borrowed: Mapping[BudgetId, Money] = field(default_factory=dict)
    last_gpu_time: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A finished job: the ``actual`` cost of its GPUs, and the cost ``predicted`` when it first got GPUs.

    ``opening``: the job was created before or soon after its budget, so it is not counted as an arrival.
    ``predicted_end``: its end as predicted at that time; None if the job did not complete, because its end then says
    nothing about the length of such jobs.
    """

    uid: str
    class_id: ClassId
    predicted: Money
    actual: Money
    created: Instant
    finished: Instant
    opening: bool = False
    predicted_end: Instant | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """A ledger entry that adds the amounts and the uid of an ended rental (``ledger.balance.apply_fold``).

    ``in_period``: the part of ``whole`` in the period that began at ``period_start``. A balance of another period
    rejects the entry. ``gpu_time``: GPU-microseconds, by GPU type, for which runs held its GPUs in that period.
    """

    rental: RentalId
    rental_uid: str
    budget: BudgetId
    in_period: Money
    whole: Money
    period_start: Instant
    gpu_time: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountJobs:
    """A ledger entry that adds finished jobs to the histories of their classes (``ledger.balance.apply_count``)."""

    budget: BudgetId
    jobs: tuple[CountedJob, ...]


@dataclass(frozen=True, slots=True)
class AddCosts:
    """A ledger entry that adds the spending from ``since`` to ``added.through`` (``ledger.balance.apply_costs``).

    ``day``: the beginning, in the budget's time zone, of the day of that spending.
    """

    budget: BudgetId
    since: Instant | None
    added: Costs
    day: Instant


@dataclass(frozen=True, slots=True)
class PruneFolded:
    """A ledger entry that removes the uids of deleted rentals from the budget's list of folded rentals."""

    budget: BudgetId
    rental_uids: tuple[str, ...]


BookEntry = PruneFolded | Fold | CountJobs | AddCosts


@dataclass(frozen=True, slots=True)
class KeepBooks:
    """One conditional write of the budget with all due entries, in this order. Each entry counts once."""

    budget: BudgetId
    entries: tuple[BookEntry, ...]


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """A part of a rental's cost, made from the GPURental of that ``version``. ``after``: the record with the part.

    A part without ``rows`` only marks that the next part is about to be written.
    """

    rental: RentalId
    version: str
    rows: tuple[CostRow, ...]
    after: RecordedCost


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """Write the rows of many rentals into the record of costs, and then mark each rental as recorded.

    A rental that has changed meanwhile is left out: its part is made again, and the later version counts.
    """

    budget: BudgetId
    parts: tuple[RecordedPart, ...]


CostRecordStep = RecordCosts
BudgetStep = OpenPeriod | KeepBooks


# Steps on the GPUPools of a GPUPoolSet: each mutates one GPUPool that the set controls.


@dataclass(frozen=True, slots=True)
class CreatePool:
    """Create a GPUPool that the set declares and that does not exist."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class EditPool:
    """Give a GPUPool of the set the spec and labels that the set declares."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class DeletePool:
    """Delete a GPUPool of the set that is no longer declared. A finalizer keeps the GPUPool until its rentals have
    ended."""

    pool_set: PoolSetId
    pool: PoolId
    uid: str


PoolSetStep = CreatePool | EditPool | DeletePool


# Steps that only write a rental's record. Each step contains the new record, and one handler writes all such records.


@dataclass(frozen=True, slots=True)
class RentalRecord:
    """Write the record of ``after``, which was made from the rental at its resourceVersion."""

    after: Rental

    @property
    def rental(self) -> RentalId:
        return self.after.id


# Steps on pools: requests to the cloud, and matching the cloud's instances with our rentals.


@dataclass(frozen=True, slots=True)
class AskCloud:
    """Request nodes for all orders of the pool that have no instance. Orders that the cloud has on record already are
    not repeated."""

    pool: PoolId
    ask: Ask


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Cancel these orders in the cloud. None of them has an instance.

    A cloud that only counts nodes lowers its target to ``keep``.
    """

    pool: PoolId
    orders: tuple[OrderToken, ...]
    keep: int


@dataclass(frozen=True, slots=True)
class Cool:
    """Record a refusal of the cloud in the pool's status, and until when no node is requested."""

    pool: PoolId
    cool_down: CoolDown


@dataclass(frozen=True, slots=True)
class Reopen:
    """Remove the cool-downs that began at these times from the pool's status, because nodes were launched since."""

    pool: PoolId
    since: frozenset[Instant]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record the instance as the rental's own. The phase becomes Starting, but a Draining rental stays Draining."""

    rental: RentalId
    instance: Instance


@dataclass(frozen=True, slots=True)
class RecordOrphan:
    """Create a GPURental for an instance in a pool's group that has none, so that the instance is paid for, and then
    used or ended."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    instance: Instance
    worst: Price


class CloseUnfulfilled(RentalRecord):
    """End a rental for which no instance came: phase Ended, cost zero, no times."""


@dataclass(frozen=True, slots=True)
class RecordOffer:
    """Record the cloud's last offering and quote in the pool's status, for use while the cloud does not answer.

    ``replaces``: the quote that is on record until this step. ``starts``: the starts of nodes that became ready since
    the last record.
    """

    pool: PoolId
    offering: Offering | None
    quote: Quote | None
    replaces: Quote | None = None
    starts: tuple[NodeStart, ...] = ()


@dataclass(frozen=True, slots=True)
class CountLifetimes:
    """Add the ended rentals, in that order, to the lifetimes in the pool's status.

    ``there``: uids of the pool's existing rentals.
    """

    pool: PoolId
    nodes: tuple[EndedNode, ...]
    there: tuple[str, ...]


PoolStep = AskCloud | Withdraw | Cool | Reopen | Adopt | RecordOrphan | CloseUnfulfilled | RecordOffer | CountLifetimes


# Steps on rentals, from the node's readiness to the ledger.


class Refresh(RentalRecord):
    """Record changes of the cloud's data about the rental's instance (``Rental.as_listed``)."""


class MarkReady(RentalRecord):
    """Record that the rental's node is Ready."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Mark the node unschedulable, with the uid of the causing rental (JSON patch that tests the node's uid)."""

    rental: RentalId
    node: NodeName
    uid: str
    cordoned_for: str


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Make a node schedulable again that was cordoned for an earlier machine (JSON patch that tests the node's uid)."""

    rental: RentalId
    node: NodeName
    uid: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """End this instance and lower the group's target with it, after an uncached check that its node has no live pod.

    ``node``: None if no Node ever appeared; the instants are then not needed. ``evict_from``: the instant from which
    pods not started by Charterer are evicted. ``patience_until``: the instant from which the instance is ended whatever
    runs on the node.
    """

    rental: RentalId
    pool: PoolId
    instance: Instance
    node: NodeName | None
    evict_from: Instant | None = None
    patience_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class FailPod:
    """Write phase Failed with DisruptionTarget into the status of a pod whose machine is gone."""

    namespace: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod whose machine is gone, without a grace period."""

    namespace: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete the Node object of a machine that is gone."""

    rental: RentalId
    node: NodeName
    uid: str


class MarkMissing(RentalRecord):
    """Record since when the cloud's list lacks the rental's instance, or that the list shows the instance again."""


@dataclass(frozen=True, slots=True)
class MarkDraining:
    """Record that a rental is to be ended, because of a person's action on the rental's object or on the only object
    that used the rental."""

    rental: RentalId
    because: str


@dataclass(frozen=True, slots=True)
class MarkEnded(RentalRecord):
    """Record the instance's end and final cost. ``estimated``: the cloud no longer lists the time of the end."""

    estimated: bool


class RecordUses(RentalRecord):
    """Record the uses of the rental's GPUs: all uses that are kept, and the instant since which no use is missing."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the settled rental's finalizer and delete it."""

    rental: RentalId


RentalStep = (
    Refresh
    | MarkReady
    | Cordon
    | Uncordon
    | Terminate
    | FailPod
    | DeletePod
    | DeleteNode
    | MarkMissing
    | MarkDraining
    | MarkEnded
    | RecordUses
    | Forget
)


# Steps on runs (each an Indexed Job or an adopted object) and on adopted objects themselves.


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the job's headless Service."""

    job: JobId


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Create the suspended Job of the allocation's run."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class LabelNode:
    """Set one label of a node, or remove it if ``value`` is None. The job may no longer exist when its label is
    removed."""

    job: JobId
    node: NodeName
    uid: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Unsuspend:
    """Let the run's pods start, by a patch that contains the Job's resourceVersion.

    The patch is sent only after an uncached list by the job's uid shows that no pod of another run is live.
    """

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopRun:
    """Suspend the run; if the run is being deleted, delete its pods. The pods get SIGTERM and their grace period."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopOrphan:
    """Stop a run whose TrainingJob does not exist, as ``StopRun`` does. First, an uncached read confirms that the
    TrainingJob does not exist."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class ResizeRun:
    """Resize a run in place: set the Job's parallelism and completions in one patch. ``retries``: the number of
    further pods of the run that may fail."""

    job: JobId
    run: int
    completions: int
    retries: int = 0


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """Record, for a run that is resized in place, which pods should train together, and their leader's last report.

    ``counts``: from now on the width of the allocation counts, and not the width from which the run was resized.
    """

    job: JobId
    group: TrainingGroup
    counts: bool = False


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Write the allocation annotation onto a pod (JSON patch that tests the pod's uid)."""

    job: JobId
    pod: Pod
    allocation: str


class RunWarning(StrEnum):
    """A code for the job's owner: what was wrong with a run that Charterer stopped."""

    KILLED_AFTER_GRACE = "KilledAfterGrace"
    STOPPED_WITH_ZERO = "StoppedWithZero"


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Record a run's end in the TrainingJob's status, after an uncached list shows that none of its pods is live.

    The same write clears the allocation if it is this run's, removes the run from ``replaced``, counts a failure
    (FAILED) or a restart (INTERRUPTED, STALLED), and sets ``finish``. ``warning``: what the owner should correct in a
    stopped run.
    """

    job: JobId
    record: RunRecord
    finish: Finish | None
    warning: RunWarning | None = None


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete the Job object of a run that is recorded or that the status does not name.

    The deletion tests the uid, and it is a foreground deletion, so that the object exists until its pods are gone.
    """

    job: JobId
    run: int
    uid: str


@dataclass(frozen=True, slots=True)
class AdoptTarget:
    """Create the TrainingJob of a labelled object. If the object is running but no pod has begun, the object is stopped
    first."""

    target: Target


@dataclass(frozen=True, slots=True)
class EditJob:
    """Update the TrainingJob of an adopted object to the present request of the object's author."""

    job: JobId


@dataclass(frozen=True, slots=True)
class LetGo:
    """Restore a held object to its author's form although it has no TrainingJob.

    If the object is being deleted, its ``pods`` that Charterer placed are ended.
    """

    target: Target
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishJob:
    """Record that a job without a run has ended, as its adopted object reports."""

    job: JobId
    finish: Finish


@dataclass(frozen=True, slots=True)
class EndTarget:
    """Let the adopted object of a given-up job end as failed, or give the object back, as its author chose.

    ``closes``: see ``GiveBack``.
    """

    job: JobId
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Stop the job's adopted object, restore it to its author's form, and then delete the TrainingJob.

    ``record``: a run that is recorded first, once its pods are gone. ``closes``: the step also gives back the
    machines that only this object used, so that the restored object cannot begin on them.
    """

    job: JobId
    because: str
    record: RecordRun | None = None
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a finished TrainingJob whose ttlSecondsAfterFinished has passed."""

    job: JobId


RunStep = (
    CreateService
    | CreateRun
    | LabelNode
    | Unsuspend
    | StopRun
    | StopOrphan
    | ResizeRun
    | RecordGroup
    | AnnotatePod
    | RecordRun
    | DeleteRun
    | DeleteJob
    | AdoptTarget
    | EditJob
    | LetGo
    | FinishJob
    | EndTarget
    | GiveBack
)


__all__ = [
    "AddCosts",
    "Adopt",
    "AdoptTarget",
    "AnnotatePod",
    "AskCloud",
    "BookEntry",
    "BudgetStep",
    "CloseUnfulfilled",
    "Cool",
    "Cordon",
    "CostRecordStep",
    "CountJobs",
    "CountLifetimes",
    "CountedJob",
    "CreatePool",
    "CreateRun",
    "CreateService",
    "DeleteJob",
    "DeleteNode",
    "DeletePod",
    "DeletePool",
    "DeleteRun",
    "EditJob",
    "EditPool",
    "EndTarget",
    "FailPod",
    "FinishJob",
    "Fold",
    "Forget",
    "GiveBack",
    "GuardStep",
    "KeepBooks",
    "LabelNode",
    "LetGo",
    "MarkDraining",
    "MarkEnded",
    "MarkMissing",
    "MarkReady",
    "OpenPeriod",
    "PoolSetStep",
    "PoolStep",
    "PruneFolded",
    "RecordCosts",
    "RecordGroup",
    "RecordOffer",
    "RecordOrphan",
    "RecordRun",
    "RecordUses",
    "RecordedPart",
    "Refresh",
    "RentalRecord",
    "RentalStep",
    "Reopen",
    "ResizeRun",
    "RunStep",
    "RunWarning",
    "SetFinalizer",
    "Step",
    "StopOrphan",
    "StopRun",
    "Terminate",
    "Uncordon",
    "Unsuspend",
    "Wait",
    "Withdraw",
]


@dataclass(frozen=True, slots=True)
class Wait:
    """No step is due now. ``reason``: what is awaited, for the log. ``until``: when to check again.

    ``error``: the program fault that prevented finding a step. The steps of other objects go on in spite of such a
    fault.
    """

    reason: str
    until: Instant | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add the finalizer ``charterer.dev/in-use`` to a GPUBudget or GPUPool, or remove it if ``present`` is False."""

    kind: str
    name: str
    uid: str
    present: bool


GuardStep = SetFinalizer

Step = PoolStep | PoolSetStep | RentalStep | BudgetStep | CostRecordStep | RunStep | GuardStep
