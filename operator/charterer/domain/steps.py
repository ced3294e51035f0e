"""Steps: each one mutation of Kubernetes or of a cloud, named by ``lifecycle`` and carried out by the executor.

Every step is idempotent or guarded (a resourceVersion, a uid, a deterministic name, an absolute target), so a step
that was carried out but whose answer was lost may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.budget import Costs
from charterer.domain.ids import BudgetId, ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Finish, Orphan, Pod, RunRecord
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pool import Instance, Offering, Quote
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now: ``reason`` says what is awaited, ``until`` when to look again if no event comes before."""

    reason: str
    until: Instant | None = None


# --- pools: asking the cloud, and matching what it has with what we asked for ---------------------------------------


@dataclass(frozen=True, slots=True)
class RaiseTarget:
    """Ask the cloud for at least this many nodes (absolute). ``token`` makes a repeated call one call."""

    pool: PoolId
    at_least: int
    token: str


@dataclass(frozen=True, slots=True)
class CancelUnfulfilled:
    """Lower the target to ``keep``, which the cloud refuses if it would end an existing instance."""

    pool: PoolId
    keep: int


@dataclass(frozen=True, slots=True)
class Cool:
    """Record in the pool's status that no node is asked for before ``until``."""

    pool: PoolId
    until: Instant
    because: str
    message: str


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


@dataclass(frozen=True, slots=True)
class CloseUnfulfilled:
    """The rental ends: no instance came for it (phase Ended, cost zero, no times)."""

    rental: RentalId
    because: str


@dataclass(frozen=True, slots=True)
class RecordOffer:
    """Record in the pool's status what the cloud last said of one node and its price, for as long as it is silent."""

    pool: PoolId
    offering: Offering | None
    quote: Quote | None


PoolStep = RaiseTarget | CancelUnfulfilled | Cool | Adopt | RecordOrphan | CloseUnfulfilled | RecordOffer


# --- rentals: from the node's readiness to the ledger ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refresh:
    """Record what changed in the cloud's data of the rental's instance.

    That is its launch, price segments, billing minimum and provider id; the node's name if none is recorded yet.
    """

    rental: RentalId
    instance: Instance


@dataclass(frozen=True, slots=True)
class MarkReady:
    """The rental's node is Ready."""

    rental: RentalId
    node: NodeName
    at: Instant


@dataclass(frozen=True, slots=True)
class Cordon:
    """Mark the node unschedulable (JSON patch with a test on its uid)."""

    rental: RentalId
    node: NodeName
    uid: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """End this one instance and lower the target with it, after an uncached look that no live pod is on its node.

    ``node`` is None when no Node ever appeared.
    """

    rental: RentalId
    pool: PoolId
    instance: Instance
    node: NodeName | None


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


@dataclass(frozen=True, slots=True)
class MarkEnded:
    """Record the instance's end and final cost. ``estimated``: the cloud no longer lists when it ended."""

    rental: RentalId
    ended: Instant
    cost: Money
    estimated: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """One conditional write of the budget: add the amounts and the rental's uid (``ledger.balance.apply_fold``).

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
class Forget:
    """Remove the settled rental's finalizer and delete it."""

    rental: RentalId


RentalStep = Refresh | MarkReady | Cordon | Terminate | FailPod | DeletePod | DeleteNode | MarkEnded | Fold | Forget


# --- budgets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """Begin a budget's period: its first one, or the next one with the last one put into history.

    ``last_start``: when the period that ends here began (None for the first), so that repeating changes nothing.
    ``last_spent`` and ``last_aim``: what that period spent and aimed at. ``carried``: how much of its surplus
    (negative: deficit) goes into the new one.
    """

    budget: BudgetId
    start: Instant
    last_spent: Money | None
    last_start: Instant | None
    carried: Money = ZERO
    last_aim: Money | None = None


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A finished job: the ``actual`` cost of its GPUs, and the one ``predicted`` when it first got some."""

    uid: str
    class_id: ClassId
    predicted: Money
    actual: Money
    created: Instant
    finished: Instant


@dataclass(frozen=True, slots=True)
class CountJobs:
    """One conditional write of the budget: add finished jobs to the histories of their classes.

    See ``ledger.class_history.apply_count``.
    """

    budget: BudgetId
    jobs: tuple[CountedJob, ...]


@dataclass(frozen=True, slots=True)
class AddCosts:
    """One conditional write: add what was spent from ``since`` to ``added.through`` (``ledger.costs.apply_costs``)."""

    budget: BudgetId
    since: Instant | None
    added: Costs


@dataclass(frozen=True, slots=True)
class PruneFolded:
    """Remove the uids of rentals that no longer exist from the budget's list of folded ones."""

    budget: BudgetId
    rental_uids: tuple[str, ...]


BudgetStep = OpenPeriod | CountJobs | AddCosts | PruneFolded


# --- runs: one Indexed Job each --------------------------------------------------------------------------------------


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
    """Suspend the run: its pods get SIGTERM and their checkpoint grace."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopOrphan:
    """Suspend a run whose TrainingJob is gone, once an uncached look says so too."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class ResizeRun:
    """InPlace: parallelism and completions in one patch."""

    job: JobId
    run: int
    completions: int


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Write the allocation annotation onto a pod (JSON patch with a test on its uid)."""

    job: JobId
    pod: Pod
    allocation: str


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Record a run's end in the TrainingJob's status, once an uncached list shows that none of its pods is live.

    The same write clears the allocation when it is this run's and takes the run out of ``replaced``, counts a failure
    (FAILED) or a restart (INTERRUPTED), and sets ``finish``.
    """

    job: JobId
    record: RunRecord
    finish: Finish | None


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete the Job object of a run that is recorded or that status does not name.

    In the foreground and with a test on its uid: the object stays in sight until its pods are gone.
    """

    job: JobId
    run: int
    uid: str


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
    | AnnotatePod
    | RecordRun
    | DeleteRun
    | DeleteJob
)


# --- guards: finalizers on objects in use -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add (or with ``present`` False remove) ``charterer.dev/in-use`` on a GPUBudget or GPUPool."""

    kind: str
    name: str
    uid: str
    present: bool


GuardStep = SetFinalizer

Step = PoolStep | RentalStep | BudgetStep | RunStep | GuardStep
