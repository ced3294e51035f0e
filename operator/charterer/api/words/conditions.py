"""The words of conditions: their types, and those reasons that are neither a state nor a word of the column Why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from charterer.api.names import ConditionType
from charterer.api.words.words import Meaning

CONDITION_TYPES: Final[Mapping[str, Meaning]] = {
    ConditionType.READY: Meaning(
        "The object is as its spec asks: a budget, pool, set or profile can be used; a job runs, is complete, or is "
        "suspended or idle as it asks. Flux, Helm 4 and others wait for it (docs/gitops.md).",
        "If False: read its message.",
    ),
    ConditionType.WITHIN_BUDGET: Meaning(
        "On course: the low end of the 90 % forecast is within the amount. Without a history: what is spent and what "
        "the jobs in sight will still cost is within it.",
        "If False: lower the load, or raise `spec.amount`.",
    ),
    ConditionType.PRICE_DATA_FRESH: Meaning(
        "The prices of all pools are known and recent.", "If False: see the condition `Ready` of the GPUPools."
    ),
    ConditionType.OVERLAPS: Meaning(
        "Other budgets select namespaces of this one, too. The message says who pays. None counts what others pay.",
        "Change `spec.namespaceSelector` of one of them.",
    ),
    ConditionType.CURRENCY_RATE_CURRENT: Meaning(
        "`spec.currencyRate` was set within the last 35 days.",
        "If False: set `spec.currencyRate` anew. Until then the amounts are those of the old rate.",
    ),
    ConditionType.USERS_KNOWN: Meaning(
        "It is known who creates jobs, so that shares of users in `spec.shares` have their jobs.",
        "If False: see the reason `UsersUnknown`.",
    ),
    ConditionType.WITHIN_GPU_HOURS: Meaning(
        "No amount of `spec.gpuHours` is used up, and each is for a GPU type that a GPUPool has.",
        "If False: raise the amount, wait for the next period, or correct `gpuType`, as the message says.",
    ),
    ConditionType.LEFT_RUNNING: Meaning(
        "The budget's mode is Observe, and nodes are rented: they go on costing money, and no limit of it holds.",
        "Set `spec.mode: Enforce`, which uses them or gives them back; `charterer stop --drain` ends all nodes.",
    ),
    ConditionType.COSTS_RECORDED: Meaning(
        "The place of the record of costs takes what rentals cost. Absent: costs are not recorded.",
        "If False: do what the message says. Renting goes on, rentals that have ended stay, and all is written later.",
    ),
    ConditionType.COMMITMENTS_COVERED: Meaning(
        "What committed nodes cost until the period's end fits into the amount and the hard limit. Absent: the budget "
        "pays for no commitment.",
        "If False: raise `spec.amount` or `spec.hardLimit`; the message says by how much it is short.",
    ),
    ConditionType.COMMITMENT_KEPT: Meaning(
        "All nodes of a committed pool are rented, and kept until the commitment ends; or all nodes that are there "
        "anyway are held for their budget. Absent: the pool has none.",
        "If False: do what the message says (docs/capacity/commitments.md).",
    ),
    ConditionType.NODES_TAKE_PART: Meaning(
        "All Nodes that `spec.existing` selects take part. Absent: the pool's nodes are rented.",
        "If False: do what the message says (docs/capacity/own-nodes.md).",
    ),
    ConditionType.STOPPED: Meaning(
        "A person has stopped the operator: nothing is rented, and with the reason `Drained` all nodes are ended.",
        "`charterer resume` lets it rent again.",
    ),
    ConditionType.PRICE_HELD: Meaning(
        "The cloud's price moved by more than a factor of two, so the last one counts until the new one is confirmed. "
        "Or a first price is unlike those of other pools with the same GPUs, which waits until it is confirmed.",
        "Look the price up; then annotate the pool as the message says, or set `spec.price.hourly`.",
    ),
    ConditionType.SPEED_GUESSED: Meaning(
        "Charterer knows no data sheet of the pool's GPU type, so before a class of jobs has run there its speed is "
        "guessed from its price. Absent where it knows one.",
        "Nothing has to be done. To start with what you know, declare a curve of the type in the SpeedupProfile.",
    ),
    ConditionType.PREFLIGHT: Meaning(
        "A check of the pool for what would fail once nodes are rented: rights, settings, quota, price, Nodes.",
        "If False: correct what its message names; `charterer preflight POOL` checks again.",
    ),
    ConditionType.ADMITTED: Meaning("The template is accepted and a budget pays.", "If False: read its message."),
    ConditionType.CAPACITY_AVAILABLE: Meaning("The job has its GPUs.", "If False: the reason is its `Why`."),
    ConditionType.PODS_READY: Meaning(
        "All pods of the run are ready.", "If False: the message has the pods' own words."
    ),
    ConditionType.RESIZING: Meaning("The job changes its width or pool."),
    ConditionType.BUDGET_LIMITED: Meaning(
        "A limit on money keeps the job from an option that it would otherwise have."
    ),
    ConditionType.COMPLETE: Meaning("The job has completed."),
    ConditionType.DECLARED_LOAD_CONFIRMED: Meaning(
        "All of the profile's declared `spec.arrivalsPerHour` counts in planning.",
        "If False: fewer jobs were submitted than declared, so less counts; correct the number, or wait for more jobs.",
    ),
    ConditionType.FAILED: Meaning("The job has failed for good.", "Read its message."),
    ConditionType.ON_TARGET: Meaning(
        "The job is expected to end by its `spec.targetCompletionTime`, or has; the message has both times.",
        "If False: see the reason `TargetMissed`.",
    ),
    ConditionType.WITHIN_MAX_COST: Meaning(
        "The job is expected to end before its `spec.maxCost`, or that of its budget's `jobDefaults`, is spent.",
        "If False: raise the job's `spec.maxCost`, or set it, or the job is stopped before its end.",
    ),
    ConditionType.WITHIN_QUOTE: Meaning(
        "The job, which is complete, cost as much and ended when its quote had said; the message has both. Absent "
        "without `spec.quote`, and until the end.",
        "If False: one quote in ten is missed by cost, and one by end. If more are: docs/cli.md, `charterer quote`.",
    ),
    ConditionType.TEMPLATE_CURRENT: Meaning(
        "If False: pods run with an older template than the job's. Absent otherwise.",
        "The next run has the new template; suspend the job and resume it to begin that at once.",
    ),
    ConditionType.SUSPENDED: Meaning("The job is suspended, and no pod of it is left."),
    ConditionType.SLOW_WORKER: Meaning(
        "One pod computes longer than the others, which wait for it. Absent otherwise.",
        "See the reason `SlowerThanPeers`.",
    ),
    ConditionType.SLOW_NODE: Meaning(
        "A job of one pod computes longer than others of its class did on other nodes. Absent otherwise.",
        "See the reason `SlowerThanItsClass`.",
    ),
    ConditionType.INPUT_STARVED: Meaning(
        "The GPUs wait for input. Absent otherwise.", "See the reason `WaitsForInput`."
    ),
    ConditionType.SYNC_BOUND: Meaning(
        "A large part of each step is spent on exchanging gradients. Absent otherwise.",
        "See the reason `WaitsForOthers`.",
    ),
    ConditionType.CHECKPOINT_TOO_LONG: Meaning(
        "A checkpoint takes longer than the grace period. Absent otherwise.", "See the reason `LongerThanGrace`."
    ),
    ConditionType.STALLED: Meaning(
        "Nothing more happens until somebody changes the object: the job has failed for good, or the object cannot be "
        "read. Absent otherwise. Flux, Helm 4 and others stop waiting then.",
        "Read its message.",
    ),
    ConditionType.NOT_ADVANCING: Meaning(
        "The run reports no step any more while its pods live, and it is not stopped for that. Absent otherwise.",
        "See the reason `NoStep`.",
    ),
}

CONDITION_REASONS: Final[Mapping[str, Meaning]] = {
    "Accepted": Meaning("The template is right, and the message names the budget that pays."),
    "AllReady": Meaning("All pods are ready."),
    "AsDeclared": Meaning("All GPUPools of the set are as it declares them."),
    "Available": Meaning("Nodes of the pool can be rented."),
    "CannotChange": Meaning(
        "A GPUPool of the set differs from it in a field that cannot be changed, such as the zone.",
        "Give the value another name, which makes another GPUPool and deletes this one; or delete this GPUPool, after "
        "which it is made anew; or take the change back.",
    ),
    "CurveNotIncreasing": Meaning("A curve of the profile falls with more GPUs.", "Correct the named point."),
    "CurvesNotComparable": Meaning(
        "Two curves of the profile are not in one unit: one GPU type is faster or slower than another by more than "
        "their data sheets allow, or numbers are too far apart.",
        "Give all curves in one unit, such as samples a second, or leave one out: Charterer then learns it.",
    ),
    "Counted": Meaning("The declared load of the profile counts in planning."),
    "CommitmentsCovered": Meaning("The money is enough for the commitments."),
    "AmountBelowCommitments": Meaning(
        "Commitments cost more until the period's end than the amount leaves, so that nothing is left for other nodes.",
        "Raise `spec.amount`, or let another budget pay for a commitment.",
    ),
    "LimitBelowCommitments": Meaning(
        "Commitments cost more until the period's end than the hard limit leaves, so that all nodes are ended before.",
        "Raise `spec.hardLimit`.",
    ),
    "Kept": Meaning("All nodes of the commitment are rented and kept."),
    "AllTakePart": Meaning("All Nodes that the pool selects can be used."),
    "NoNode": Meaning(
        "`spec.existing.nodeSelector` selects no Node.",
        "Label Nodes so, or make the pool anew with the labels that they have.",
    ),
    "NodeCordoned": Meaning("A Node that the pool selects is cordoned.", "`kubectl uncordon` lets it take part again."),
    "BrokenGpus": Meaning(
        "By a condition of a Node that the pool selects, another program says that its GPUs are or may be broken.",
        "Repair them. The Node takes part again once that program says that they are well.",
    ),
    "NodeGoesAway": Meaning(
        "By a taint or a condition of a Node that the pool selects, another program says that its machine goes away.",
        "If the machine stays, remove the taint. The Node then takes part again.",
    ),
    "NodeNotReady": Meaning(
        "A Node that the pool selects is not ready, or is being deleted.",
        "Look at its kubelet. If pods of jobs stay there because its machine is off: delete the Node, or give it the "
        "taint `node.kubernetes.io/out-of-service`.",
    ),
    "OtherGpus": Meaning(
        "A Node that the pool selects has other GPUs than the pool's nodes, or fewer that can be used.",
        "Give it a GPUPool of its own, by another label, or look at its device plugin.",
    ),
    "RentedNode": Meaning(
        "A Node that the pool selects is rented by another GPUPool, so it takes no part here.",
        "Select by labels that rented Nodes lack.",
    ),
    "TwoPools": Meaning(
        "A Node is selected by two GPUPools; the older one has it.",
        "Change `spec.existing.nodeSelector` of one of them, or the Node's labels.",
    ),
    "NoDataSheet": Meaning(
        "No data sheet of the pool's GPU type is known; its speed is guessed from its price until a run there reports.",
        "Declare a curve of the type in `spec.curves` of the SpeedupProfile, or let a job run there.",
    ),
    "NoSuchBudget": Meaning(
        "The GPUBudget that is to pay for a commitment, or to have nodes that are there anyway, does not exist, so no "
        "job runs in the pool.",
        "Correct `spec.price.committed.budget` or `spec.existing.budget`, or create that GPUBudget.",
    ),
    "NotSelected": Meaning(
        "The GPUBudget that is to pay for a commitment, or to have nodes that are there anyway, may not use the pool.",
        "Label the pool as the budget's `spec.poolSelector` says, or correct the field that names the budget.",
    ),
    "OnlyObserved": Meaning(
        "The GPUBudget that is to pay for a commitment, or to have nodes that are there anyway, only observes.",
        "Set its `spec.mode: Enforce`.",
    ),
    "Draining": Meaning(
        "The object is being deleted and waits for its rentals.", "If it lasts: `kubectl get gpurentals`."
    ),
    "Drained": Meaning("The operator was stopped, and ends all nodes.", "`charterer resume`."),
    "DuplicatePoint": Meaning("A curve names one number of GPUs twice.", "Keep one value."),
    "EndUnknown": Meaning(
        "When the job ends is not known: nothing is known of its speed, or it gets no GPUs now.",
        "See its `Why`; let it report its progress (docs/progress.md), or declare a SpeedupProfile.",
    ),
    "Enforcing": Meaning("The budget acts."),
    "ForecastExceedsAmount": Meaning(
        "Even the lower end of the forecast's interval is above the amount; without a history, what is spent and the "
        "jobs in sight will still cost.",
        "Raise `spec.amount`, or submit less.",
    ),
    "Fresh": Meaning("All prices are known."),
    "InTime": Meaning("The job is expected to end by its target, or has."),
    "InvalidSpec": Meaning("A field of the spec cannot be used.", "Correct the field that the message names."),
    "InvalidStatus": Meaning(
        "A record in the status cannot be read, because somebody else wrote it.",
        "Remove the field that the message names from the status.",
    ),
    "InvalidTemplate": Meaning(
        "The template is refused, or something that its pods need is missing or taken by somebody else.",
        "Correct what the message names. What is missing is looked for again every 10 seconds.",
    ),
    "MisleadingVariables": Meaning(
        "The template sets variables that Charterer, a launcher or the device plugin sets for each process, or "
        "variables with the prefix `CHARTERER_` that nobody reads.",
        "Leave the variables out that the message names, or correct their names (docs/progress.md).",
    ),
    "NameTaken": Meaning(
        "A GPUPool that the set declares is there already, made by somebody else. It is never taken over.",
        "Delete that GPUPool, or rename a value of the set.",
    ),
    "NamespaceShared": Meaning(
        "Two budgets select one namespace; the message names it.", "Change `spec.namespaceSelector` of one of them."
    ),
    "Learned": Meaning("The speed of the class is learned from reports."),
    "QuoteHeld": Meaning("The job cost as much, and ended when, its quote had said."),
    "QuoteMissed": Meaning(
        "Cost or end of the job lay outside its quote; the message has both. One in ten does, by each.",
        "If it happens more often: see `charterer_quotes_total` (docs/metrics.md) and docs/cli.md, `charterer quote`.",
    ),
    "LongerThanGrace": Meaning(
        "A pod that is stopped is killed before its checkpoint is written.",
        "Raise the template's `terminationGracePeriodSeconds`, or save faster (in parts, or asynchronously).",
    ),
    "MaxNodesReached": Meaning(
        "All nodes are rented or asked for that `spec.maxNodes` allows, or that the cloud's group takes.",
        "Raise `spec.maxNodes`, or the maximum of the group: the message says which.",
    ),
    "NoSuchSlice": Meaning(
        "GPUs of the pool's type cannot be cut as `spec.partition` says, so that no job may use the pool.",
        "Make the pool anew with a profile that the message names, or without `spec.partition`.",
    ),
    "NoCloud": Meaning("The pool names no cloud, or more than one.", "Give exactly one."),
    "NoHistory": Meaning(
        "Too few jobs were seen to say how often they come, so there is no forecast: what the amount was made for is "
        "assumed. A day and ten batches of jobs are needed.",
        "Nothing. Who knows how many jobs come can declare it: `spec.arrivalsPerHour` of the SpeedupProfile.",
    ),
    "NoPrice": Meaning(
        "Of a GPUPool: its price is not known. Of a GPUBudget: no pool has a known price, so nothing can be rented.",
        "Do what the condition `Ready` of the GPUPool says, or set `spec.price.hourly`.",
    ),
    "NotAskedYet": Meaning("The operator has not asked the cloud yet."),
    "NotConfirmed": Meaning(
        "Fewer jobs were submitted than the profile declares, so less of its load counts.",
        "Correct `spec.arrivalsPerHour`.",
    ),
    "NotLimited": Meaning("Money does not limit the job."),
    "NotReady": Meaning("Not all pods are ready.", "The message has the pods' own words."),
    "NoStep": Meaning(
        "The run has not advanced for longer than its pauses so far: as a rule a rank hangs in a collective operation.",
        "Read the logs of all ranks. `spec.stallTimeoutSeconds` says when it starts again (docs/bottlenecks.md).",
    ),
    "NoLimitHolds": Meaning(
        "Nodes were rented when the budget's mode became Observe; the message names them and what they cost an hour.",
        "Set `spec.mode: Enforce`, which uses them or gives them back; `charterer stop --drain` ends all nodes.",
    ),
    "RecordRefuses": Meaning(
        "The place of the record of costs takes nothing; the message says why.",
        "Do what the message says. Nothing is lost: rentals that have ended stay until their cost is on record.",
    ),
    "RecordWritten": Meaning("What rentals cost is put on record."),
    "UsersUnknown": Meaning(
        "Who creates jobs is not known. So shares of users have no jobs, and what they were to have goes to others.",
        "Set the chart's `costRecord.users` to `auto`, on an API server with MutatingAdmissionPolicy; or share by "
        "namespace or label.",
    ),
    "UsersWritten": Meaning("An admission policy writes who creates a job."),
    "NotRequested": Meaning("The job is not to be suspended."),
    "NothingRented": Meaning("The operator was stopped and rents nothing; what runs goes on.", "`charterer resume`."),
    "GpuHoursLeft": Meaning("Of each amount in `spec.gpuHours` enough is left for a run."),
    "GpuHoursUsed": Meaning(
        "An amount of GPU-hours is used up, so that no run holds GPUs of that type.",
        "Raise the amount in `spec.gpuHours`, or wait for the next period. Jobs go on from their checkpoints.",
    ),
    "UnknownGpuType": Meaning(
        "`spec.gpuHours` names a GPU type that no GPUPool has, so that the amount limits nothing.",
        "Correct `gpuType`: the GPUPools say theirs in `status.offering.gpuType`.",
    ),
    "OnCourse": Meaning("The period can end within the amount: the forecast's interval is not above it."),
    "ChecksFailed": Meaning("Something would fail.", "Correct what the message names."),
    "ChecksPassed": Meaning("Nothing would fail, as far as can be seen without renting."),
    "Placed": Meaning("The job has its GPUs."),
    "PoolUnreadable": Meaning(
        "A GPUPool of the set cannot be read, so it is left alone.", "Do what its own condition `Ready` says."
    ),
    "PriceMoved": Meaning(
        "A price moved too far to be believed at once.", "Confirm it as the message says, or set `spec.price.hourly`."
    ),
    "PriceUnlikeOthers": Meaning(
        "A pool's first price is a third or three times of what other nodes with the same GPUs cost.",
        "Look the price up; then confirm it as the message says, or set `spec.price.hourly`.",
    ),
    "PriorityClassUnknown": Meaning(
        "The budget gives no weight to the job's priority class, so the job has weight 1.",
        "Correct `spec.priorityClassName`, or add it to the budget's `spec.weights`.",
    ),
    "ProfileNotFound": Meaning(
        "The job names a SpeedupProfile that does not exist. It runs on its preferred number of GPUs.",
        "Let its jobs report (docs/progress.md), which creates it; or create it, or correct `spec.profileName`.",
    ),
    "VariantContradicts": Meaning(
        "The curves of a variant are in another unit than those of the job, or at numbers of GPUs that it cannot have.",
        "Correct what the message names (docs/capacity/variants.md). Until then the variant is not used.",
    ),
    "RateCurrent": Meaning("`spec.currencyRate` was set within the last 35 days."),
    "RateOfTheFuture": Meaning("The day of the budget's `spec.currencyRate` is still to come.", "Correct `asOf`."),
    "RateStale": Meaning(
        "`spec.currencyRate` was set more than 35 days ago.",
        "Set `spec.currencyRate` anew. Until then the amounts are those of the old rate.",
    ),
    "Readable": Meaning("The profile can be used; nothing was learned yet."),
    "SlowerThanItsClass": Meaning(
        "A step takes longer than on at least five other nodes that ran the class: it is the node, or the job's data.",
        "Delete the GPURental that the message names to get another node.",
    ),
    "SlowerThanPeers": Meaning(
        "A pod computes longer than its peers in nearly all reports of five minutes, and waits less for them.",
        "Nothing, if the job may be resized: it gets another node once that pays. Otherwise delete the GPURental that "
        "the message names (docs/bottlenecks.md).",
    ),
    "Stale": Meaning("A price is older than 15 minutes.", "See the condition `Ready` of the pool that is named."),
    "HourlyLimitTooLow": Meaning(
        "Not one node of the budget's pools fits under `spec.maxHourlyRate`, its own or that of a budget above it.",
        "Raise the one that is named, or add a cheaper pool.",
    ),
    "OutsideGrant": Meaning(
        "The budget's grant (`spec.grant`) has not begun or is over, so nothing is rented.",
        "Create another GPUBudget for the same namespaces, or wait until the grant begins.",
    ),
    "ParentUnknown": Meaning(
        "The limits of the budgets above this one are not known, so nothing new is rented.",
        "Correct `spec.parent`, or the GPUBudget that the condition `Ready` names.",
    ),
    "StatisticsUnreadable": Meaning("What was learned of costs cannot be read and is learned anew."),
    "Steady": Meaning("The job does not change its width."),
    "SuspendRequested": Meaning("`spec.suspend` is true."),
    "TargetMissed": Meaning(
        "`spec.targetCompletionTime` cannot be met, or has passed. The message says when the job ends instead, and "
        "whether the target still counts.",
        "Move the target, widen `spec.gpus` or `spec.gpuTypes`, or raise the budget where the message names it.",
    ),
    "TemplateChanged": Meaning(
        "The template was changed while pods run; they keep the one that they began with.",
        "The next run has the new one; suspend the job and resume it to begin that at once.",
    ),
    "Undecodable": Meaning("The object cannot be read.", "Correct what the message names, or report it as a bug."),
    "UnknownTimeZone": Meaning("`spec.timeZone` is no IANA name.", "Write a name such as Europe/Berlin."),
    "Unspecified": Meaning("The reason in the status was not a word: somebody else wrote it."),
    "WaitsForInput": Meaning(
        "The input pipeline does not keep up with the GPUs.",
        "Start more loader processes, cache what is decoded, or bring the data nearer.",
    ),
    "WaitsForOthers": Meaning(
        "Even the rank that waits least waits for the others in a large part of each step: the network is the limit.",
        "Raise the batch, accumulate gradients, or let the job use fewer and larger nodes.",
    ),
    "ZeroAmount": Meaning(
        "The amount is 0, so nothing can be rented.",
        "Set `spec.amount`, or give the budget nodes that are there anyway (`spec.existing` of a GPUPool).",
    ),
}

CLOUD_REASONS: Final[Mapping[str, Meaning]] = {
    "AtMinSize": Meaning(
        "The cloud's group may not become smaller.", "Lower the group's minimum size: Charterer needs 0."
    ),
    "Busy": Meaning("Another caller is changing the group. It is tried again."),
    "DryRun": Meaning("This operator only logs what it would do (`charterer operator --dry-run`)."),
    "InsufficientCapacity": Meaning("The cloud has no such machine left.", "Add a pool in another zone."),
    "InvalidRequest": Meaning("The pool's spec does not fit the cloud.", "Correct what the message names."),
    "NeverReady": Meaning(
        "A machine was launched and paid for, and its Node was never ready. The pool waits before it asks for more.",
        "Look at the machine's image, network and start-up script: it must join the cluster as a Node.",
    ),
    "NotFound": Meaning("The cloud does not know the group or machine.", "Check the pool's spec."),
    "NotLeading": Meaning("This operator's time as the leader was over, so nothing was sent. The next leader goes on."),
    "OperatorLimit": Meaning(
        "By the clouds' own lists the nodes asked for would pass a limit of the operator, so nothing was asked for.",
        "Find out who starts machines in the pools' groups, or raise the limit (docs/safety.md).",
    ),
    "OutcomeUnknown": Meaning("The cloud did not answer a change. The operator looks before it repeats it."),
    "QuotaExceeded": Meaning("The account may not have more.", "Raise the quota, or lower `spec.maxNodes`."),
    "Stopped": Meaning("A person has stopped the operator, so nothing was asked for.", "`charterer resume`."),
    "StockOut": Meaning("The cloud was out of stock.", "Add a pool in another zone or of another GPU type."),
    "LaunchFailed": Meaning("A launch failed for a cause that the message has.", "Look at the group in the cloud."),
    "Throttled": Meaning("The cloud was asked too often. It is asked again later."),
    "Transient": Meaning("The cloud failed this time. It is asked again."),
    "Unauthorized": Meaning("The credentials are missing or not enough.", "Check the operator's credentials."),
    "UnknownCode": Meaning("The cloud gave an answer that the adapter does not know.", "Please report it."),
    "Unreachable": Meaning("The cloud cannot be reached.", "Check the pool's endpoint and the network."),
    "UnusablePrice": Meaning(
        "The cloud gave a price of zero or less, or of a million dollars an hour, which is none. The last one counts, "
        "if there is one.",
        "Set `spec.price.hourly`, and report it to the cloud.",
    ),
    "WouldTerminate": Meaning("The cloud would choose which machine ends, so nothing was done. It is tried again."),
}
