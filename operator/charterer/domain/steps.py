"""Steps: each one mutation of Kubernetes or of a cloud, named by ``lifecycle`` and carried out by the executor.

Every step is idempotent or guarded (a resourceVersion, a uid, a deterministic name, an absolute target), so a step
that was carried out but whose answer was lost may be repeated.
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

# Steps on budgets: their periods, and what their ledgers hold.


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """Begin a budget's period: its first one, or the next one with the last one put into history.

    ``last_start``: when the period that ends here began (None for the first), so that repeating changes nothing.
    ``last_spent`` and ``last_aim``: what that period spent and aimed at. ``carried``: how much of its surplus
    (negative: deficit) goes into the new one. ``borrowed``: what others lent it in the period that ends, by lender.
    """

    budget: BudgetId
    start: Instant
    last_spent: Money | None
    last_start: Instant | None
    carried: Money = ZERO
    last_aim: Money | None = None
    borrowed: Mapping[BudgetId, Money] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A finished job: the ``actual`` cost of its GPUs, and the one ``predicted`` when it first got some.

    ``opening``: it waited for its budget, and is no arrival. ``predicted_end``: as of then, too; None where the job did
    not complete, so that its end says nothing of how long such jobs take.
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
    """An entry: add the amounts and the uid of a rental that has ended (``ledger.balance.apply_fold``).

    ``in_period`` is what of ``whole`` fell in the period that began at ``period_start``; a balance that has moved on to
    another period refuses it.
    """

    rental: RentalId
    rental_uid: str
    budget: BudgetId
    in_period: Money
    whole: Money
    period_start: Instant


@dataclass(frozen=True, slots=True)
class CountJobs:
    """An entry: add finished jobs to the histories of their classes (``ledger.balance.apply_count``)."""

    budget: BudgetId
    jobs: tuple[CountedJob, ...]


@dataclass(frozen=True, slots=True)
class AddCosts:
    """An entry: add what was spent from ``since`` to ``added.through`` (``ledger.balance.apply_costs``).

    ``day``: when the day of that began in the budget's time zone.
    """

    budget: BudgetId
    since: Instant | None
    added: Costs
    day: Instant


@dataclass(frozen=True, slots=True)
class PruneFolded:
    """An entry: remove the uids of rentals that no longer exist from the budget's list of folded ones."""

    budget: BudgetId
    rental_uids: tuple[str, ...]


BookEntry = PruneFolded | Fold | CountJobs | AddCosts


@dataclass(frozen=True, slots=True)
class KeepBooks:
    """One conditional write of the budget with all entries that are due, in this order: each counts once."""

    budget: BudgetId
    entries: tuple[BookEntry, ...]


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """A part of a rental's cost, made from the GPURental of that ``version``, and what is on record ``after`` it.

    Without ``rows`` it only marks that a part is about to be written.
    """

    rental: RentalId
    version: str
    rows: tuple[CostRow, ...]
    after: RecordedCost


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """Write the rows of many rentals into the record of costs, and then onto each rental that they are there.

    A rental that has changed meanwhile is left out: its part is made anew, and the later version counts.
    """

    budget: BudgetId
    parts: tuple[RecordedPart, ...]


CostRecordStep = RecordCosts
BudgetStep = OpenPeriod | KeepBooks


# Steps on the GPUPools of a GPUPoolSet: each is a mutation of one GPUPool that the set controls.


@dataclass(frozen=True, slots=True)
class CreatePool:
    """Create a GPUPool that the set declares and that is not there."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class EditPool:
    """Give a GPUPool of the set the spec and the labels that the set declares."""

    pool_set: PoolSetId
    pool: PoolId


@dataclass(frozen=True, slots=True)
class DeletePool:
    """Delete a GPUPool of the set that it declares no more. Its finalizer keeps it until its rentals have ended."""

    pool_set: PoolSetId
    pool: PoolId
    uid: str


PoolSetStep = CreatePool | EditPool | DeletePool


# Steps that only write a rental's record: the row says what the record is to be, and one handler writes it.


@dataclass(frozen=True, slots=True)
class RentalRecord:
    """Write the record of ``after``, which was made from the rental of its resourceVersion."""

    after: Rental

    @property
    def rental(self) -> RentalId:
        """Whose record it is."""
        return self.after.id


# Steps on pools: asking the cloud, and matching what it has with what we asked for.


@dataclass(frozen=True, slots=True)
class AskCloud:
    """Ask the cloud for all orders of the pool that have no instance yet; what it has on record is not repeated."""

    pool: PoolId
    ask: Ask


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Make the cloud give up these orders, none of which has an instance.

    A cloud that only counts gives up what it wants above ``keep``.
    """

    pool: PoolId
    orders: tuple[OrderToken, ...]
    keep: int


