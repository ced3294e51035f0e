"""The reasons of Events that are neither a ``Why`` nor the reason of a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.api.words.meaning import Meaning
from charterer.domain.job import RunOutcome
from charterer.domain.steps import RunWarning

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
        "The budget was made within a month, so that only a part of its amount counts for the rest of it.",
        'If the whole amount is for the rest of that month: set `spec.openingSpend` to "0".',
    ),
    "SpentBefore": Meaning("The budget's period began with money that was spent before, as the message says."),
    "SpentUntilDeletion": Meaning(
        "The budget is gone; the message says what it had spent of its period.",
        "If it is created again in the same month: set `spec.openingSpend` to that.",
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
