"""TrainingJob: what its owner asks for, what was intended for it, what has happened to it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from charterer.api.models.base import (
    ATOMIC,
    Amount,
    ApiModel,
    Conditions,
    Hourly,
    Json,
    ObjectName,
    PrinterColumn,
    ResourceKind,
    Rule,
    Time,
    ruled,
)
from charterer.domain.job import FinishKind, ResizePolicy, RunOutcome, SpotPolicy

MOVES_KEPT = 10_000
"""As many as maxPerJobPerDay may be at most."""
RUNS_KEPT: Final = 200
"""How many ended runs stay in the status; older ones are forgotten."""

_Gpus = Annotated[int, Field(ge=1, le=100_000)]

_LIMITS: Json = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}, "maxProperties": 64}
_CONTAINER: Json = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 63},
        "resources": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"limits": _LIMITS},
        },
    },
}
_TEMPLATE: Json = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 32,
                    "items": _CONTAINER,
                }
            },
        }
    },
}


class GpuRange(ApiModel):
    """How many GPUs the job can use."""

    model_config = ruled(
        Rule("self.min <= self.max", "gpus.min must not exceed gpus.max"),
        Rule(
            "!has(self.preferred) || (self.min <= self.preferred && self.preferred <= self.max)",
            "gpus.preferred must lie between gpus.min and gpus.max",
        ),
    )

    min: _Gpus
    """Fewer do not suffice."""
    preferred: _Gpus | None = None
    """The number to use while nothing is known of the job's speed; min where it is absent."""
    max: _Gpus
    """More are of no use."""


class TrainingJobSpec(ApiModel):
    """What the owner asks for."""

    model_config = ruled(
        Rule(
            "has(self.gpus) || (has(self.template.spec.containers[0].resources) && "
            "has(self.template.spec.containers[0].resources.limits) && "
            "'nvidia.com/gpu' in self.template.spec.containers[0].resources.limits)",
            "say how many GPUs: set spec.gpus, or nvidia.com/gpu in the first container's resources.limits",
        ),
        Rule(
            "!has(self.maxCost) || quantity(self.maxCost).compareTo(quantity('0')) > 0",
            "maxCost must be more than 0: a job that may cost nothing can never run",
            ".maxCost",
        ),
    )

    gpus: GpuRange | None = None
    """The numbers of GPUs the job can use. Absent: exactly the nvidia.com/gpu of the template's first container."""
    resize_policy: ResizePolicy = ResizePolicy.NEVER
    """How the number of GPUs may change once the job runs. Never: it keeps what it got (without checkpoints work would
    be lost). Restart: it is stopped with SIGTERM, and goes on from its checkpoint. InPlace: pods come and go while it
    runs."""
    template: Annotated[dict[str, Any], Field(json_schema_extra=_TEMPLATE)]
    """The pod template. The first container is the trainer: it gets the GPUs, and environment variables that torchrun
    reads. A trainer that is stopped must exit with 143, never 0. A change takes effect with the job's next run."""
    profile_name: ObjectName | None = None
    """The SpeedupProfile, in the same namespace, of the class this job belongs to."""
    gpu_types: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """GPU types the job can run on, as in the node label nvidia.com/gpu.product; absent: any."""
    spot_policy: SpotPolicy = SpotPolicy.NEVER
    """Whether the job may run on nodes that the cloud can take back."""
    priority_class_name: ObjectName | None = None
    """How much the job counts, by the weights of its budget. It is not put on the pods."""
    suspend: bool = False
    """Stops the job (with its checkpoint grace) and keeps it from starting."""
    backoff_limit: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    """How often the job may fail by its own fault before it is given up."""
    max_restarts: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    """How often the job may be interrupted, by lost nodes for instance, before it is given up."""
    ready_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Seconds in which all pods of a run must be running, or the run is withdrawn."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    """Seconds after its end at which the job is deleted; absent: never."""
    max_cost: Amount | None = None
    """Dollars that the job may cost at most, as the column Cost counts them; absent: whatever its budget pays for. It
    costs its share of the nodes it runs on, from when it is given them until its pods have left them: over all runs,
    with restarts and grace, at the price that each began with, but not the time in which nodes start or stand idle.
    Ways to run it that are expected to cost more are not taken, and it is stopped, with its grace, before it costs
    more: it waits with Why MaxCost, and goes on from its checkpoint once maxCost is raised. It wins over
    targetCompletionTime."""
    target_completion_time: Time | None = None
    """When the job should be done. It is then given what that takes, as far as the budget allows, before the rest is
    shared out. Once it has passed the job is treated like any other."""


class OptionStatus(ApiModel):
    """One way to run the job."""

    pool: ObjectName
    """The GPUPool."""
    gpus: int
    """The number of GPUs."""
    speed: float
    """Units of work a second; 1 on the class's reference."""
    hourly: Hourly
    """Dollars an hour: the GPUs' share of their nodes."""
    entry_seconds: float = 0
    """Seconds that getting there costs once."""
    entry_cost: Amount | None = None
    """Dollars that getting there costs once."""
    variant: Annotated[str, Field(max_length=253)] = ""
    """Which of several ways to run with the same GPUs."""
    trial: bool = False
    """Whether it was taken to learn how fast the class is there, paid from the budget's explorationPercent."""


class PlacementStatus(ApiModel):
    """One pod's place."""

    rental: ObjectName
    """The GPURental."""
    gpus: int
    """GPUs of its node."""