@dataclass(frozen=True, slots=True)
class Cool:
    """Record in the pool's status what the cloud refused, and until when no node is asked for."""

    pool: PoolId
    cool_down: CoolDown


@dataclass(frozen=True, slots=True)
class Reopen:
    """Take out of the pool's status the cool-downs that began at these times: nodes were launched since."""

    pool: PoolId
    since: frozenset[Instant]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Write into the rental's status that this instance is its own (phase Starting; a Draining one stays Draining)."""

    rental: RentalId
    instance: Instance


@dataclass(frozen=True, slots=True)
class RecordOrphan:
    """Create a GPURental for an instance of ours that has none, so that it is paid for, and used or ended."""

    rental: RentalId
    pool: PoolId
    budget: BudgetId
    instance: Instance
    worst: Price


class CloseUnfulfilled(RentalRecord):
    """The rental ends: no instance came for it (phase Ended, cost zero, no times)."""


@dataclass(frozen=True, slots=True)
class RecordOffer:
    """Record in the pool's status what the cloud last said of one node and its price, for as long as it is silent.

    ``replaces``: the quote that was on record. ``starts``: of nodes that have become ready since the last record.
    """

    pool: PoolId
    offering: Offering | None
    quote: Quote | None
    replaces: Quote | None = None
    starts: tuple[NodeStart, ...] = ()


@dataclass(frozen=True, slots=True)
class CountLifetimes:
    """Add the rentals that have ended to what the pool's status says of its nodes' lifetimes, in that order.

    ``there``: uids of the pool's rentals.
    """

    pool: PoolId
    nodes: tuple[EndedNode, ...]
    there: tuple[str, ...]


PoolStep = AskCloud | Withdraw | Cool | Reopen | Adopt | RecordOrphan | CloseUnfulfilled | RecordOffer | CountLifetimes


# Steps on rentals: from the node's readiness to the ledger.


class Refresh(RentalRecord):
    """Record what changed in the cloud's data of the rental's instance (``Rental.as_listed``)."""


class MarkReady(RentalRecord):
    """The rental's node is Ready."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Mark the node unschedulable, and for which rental, by its uid (JSON patch with a test on the node's uid)."""

    rental: RentalId
    node: NodeName
    uid: str
    cordoned_for: str


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Let pods be scheduled again on a node that was cordoned for a machine before this one (JSON patch, as above)."""

    rental: RentalId
    node: NodeName
    uid: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """End this one instance and lower the target with it, after an uncached look that no live pod is on its node.

    ``node`` is None when no Node ever appeared, and the instants are then not needed. Pods that Charterer did not start
    are asked to leave from ``evict_from`` on; from ``patience_until`` on the instance is ended whatever lives there.
    """

    rental: RentalId
    pool: PoolId
    instance: Instance
    node: NodeName | None
    evict_from: Instant | None = None
    patience_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class FailPod:
    """The pod's machine is gone: write phase Failed with DisruptionTarget into its status."""

    namespace: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod whose machine is gone, without grace."""

    namespace: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete the Node object of a machine that is gone."""

    rental: RentalId
    node: NodeName
    uid: str


class MarkMissing(RentalRecord):
    """Record since when the cloud's list lacks the rental's instance, or that the list shows it again."""


@dataclass(frozen=True, slots=True)
class MarkDraining:
    """Record that a rental is to be ended because of what a person did: of its object, or of what alone used it."""

    rental: RentalId
    because: str


@dataclass(frozen=True, slots=True)
class MarkEnded(RentalRecord):
    """Record the instance's end and final cost. ``estimated``: the cloud no longer lists when it ended."""

    estimated: bool


