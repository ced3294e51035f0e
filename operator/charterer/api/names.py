"""Names in the cluster: group, labels, annotations, finalizers, field managers. Each is defined only here."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from charterer.domain import option
from charterer.domain.ids import JobId

# The types of conditions of all kinds.


class ConditionType(StrEnum):
    """The aspect of an object that a condition observes."""

    READY = "Ready"
    WITHIN_BUDGET = "WithinBudget"
    PRICE_DATA_FRESH = "PriceDataFresh"
    DECLARED_LOAD_CONFIRMED = "DeclaredLoadConfirmed"
    OVERLAPS = "Overlaps"
    CURRENCY_RATE_CURRENT = "CurrencyRateCurrent"
    USERS_KNOWN = "UsersKnown"
    WITHIN_GPU_HOURS = "WithinGpuHours"
    LEFT_RUNNING = "LeftRunning"
    COSTS_RECORDED = "CostsRecorded"
    COMMITMENTS_COVERED = "CommitmentsCovered"
    COMMITMENT_KEPT = "CommitmentKept"
    NODES_TAKE_PART = "NodesTakePart"
    STOPPED = "Stopped"
    PRICE_HELD = "PriceHeld"
    SPEED_GUESSED = "SpeedGuessed"
    PREFLIGHT = "Preflight"
    ADMITTED = "Admitted"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    PODS_READY = "PodsReady"
    RESIZING = "Resizing"
    BUDGET_LIMITED = "BudgetLimited"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    ON_TARGET = "OnTarget"
    WITHIN_MAX_COST = "WithinMaxCost"
    WITHIN_QUOTE = "WithinQuote"
    TEMPLATE_CURRENT = "TemplateCurrent"
    SLOW_WORKER = "SlowWorker"
    SLOW_NODE = "SlowNode"
    INPUT_STARVED = "InputStarved"
    SYNC_BOUND = "SyncBound"
    CHECKPOINT_TOO_LONG = "CheckpointTooLong"
    NOT_ADVANCING = "NotAdvancing"
    STALLED = "Stalled"


GROUP: Final = "charterer.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "charterer"
UNSEEN_GENERATION: Final = -1
"""``status.observedGeneration`` of an object whose status nobody has written yet. The API server sets the field to this
value.

With this value, clients that follow kstatus' rules do not consider a new object to be current.
"""

LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_RUN: Final = f"{GROUP}/run"
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_POOL_SET: Final = f"{GROUP}/pool-set"
"""The GPUPoolSet of a GPUPool, as a label for people. Charterer decides by the owner reference."""
LABEL_BUDGET: Final = f"{GROUP}/budget"
LABEL_ORDER: Final = f"{GROUP}/order"
"""The order for which a NodeClaim was created, on the NodeClaim."""
LABEL_RENTAL: Final = f"{GROUP}/rental"
"""The GPURental of a NodeClaim, on the NodeClaim and its Node, for people. It is set if the name is short enough for a
label.
"""
LABEL_CORDONED: Final = f"{GROUP}/cordoned-for"
"""On a Node: the uid of the GPURental for whose end the Node was cordoned. Another machine may later have its name."""
LABEL_PROFILE: Final = f"{GROUP}/profile"
"""On a Job that is not Charterer's: the SpeedupProfile in its namespace that simulates its history."""
LABEL_ADOPT: Final = f"{GROUP}/adopt"
"""On an object such as a Job, with the value ``true``: Charterer adopts the object."""
LABEL_LEARNED: Final = f"{GROUP}/learned"
"""On a SpeedupProfile that Charterer created to remember a class that jobs name."""

ANNOTATION_ALLOCATION: Final = f"{GROUP}/allocation"
ANNOTATION_CA: Final = f"{GROUP}/ca"
"""On pods: the CA certificate of the progress endpoint, which the pods have as a file from here."""

KUEUE_CHECK: Final = "charterer"
"""The name of Kueue's AdmissionCheck that the operator answers."""
KUEUE_CONTROLLER: Final = f"{GROUP}/budget"
"""The controllerName of this AdmissionCheck."""

