"""The words of TrainingJobs: states, reasons, ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.api.models.trainingjob_status import JobState
from charterer.api.words.words import Meaning
from charterer.domain.plan import ReasonCode

JOB_STATES: Final[Mapping[str, Meaning]] = {
    JobState.QUEUED: Meaning("The job has no GPUs and waits.", "See its `Why`, and run `charterer explain tj/NAME`."),
    JobState.STARTING: Meaning(
        "The job has its GPUs and its pods are not all ready yet.",
        "If it lasts, read the condition `PodsReady`: it has the pods' own words.",
    ),
    JobState.RUNNING: Meaning("All pods of the job are ready."),
    JobState.RESIZING: Meaning(
        "The job changes to another number of GPUs or another pool: pods of the old and of the new run exist.",
        "If it lasts, shorten the pods' terminationGracePeriodSeconds.",
    ),
    JobState.STOPPING: Meaning("The pods of the job are ending, so that it can write a checkpoint."),
    JobState.SUSPENDED: Meaning("`spec.suspend` is true.", "Set `spec.suspend` to false to let it go on."),
    JobState.IDLE: Meaning(
        "The job is interactive and nobody asks for a GPU: it has none and costs nothing.",
        "Run a cell, or raise `spec.interactive.asks` by one (docs/capacity/interactive.md).",
    ),
    JobState.INVALID: Meaning(
        "The template is refused, something that it names is missing, or the object cannot be read.",
        "Correct what the condition `Admitted` names.",
    ),
    JobState.COMPLETE: Meaning("All pods of the last run succeeded."),
    JobState.FAILED: Meaning(
        "The job ended with an error, or was interrupted too often.",
        "Read the condition `Failed` and `status.runs`, correct the cause and submit the job again.",
    ),
    JobState.CANNOT_START: Meaning(
        "Several runs in a row never became ready, so the job was ended.",
        "The condition `Failed` has the pods' own words (image, volume, node selector): correct it, submit again.",
    ),
}

REASONS: Final[Mapping[str, Meaning]] = {
    ReasonCode.BUDGET_OPTIMAL: Meaning("At the budget's exchange rate no other option is worth its price."),
    ReasonCode.RIGID: Meaning(
        "The job accepts one number of GPUs only, so only the pool was chosen.",
        "Give `spec.gpus` a range (min, preferred, max) to let the width be chosen.",
    ),
    ReasonCode.NO_CURVE: Meaning(
        "Nothing is known of the speed of this class, so the job runs on its preferred number of GPUs. If its profile "
        "does not exist or cannot be used, the word is that cause, such as `ProfileNotFound` or `CurveNotIncreasing`.",
        "Name a class in `spec.profileName`, and let its jobs report (docs/progress.md) or declare a SpeedupProfile.",
    ),
    ReasonCode.CHEAPEST_OVER_BUDGET: Meaning(
        "The budget does not pay even for the cheapest options of all jobs, so the job has its cheapest one.",
        "Raise the budget's `spec.amount`, or submit less.",
    ),
    ReasonCode.PLACING: Meaning("The job has an option and its nodes, and gets them within seconds."),
    ReasonCode.MOVE_PAYS: Meaning("The job moves, because what the move saves is worth more than it costs."),
    ReasonCode.MAKES_ROOM: Meaning(
        "The job goes on with fewer GPUs, because its pool is full and jobs that wait need them more.",
        "To keep it as it is, set its `resizePolicy: Never`, or the budget's `moves` (docs/capacity/full-pools.md).",
    ),
    ReasonCode.NODE_EMPTIED: Meaning(
        "The job moves, with all others on its node, to free GPUs of other nodes, so that its node can be given back.",
        "If its restarts are not wanted, see docs/capacity/whole-nodes.md.",
    ),
    ReasonCode.SLOW_NODE: Meaning(
        "The job gets another node, because one of its nodes computes slower than the others and holds them up. Of a "
        "GPURental: it was that node.",
        "To keep the job as it is, set its `resizePolicy: Never`, or the budget's `moves` (docs/bottlenecks.md).",
    ),
    ReasonCode.WIDTH_NO_LONGER_ALLOWED: Meaning("`spec.gpus` changed and does not allow the present width any more."),
    ReasonCode.WAITING_FOR_NODE: Meaning(
        "The job waits for nodes that are rented or being rented.",
        "Look at the GPURentals: `kubectl get gpurentals`.",
    ),
    ReasonCode.WAITING_FOR_FREE_GPUS: Meaning(
        "A node in use is expected to have enough free GPUs soon, which costs less than a new node, a later move, or "
        "what else the job could have now.",
        "The message says when the job starts, or how long it waits at most. It does not wait where that makes it late "
        "for its `spec.targetCompletionTime` (docs/capacity/full-pools.md).",
    ),
    ReasonCode.WAITING_FOR_BUDGET: Meaning(
        "What the budget may spend now is in use by other jobs.",
        "Raise the budget's `spec.amount`, wait, or give the job a higher priority class.",
    ),
    ReasonCode.HARD_LIMIT: Meaning(
        "The worst case of one more node, or of the present ones, would exceed the budget's `spec.hardLimit`. Or what "
        "runs hold would exceed an amount of its `spec.gpuHours`. Or its grant has not begun, or is over, or ends too "
        "soon.",
        "Raise `spec.hardLimit` or the amount in `spec.gpuHours`, as the message says, or wait for the next period; if "
        "it is the grant, create another GPUBudget.",
        needs_person=True,
    ),
    ReasonCode.MAX_COST: Meaning(
        "The job has reached, or no option fits, its own `spec.maxCost`, or that which its GPUBudget has for jobs "
        "without one (`spec.jobDefaults`); the message says which.",
        "Raise the job's `spec.maxCost`, or set it.",
        needs_person=True,
    ),
    ReasonCode.HOURLY_LIMIT: Meaning(
        "One more node would exceed the budget's `spec.maxHourlyRate`.",
        "Raise `spec.maxHourlyRate`, or wait until other nodes are given back.",
    ),
    ReasonCode.OPERATOR_LIMIT: Meaning(
        "One more node would pass a limit of the operator itself, which holds for all pools and budgets together.",
        "Raise `limits.nodes` or `limits.dollarsPerHour` of the chart, or wait until other nodes are given back.",
        needs_person=True,
    ),
    ReasonCode.STOPPED: Meaning(
        "A person has stopped the operator: nothing is rented until it is resumed.",
        "The condition `Stopped` of the budgets says how; `charterer resume`.",
        needs_person=True,
    ),
    ReasonCode.POOL_FULL: Meaning("The pool has all the nodes that it may have.", "Raise the pool's `spec.maxNodes`."),
    ReasonCode.POOL_COOLING: Meaning(
        "The cloud could not give a node of this pool, and is asked again later.",
        "Add a pool in another zone, of another GPU type or capacity type; raise the quota if that is the cause.",
    ),
    ReasonCode.RENTAL_UNREADABLE: Meaning(
        "A GPURental of the pool cannot be read, so nobody knows which machine is its; no node is rented there.",
        "The pool's condition `Ready` names the field: correct it, or run the version again that wrote it.",
        needs_person=True,
    ),
    ReasonCode.NOT_ASKED_YET: Meaning(
        "The cloud of a pool has not answered yet, as in the first seconds of a new GPUPool or operator.",
        "If it lasts, look whether the operator leads: `charterer doctor`.",
    ),
    ReasonCode.NO_OPTION: Meaning(
        "No pool with a known price fits the job: its GPU types, its number of GPUs or its shape.",
        "Compare `spec.gpus` and `spec.gpuTypes` with `kubectl get gpupools`; see `charterer explain`.",
        needs_person=True,
    ),
    ReasonCode.NO_BUDGET: Meaning(
        "No GPUBudget selects the job's namespace.",
        "Create a GPUBudget, or label the namespace as the `namespaceSelector` of one says.",
        needs_person=True,
    ),
    ReasonCode.INVALID: Meaning(
        "The API server refuses the template.",
        "Correct what the condition `Admitted` names; no new job is needed.",
        needs_person=True,
    ),
    ReasonCode.CHECKING: Meaning(
        "The template is being tried by a dry run before money is spent; this takes a second.",
        "If it lasts, look whether the operator leads: `charterer doctor`.",
    ),
    ReasonCode.SUSPENDED: Meaning("`spec.suspend` is true.", "Set `spec.suspend` to false."),
    ReasonCode.NO_GPU_WANTED: Meaning(
        "The job is interactive, and nobody asked for a GPU since the last one was given back, or no cell ran for so "
        "long that it is given back now.",
        "To hold GPUs longer, set `spec.interactive.idleSeconds` or `hourly` (docs/capacity/interactive.md).",
    ),
    ReasonCode.NOT_ADOPTED: Meaning(
        "The object that the job stands for is gone, or its label `charterer.dev/adopt` is: it is given back as its "
        "author wrote it, and the TrainingJob goes. Or it can begin no run, as its author or its queue has it now. Of "
        "a node: only that object used it, and it may not begin there.",
        "Put the label back to have it adopted again, or correct what the sentence names.",
    ),
    ReasonCode.FINISHED: Meaning("The job has ended."),
    ReasonCode.DELETED: Meaning("The job is being deleted."),
    ReasonCode.LOST_NODE: Meaning("The machine died, or its node was not ready for too long. The job starts again."),
    ReasonCode.POD_REFUSED: Meaning(
        "The kubelet of a node refused a pod of a run before any container of it began, as where a GPU is lost or the "
        "device plugin restarts. The node is not used again, and given back; the job starts on another one.",
        "If it happens on each node of a pool, look at its device plugin and at what the pods ask for beside GPUs.",
    ),
    ReasonCode.NOT_STARTING: Meaning(
        "The run was not fully running within `spec.readyTimeoutSeconds`, or can never start: its machines went back.",
        "The condition `PodsReady` has the pods' own words; allow more time if pulling the image takes longer.",
        needs_person=True,
    ),
    ReasonCode.STALLED: Meaning(
        "The run had not advanced for long while its pods lived, so it was stopped and starts from its checkpoint.",
        "Read the logs of all ranks; `spec.stallTimeoutSeconds` changes the time, 0 switches it off.",
    ),
    ReasonCode.NOT_REGROUPED: Meaning(
        "The pods of a job that is resized in place did not train together in time. Pods that were added are taken "
        "away, and the job trains on without them; otherwise its run starts again from the last checkpoint.",
        "The pods' logs say why. Pods that are added have `spec.readyTimeoutSeconds` to get ready; after that the job "
        "is not widened for an hour, and longer each further time.",
    ),
    ReasonCode.NOT_BELIEVED: Meaning(
        "The allocation in the job's status is not Charterer's own, so it is ignored and the job is planned anew.",
        "Find out who may update trainingjobs/status: nobody but the operator needs that right.",
        needs_person=True,
    ),
    ReasonCode.NOT_RECORDED: Meaning(
        "A run has ended and its end cannot be written into the job's status, so its machines are given back.",
        "The Event `Failing` of the job has the API server's words: an admission policy or a webhook may refuse it.",
        needs_person=True,
    ),
    ReasonCode.BACK_OFF: Meaning(
        "A run failed or did not start; the next one starts after a pause that doubles.",
        "Correct the cause in `status.runs`; a changed template starts at once.",
        needs_person=True,
    ),
    ReasonCode.CLOCK_BEHIND: Meaning(
        "The budget's period has not begun by the operator's clock, so nothing new is started.",
        "Set the clock of the operator's machine right.",
        needs_person=True,
    ),
    ReasonCode.PARENT_UNKNOWN: Meaning(
        "The limits of the budgets above the job's budget are not known, so nothing new is rented.",
        "Correct `spec.parent` of the GPUBudget as its condition `Ready` says.",
        needs_person=True,
    ),
    ReasonCode.IDLE: Meaning("No job uses the node and none waits for it, so it is given back."),
    ReasonCode.NOT_NEEDED: Meaning("The job that the node was rented for does not wait for it any more."),
    ReasonCode.INCOMPLETE_GANG: Meaning(
        "The cloud gave fewer nodes than a job needs at once, and no other job uses them, so they are given back.",
        "Add a pool in another zone or of another GPU type, or one whose cloud launches all nodes or none.",
    ),
    ReasonCode.DEMAND: Meaning("A node is rented, because jobs are worth its price."),
    ReasonCode.COMMITTED: Meaning(
        "A node is rented, because it is paid for whether it is used or not (`spec.price.committed` of the GPUPool); "
        "or held for a budget, because it is there anyway (`spec.existing`)."
    ),
    ReasonCode.BUDGET_DELETED: Meaning(
        "The budget is being deleted: its nodes are given back.", "Let another budget select the namespace."
    ),
    ReasonCode.POOL_DELETED: Meaning("The pool is being deleted, or its group cannot be used: its nodes are ended."),
    ReasonCode.INTERRUPTION: Meaning(
        "The cloud, or a taint of the Node, says that the machine will end; the job stops in time and starts again.",
        "If it happens too often: `spec.spotPolicy: Never`.",
    ),
    ReasonCode.OBSERVE_ONLY: Meaning(
        "The budget's mode is Observe: the decision is shown and not carried out.", "Set `spec.mode: Enforce`."
    ),
    ReasonCode.PLANNING_FAILED: Meaning(
        "Planning fails with this object, so the others are planned without it.",
        "The message names the field; correct it, and report the error: it is a bug.",
        needs_person=True,
    ),
}

FINISH_REASONS: Final[Mapping[str, Meaning]] = {
    "Completed": Meaning("All pods of the run succeeded."),
    "CompletedInDoubt": Meaning(
        "All pods of the run succeeded, long before the work that it had reported was done. The job counts as done.",
        "Read the logs; if work is missing, create the job again, which goes on from its checkpoint. If the script is "
        "meant to end early, let it report `fraction=1` last (docs/progress.md).",
    ),
    "BackoffLimitExceeded": Meaning(
        "More runs failed than `spec.backoffLimit` allows.", "The message has the pod's exit code; read its logs."
    ),
    "MaxRestartsExceeded": Meaning(
        "More runs were interrupted than `spec.maxRestarts` allows.",
        "Raise `spec.maxRestarts`, or keep the job off spot machines with `spec.spotPolicy: Never`.",
    ),
    "CannotStart": Meaning(
        "Several runs in a row never became ready.", "The message has the pods' own words; correct the template."
    ),
}