_Placements = Annotated[tuple[PlacementStatus, ...], Field(max_length=10_000, json_schema_extra=ATOMIC)]


class AllocationStatus(ApiModel):
    """The intent: a run, how, and on which nodes."""

    run: int
    """The number of the run."""
    option: OptionStatus
    """How it runs."""
    placements: _Placements
    """One pod each, in the order of their index."""
    since: Time
    """When it was decided."""


class RunStatus(ApiModel):
    """A run that has ended."""

    number: int
    """The number of the run."""
    outcome: RunOutcome
    """Complete, Failed (the job's own fault), Interrupted (a lost node, for instance), Stopped (by Charterer)."""
    option: OptionStatus
    """How it ran."""
    placements: _Placements
    """Where it ran."""
    since: Time
    """When it was decided."""
    until: Time
    """When it had ended."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """What is known of its end."""
    cost: Amount | None = None
    """Dollars that its GPUs cost."""


class FinishStatus(ApiModel):
    """How the job ended for good."""

    kind: FinishKind
    """Complete or Failed."""
    at: Time
    """When."""
    reason: Annotated[str, Field(max_length=128)]
    """Why, in one word."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why, in a sentence."""


class InvalidStatus(ApiModel):
    """Why the job cannot be run as it is written."""

    generation: int
    """The generation that was refused; a later one is tried again."""
    message: Annotated[str, Field(max_length=4096)]
    """What to change."""


class ProgressStatus(ApiModel):
    """The last report of the job's pods."""

    run: int
    """The run that reported."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """The part that is done, from 0 to 1."""
    step: int | None = None
    """Steps done."""
    throughput: float | None = None
    """In the job's own unit."""
    at: Time
    """When it was reported."""


class TrainingJobRecord(ApiModel):
    """Intents and outcomes: what must survive a restart."""

    allocation: AllocationStatus | None = None
    """What is intended for the job now; absent while it waits."""
    replaced: Annotated[tuple[AllocationStatus, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Earlier intents whose runs have not ended yet, or whose end is not recorded yet."""
    last_run: int = 0
    """The highest run number ever used."""
    runs: Annotated[tuple[RunStatus, ...], Field(max_length=RUNS_KEPT, json_schema_extra=ATOMIC)] = ()
    """Runs that have ended, oldest first: the latest ones."""
    earlier_cost: Amount | None = None
    """Dollars that runs have cost which are no longer listed."""
    failures: int = 0
    """Runs that failed by the job's own fault."""
    restarts: int = 0
    """Runs that were interrupted."""
    finish: FinishStatus | None = None
    """How the job ended; nothing is started after it."""
    invalid: InvalidStatus | None = None
    """Why the job cannot be run as it is written."""
    progress: ProgressStatus | None = None
    """The last report of the job's pods."""
    predicted: Amount | None = None
    """Dollars that the job was expected to cost when it was first given GPUs."""
    moves: Annotated[tuple[Time, ...], Field(max_length=MOVES_KEPT, json_schema_extra=ATOMIC)] = ()
    """When it was resized because that paid, in the 24 hours before the last time."""


class TrainingJobView(ApiModel):
    """What Charterer thinks of the job now."""

    observed_generation: int | None = None
    """The generation of the spec that the rest was judged by."""
    state: str | None = None
    """One word for the state column."""
    gpus: int | None = None
    """GPUs that the job has."""
    want_gpus: int | None = None
    """GPUs that it is worth giving it at the budget's exchange rate."""
    pool: str | None = None
    """The pool it runs in."""
    progress_percent: int | None = None
    """Percent done."""
    eta: Time | None = None
    """When it is expected to end, to the minute."""
    cost: Amount | None = None
    """Dollars that its GPUs have cost so far."""
    why: str | None = None
    """Why it has what it has, in one word."""
    conditions: Conditions = ()
    """Admitted, CapacityAvailable, PodsReady, Resizing, BudgetLimited, Complete, Failed, Suspended."""


class TrainingJobStatus(TrainingJobView, TrainingJobRecord):
    """What is intended for the job, what has happened to it, and what Charterer thinks of it."""


TRAINING_JOB = ResourceKind(
    kind="TrainingJob",
    plural="trainingjobs",
    short="tj",
    namespaced=True,
    description="A training job that can run on different numbers of GPUs. Its namespace's budget pays for them.",
    spec=TrainingJobSpec,
    status=TrainingJobStatus,
    columns=(
        PrinterColumn("State", ".status.state"),
        PrinterColumn("GPUs", ".status.gpus", "integer"),
        PrinterColumn("Want", ".status.wantGpus", "integer", description="GPUs it is worth giving it"),
        PrinterColumn("Pool", ".status.pool"),
        PrinterColumn("Progress", ".status.progressPercent", "integer", description="Percent done"),
        PrinterColumn("ETA", ".status.eta", description="When it is expected to end"),
        PrinterColumn("Cost", ".status.cost", description="Dollars so far"),
        PrinterColumn("Why", ".status.why"),
        PrinterColumn("Run", ".status.allocation.run", "integer", wide=True),
        PrinterColumn("Profile", ".spec.profileName", wide=True),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    root_rules=(
        Rule(
            "size(self.metadata.name) <= 45",
            "metadata.name must have at most 45 characters: runs and pods add to it",
        ),
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must begin with a letter and contain only lower-case letters, digits and '-': "
            "it becomes the name of a Service",
        ),
    ),
)