ANNOTATION_HELD: Final = f"{GROUP}/held"
"""On an adopted object: not its author but the chart's admission policy, or Charterer, suspended it.

The value is ``omitted`` if the author omitted ``suspend``.
"""
ANNOTATION_ORIGINAL: Final = f"{GROUP}/original"
"""On an adopted object that was placed: JSON of the author's values in the fields that Charterer writes."""
ANNOTATION_RESOURCE: Final = f"{GROUP}/resource"
"""On the pod template of an adopted object, and on a TrainJob: the field resource of the object's TrainingJob."""
ANNOTATION_GPUS: Final = f"{GROUP}/gpus"
ANNOTATION_RESIZE: Final = f"{GROUP}/resize"
ANNOTATION_SPOT: Final = f"{GROUP}/spot"
ANNOTATION_MAX_COST: Final = f"{GROUP}/max-cost"
ANNOTATION_COMPLETE_BY: Final = f"{GROUP}/complete-by"
ANNOTATION_SUSPEND: Final = f"{GROUP}/suspend"
"""On an adopted object: the fields gpus, resizePolicy, spotPolicy, maxCost, targetCompletionTime and suspend.

Each annotation sets one of these fields of the object's TrainingJob.
"""
ANNOTATION_WHEN_GIVEN_UP: Final = f"{GROUP}/when-given-up"
"""On an adopted object: its treatment if Charterer gives its job up."""
ANNOTATION_KEPT_RUNNING: Final = f"{GROUP}/kept-running"
"""On a running adopted object: who wrote ``spec.suspend: true``, which the chart's policy reverted."""
ANNOTATION_GIVEN_UP: Final = f"{GROUP}/given-up"
"""On an adopted object that Charterer has ended as failed: the reason."""

ANNOTATION_TEMPLATE: Final = f"{GROUP}/template"
"""On a run's object: the digest of its template."""
ANNOTATION_CONFIRMED_PRICE: Final = f"{GROUP}/confirm-price"
"""On a GPUPool with a held price: the cloud's dollars an hour that a person confirms."""
ANNOTATION_STOP: Final = f"{GROUP}/stop"
"""On the operator's Namespace: nothing is rented while it is set. With the value ``drain`` all nodes are ended."""

ANNOTATION_CREATED_BY: Final = f"{GROUP}/created-by"
"""On a TrainingJob or an adopted object: the user who created it, as the API server knows the user.

An admission policy of the chart writes the annotation.
"""

ANNOTATION_MAX_NODES: Final = f"{GROUP}/max-nodes"
ANNOTATION_MAX_HOURLY: Final = f"{GROUP}/max-dollars-per-hour"
ANNOTATION_NOT_ADOPTED: Final = f"{GROUP}/not-adopted"
"""On the Lease, by the leading operator: its own limits, and the kinds of object that it does not adopt."""

FINALIZER_LEDGER: Final = f"{GROUP}/ledger"
FINALIZER_BILL: Final = f"{GROUP}/bill"
"""On a NodeClaim: keeps the object until Charterer has read how the NodeClaim ended."""
FINALIZER_IN_USE: Final = f"{GROUP}/in-use"

MANAGER_RECORD: Final = "charterer"
"""The server-side apply manager of records: intents, outcomes, money."""
MANAGER_VIEW: Final = "charterer-status"
"""The server-side apply manager of the view: columns and conditions."""

GPU_RESOURCE: Final = option.GPU
AMD_GPU: Final = option.AMD_GPU
GPU_RESOURCES: Final = option.GPU_RESOURCES
PARTS_OF_GPUS: Final = option.PARTS_OF_GPUS
SHARED_GPU: Final = option.SHARED_GPU
MIG_PREFIX: Final = option.MIG_PREFIX
MIG_PROFILE: Final = r"^[1-9]g[.][0-9]{1,3}gb(-me|[.]gfx)?$"
"""A MIG profile as resources name it, such as 1g.10gb, and 1g.24gb-me and 1g.24gb.gfx of RTX PRO GPUs."""
GPU_TYPE_LABEL: Final = "nvidia.com/gpu.product"
AMD_TYPE_LABEL: Final = "amd.com/gpu.product-name"
"""The GPU type by AMD's node labeller (github.com/ROCm/k8s-device-plugin)."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

MOUNT_PATH: Final = f"/var/run/secrets/{GROUP}"
TOKEN_FILE: Final = f"{MOUNT_PATH}/token"
ALLOCATION_FILE: Final = f"{MOUNT_PATH}/allocation"
CA_FILE: Final = f"{MOUNT_PATH}/ca.crt"
TRAINER_STATUS_PATH: Final = "/v1/trainer-status"
"""The path of the progress endpoint for reports in Kubeflow Trainer's protocol."""
RENDEZVOUS_PORT: Final = 29500


def token_audience(job: JobId) -> str:
    """The audience of the tokens with which this job's pods report progress."""
    return f"{GROUP}/tj/{job}"
