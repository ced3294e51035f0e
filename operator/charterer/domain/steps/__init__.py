"""Steps: each one mutation of Kubernetes or of a cloud, named by ``lifecycle`` and carried out by the executor.

Every step is idempotent or guarded (a resourceVersion, a uid, a deterministic name, an absolute target), so a step
that was carried out but whose answer was lost may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.steps.budget_steps import (
    AddCosts,
    BudgetStep,
    CostRecordStep,
    CountedJob,
    CountJobs,
    OpenPeriod,
    PruneFolded,
    RecordCosts,
    RecordedPart,
)
from charterer.domain.steps.pool_set_steps import CreatePool, DeletePool, EditPool, PoolSetStep
from charterer.domain.steps.pool_steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    CountLifetime,
    PoolStep,
    RecordOffer,
    RecordOrphan,
    Reopen,
    Withdraw,
)
from charterer.domain.steps.rental_steps import (
    Cordon,
    DeleteNode,
    DeletePod,
    FailPod,
    Fold,
    Forget,
    MarkDraining,
    MarkEnded,
    MarkMissing,
    MarkReady,
    RecordUses,
    Refresh,
    RentalStep,
    Terminate,
    Uncordon,
)
from charterer.domain.steps.run_steps import (
    AdoptTarget,
    AnnotatePod,
    CreateRun,
    CreateService,
    DeleteJob,
    DeleteRun,
    EditJob,
    EndTarget,
    FinishJob,
    GiveBack,
    LabelNode,
    LetGo,
    RecordGroup,
    RecordRun,
    ResizeRun,
    RunStep,
    RunWarning,
    StopOrphan,
    StopRun,
    Unsuspend,
)
from charterer.domain.time import Instant

__all__ = [
    "AddCosts",
    "Adopt",
    "AdoptTarget",
    "AnnotatePod",
    "AskCloud",
    "BudgetStep",
    "CloseUnfulfilled",
    "Cool",
    "Cordon",
    "CostRecordStep",
    "CountJobs",
    "CountLifetime",
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