class RecordUses(RentalRecord):
    """Record who held the rental's GPUs: all uses that are kept, and since when these are all."""


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


# Steps on runs, each an Indexed Job or an adopted object, and on the adopted objects themselves.


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the job's headless Service."""

    job: JobId


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Create the Job of the allocation's run, suspended."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class LabelNode:
    """Set (or with value None remove) one label of a node; ``job`` may be gone when its label is removed."""

    job: JobId
    node: NodeName
    uid: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Unsuspend:
    """Let the run's pods start, by a patch that carries the Job's resourceVersion.

    Only after an uncached list by the job's uid shows that no pod of another run is live.
    """

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopRun:
    """Suspend the run, or delete the pods of one in deletion: they get SIGTERM and their checkpoint grace."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopOrphan:
    """Stop a run whose TrainingJob is gone in the same way, once an uncached look says so too."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class ResizeRun:
    """InPlace: parallelism and completions in one patch, and how many more of the run's pods may fail (``retries``)."""

    job: JobId
    run: int
    completions: int
    retries: int = 0


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """InPlace: record which pods should train together, and what their leader said of it.

    ``counts``: the width of the allocation counts from now on, instead of that from which the run was resized.
    """

    job: JobId
    group: TrainingGroup
    counts: bool = False


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Write the allocation annotation onto a pod (JSON patch with a test on its uid)."""

    job: JobId
    pod: Pod
    allocation: str


class RunWarning(StrEnum):
    """What was wrong with a run that Charterer stopped, in a word for its owner."""

    KILLED_AFTER_GRACE = "KilledAfterGrace"
    STOPPED_WITH_ZERO = "StoppedWithZero"


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Record a run's end in the TrainingJob's status, once an uncached list shows that none of its pods is live.

    The same write clears the allocation when it is this run's and takes the run out of ``replaced``, counts a failure
    (FAILED) or a restart (INTERRUPTED), and sets ``finish``. ``warning``: what its owner should correct in a run that
    was stopped.
    """

    job: JobId
    record: RunRecord
    finish: Finish | None
    warning: RunWarning | None = None


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete the Job object of a run that is recorded or that status does not name.

    In the foreground and with a test on its uid: the object stays in sight until its pods are gone.
    """

    job: JobId
    run: int
    uid: str


@dataclass(frozen=True, slots=True)
class AdoptTarget:
    """Make the TrainingJob of a labelled object; one that runs without a pod that has begun is stopped first."""

    target: Target


@dataclass(frozen=True, slots=True)
class EditJob:
    """Give the TrainingJob of an adopted object what the object's author asks for by now."""

    job: JobId


@dataclass(frozen=True, slots=True)
class LetGo:
    """Give an object that is held back as its author wrote it, although no TrainingJob stands for it.

    Of one in deletion the ``pods`` are ended that Charterer placed.
    """

    target: Target
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishJob:
    """Record that the job has ended, as its adopted object says of itself, while it has no run."""

    job: JobId
    finish: Finish


@dataclass(frozen=True, slots=True)
class EndTarget:
    """Let the adopted object of a job that was given up have an end, or give it back, as its author asks.

    ``closes``: see ``GiveBack``.
    """

    job: JobId
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Stop the job's adopted object and give it back as its author wrote it, and then delete the TrainingJob.

    ``record``: of a run that is recorded first, once its pods are gone. ``closes``: gives back the machines that only
    it used, before it could begin on them.
    """

    job: JobId
    because: str
    record: RecordRun | None = None
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the finished TrainingJob whose ttlSecondsAfterFinished has passed."""

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
    """Nothing to do now. ``reason``: what is awaited, in words for the log. ``until``: when to look again.

    ``error``: why no step could be found, which is a fault of the program and must not stop the steps of others.
    """

    reason: str
    until: Instant | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add (or with ``present`` False remove) ``charterer.dev/in-use`` on a GPUBudget or GPUPool."""

    kind: str
    name: str
    uid: str
    present: bool


GuardStep = SetFinalizer

Step = PoolStep | PoolSetStep | RentalStep | BudgetStep | CostRecordStep | RunStep | GuardStep
