"""The words of conditions and Events, and of GPUBudgets, GPUPools, GPUPoolSets, GPURentals and SpeedupProfiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from charterer.api.models.gpubudget_status import BudgetState
from charterer.api.models.gpupool import PoolState
from charterer.api.models.gpupoolset import PoolSetState
from charterer.api.models.speedupprofile import ProfileState
from charterer.domain.job import RunOutcome
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import RunWarning

# The meaning of a word and the remedy.


class Meaning(NamedTuple):
    """``means``: one sentence. ``remedy``: what a person should do, or empty if there is nothing to do.

    ``needs_person``: the object does not continue by itself, or does not continue as it should.
    """

    means: str
    remedy: str = ""
    needs_person: bool = False


# The words of GPUBudgets, GPUPools, GPUPoolSets, GPURentals and SpeedupProfiles.


BUDGET_STATES: Final[Mapping[str, Meaning]] = {
    BudgetState.READY: Meaning("The budget pays for jobs."),
    BudgetState.OBSERVING: Meaning(
        "The mode is Observe: decisions are shown and not carried out.", "Set `spec.mode: Enforce` to let it act."
    ),
    BudgetState.STOPPED: Meaning(
        "A person has stopped the operator: nothing is rented; the condition `Stopped` says whether nodes are ended.",
        "`charterer resume` lets it rent again.",
    ),
    BudgetState.LIMITED: Meaning(
        "Jobs wait for the budget's money.", "Raise `spec.amount` or the limit that the jobs' `Why` names."
    ),
    BudgetState.TOO_SMALL: Meaning(
        "Even the cheapest options of its jobs cost more than is left.",
        "Raise `spec.amount`; `charterer plan` shows from which amount on jobs do not queue.",
    ),
    BudgetState.OVERSPENT: Meaning(
        "More is spent than the amount of this period.",
        "See the attribution in the status; set `spec.hardLimit` if this must never happen.",
    ),
    BudgetState.CLOCK_BEHIND: Meaning(
        "The period has not begun by the operator's clock, so nothing new is started.",
        "Set the clock of the operator's machine right.",
    ),
    BudgetState.CLOSED: Meaning(
        "The budget's grant has not begun or is over, so nothing is rented.",
        "Create another GPUBudget for the same namespaces, or wait until the grant begins.",
    ),
    BudgetState.NO_POOL: Meaning(
        "`spec.poolSelector` selects no GPUPool, so nothing can be rented.",
        "Label a GPUPool as the condition `Ready` says, or change `spec.poolSelector`.",
    ),
    BudgetState.NO_NAMESPACE: Meaning(
        "`spec.namespaceSelector` selects no namespace, or only those for which older budgets pay: nothing is rented.",
        "Label a namespace as it says, or change it, so that a namespace has this budget only.",
    ),
    BudgetState.INVALID: Meaning("The object cannot be used.", "Correct what the condition `Ready` names."),
    BudgetState.DELETING: Meaning(
        "The budget waits until all its rentals have ended and are counted.",
        "If it lasts, look whether the operator leads: `charterer doctor`.",
    ),
}

POOL_STATES: Final[Mapping[str, Meaning]] = {
    PoolState.READY: Meaning("Nodes can be rented."),
    PoolState.STOPPED: Meaning(
        "A person has stopped the operator: nothing is rented.", "`charterer resume` lets it rent again."
    ),
    PoolState.FULL: Meaning("`spec.maxNodes` are rented.", "Raise `spec.maxNodes` if more should be."),
    PoolState.COOLING: Meaning(
        "The cloud refused a node, because of stock, a quota or a mistake; it is asked again later.",
        "Add a pool in another zone, raise the quota, or correct what the condition `Ready` names.",
    ),
    PoolState.GROUP_TAKEN: Meaning(
        "Another GPUPool means the same machines, and only one acts: the oldest that its cloud has ever answered for.",
        "Delete one of the two.",
    ),
    PoolState.GROUP_NOT_FOUND: Meaning("The cloud has no such instance group.", "Correct the group in `spec`."),
    PoolState.CAPACITY_TYPE_DIFFERS: Meaning(
        "The group sells spot where the pool says on demand, or the reverse.",
        "Create a pool with the right `spec.capacityType`, delete this one.",
    ),
    PoolState.NO_PRICE: Meaning(
        "Neither the cloud nor the pool says what a node costs: nothing is rented without a price on record.",
        "Set `spec.price.hourly`, or correct what the condition `Ready` names.",
    ),
    PoolState.UNREACHABLE: Meaning(
        "The cloud does not answer, or refuses the question. Nothing is rented; what runs stays.",
        "Read the condition `Ready`: check the endpoint, the network and the credentials.",
    ),
    PoolState.UNKNOWN: Meaning(
        "The cloud was not asked yet.", "If it lasts, look whether the operator leads: `charterer doctor`."
    ),
    PoolState.INVALID: Meaning("The object cannot be used.", "Correct what the condition `Ready` names."),
    PoolState.DELETING: Meaning(
        "The pool waits until all its rentals have ended.",
        "If it lasts, look whether the operator leads: `charterer doctor`.",
    ),
}

POOL_SET_STATES: Final[Mapping[str, Meaning]] = {
    PoolSetState.READY: Meaning("All GPUPools are there as the set declares them. Each has a state of its own."),
    PoolSetState.CHANGING: Meaning(
        "GPUPools are being created, changed or deleted; a deleted one stays until its rentals have ended.",
        "If it lasts, look whether the operator leads: `charterer doctor`.",
    ),
    PoolSetState.INCOMPLETE: Meaning(
        "GPUPools are not as the set declares them, and stay so until a person acts.",
        "Do what the condition `Ready` says of each.",
    ),
    PoolSetState.INVALID: Meaning(
        "The object cannot be used, so nothing is done about its GPUPools.", "Correct what the condition `Ready` names."
    ),
    PoolSetState.DELETING: Meaning(
        "The set is being deleted with its GPUPools, each of which waits until its rentals have ended."
    ),
}

PROFILE_STATES: Final[Mapping[str, Meaning]] = {
    ProfileState.READY: Meaning("Jobs are planned by the profile."),
    ProfileState.INVALID: Meaning("A curve cannot be used.", "Correct what the condition `Ready` names."),
}

RENTAL_PHASES: Final[Mapping[str, Meaning]] = {
    RentalPhase.REQUESTED: Meaning(
        "The rental is on record and the cloud has not given a machine yet.", "If it lasts, see the pool's state."
    ),
    RentalPhase.STARTING: Meaning(
        "The cloud bills the machine; its node is not ready yet.",
        "If it lasts, the machine does not join the cluster: check its bootstrap and its provider id.",
    ),
    RentalPhase.READY: Meaning("The node is ready and can be used."),
    RentalPhase.DRAINING: Meaning(
        "The node is cordoned and is ended once no pod is left on it.", "`status.heldBy` names what keeps it."
    ),
    RentalPhase.ENDED: Meaning("The machine is ended and its cost is final. The object disappears by itself."),
}


# The reasons of Events that are neither a word of the column Why nor the reason of a condition.


EVENT_REASONS: Final[Mapping[str, Meaning]] = {
    "Allocated": Meaning("The job was given GPUs; the message says why these."),
    "Ended": Meaning("A rental ended at the cost that the message names."),
    "Failing": Meaning(
        "A step failed and is tried again, later each time.", "If it goes on, correct what the message names."
    ),
    "Held": Meaning("Others keep a step from being done.", "The message names what: remove it, or wait."),
    RunWarning.KILLED_AFTER_GRACE: Meaning(
        "Pods of a run that was stopped did not end in their grace period and were killed: the work since the last "
        "checkpoint is lost.",
        "Save and exit at SIGTERM (docs/progress.md), or raise the template's `terminationGracePeriodSeconds`.",
    ),
    RunWarning.STOPPED_WITH_ZERO: Meaning(
        "Pods of a run that was being stopped or resized exited with 0 before the work was done. The job goes on.",
        "Exit with 143 on every rank after a stop (docs/progress.md).",
    ),
    "LearnedUnreadable": Meaning("What was learned cannot be read and is learned anew."),
    "NodeReady": Meaning("A rented node is ready."),
    "PoolChanged": Meaning("A GPUPool was given the spec and labels that its set declares."),
    "PoolCreated": Meaning("A GPUPool was created that a set declares."),
    "PoolRemoved": Meaning(
        "A GPUPool was deleted that its set declares no more. It stays until its rentals have ended."
    ),
    "NotATrainingJob": Meaning(
        "A pod with GPUs has had no node for a minute, in a namespace whose budget rents nodes for what asks it to.",
        'Label its Job `charterer.dev/adopt: "true"`, put the template into `spec.template` of a TrainingJob, or let '
        "somebody else give the pod a node.",
    ),
    "PriceChanged": Meaning("A person changed a pool's price; it counts from now on."),
    "Recovered": Meaning("The object can be used again."),
    "Releasing": Meaning("A rental is given back; the message says why."),
    "Renting": Meaning("A node is rented; the message says for which jobs."),
    "AmountProrated": Meaning(
        "The budget was made within a period, so that only a part of its amount counts for the rest of it.",
        'If the whole amount is for the rest of that period: set `spec.openingSpend` to "0".',
    ),
    "SpentBefore": Meaning("The budget's period began with money that was spent before, as the message says."),
    "SpentUntilDeletion": Meaning(
        "The budget is gone; the message says what it had spent of its period.",
        "If it is created again in the same period: set `spec.openingSpend` to that.",
    ),
    "UnknownInstance": Meaning(
        "A machine runs in the group that nobody asked for. It is billed, so it gets a rental.",
        "Find out who changes the group: only Charterer should.",
    ),
}

_RUN_OUTCOMES: Final[Mapping[str, Meaning]] = {
    RunOutcome.COMPLETE: Meaning("A run completed."),
    RunOutcome.FAILED: Meaning("A run failed, which counts against `spec.backoffLimit`.", "Read the message."),
    RunOutcome.INTERRUPTED: Meaning("A run lost a machine, which counts against `spec.maxRestarts`."),
    RunOutcome.STOPPED: Meaning("A run was stopped to change its width, because the job was suspended, or by Kueue."),
    RunOutcome.STALLED: Meaning(
        "A run did not advance any more and was stopped, which counts against `spec.maxRestarts`.",
        "Read the logs of all ranks (docs/bottlenecks.md).",
    ),
    RunOutcome.NOT_STARTED: Meaning(
        "Not all pods of a run ever ran, so its machines were given back. It counts neither against "
        "`spec.backoffLimit` nor against `spec.maxRestarts`; three in a row end the job.",
        "The message has the pods' own words.",
    ),
}

RUN_EVENTS: Final[Mapping[str, Meaning]] = {f"Run{outcome}": meaning for outcome, meaning in _RUN_OUTCOMES.items()}
