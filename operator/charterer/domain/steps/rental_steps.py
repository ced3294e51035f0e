"""Steps on rentals: from the node's readiness to the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.ids import BudgetId, NodeName, PoolId, RentalId
from charterer.domain.jobs.pod import Pod
from charterer.domain.money import Money
from charterer.domain.pool import Instance
from charterer.domain.spending.use import Use
from charterer.domain.time import Instant


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


@dataclass(frozen=True, slots=True)
class MarkMissing:
    """Record since when the cloud's list lacks the rental's instance; None: the list shows it again."""

    rental: RentalId
    since: Instant | None


@dataclass(frozen=True, slots=True)
class MarkDraining:
    """Record that a rental is to be ended because of what a person did: of its object, or of what alone used it."""

    rental: RentalId
    because: str


@dataclass(frozen=True, slots=True)
class MarkEnded:
    """Record the instance's end and final cost. ``estimated``: the cloud no longer lists when it ended."""

    rental: RentalId
    ended: Instant
    cost: Money
    estimated: bool


@dataclass(frozen=True, slots=True)
class RecordUses:
    """Record who held the rental's GPUs: all ``uses`` that are kept, and since when these are all (``since``)."""

    rental: RentalId
    uses: tuple[Use, ...]
    since: Instant | None


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
    | Fold
    | Forget
)
