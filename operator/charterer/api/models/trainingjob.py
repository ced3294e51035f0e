"""TrainingJob: the spec, its conversion to a domain value, and the kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import (
    MAX_COST_ABOVE_ZERO,
    Mirror,
    Named,
    ObjectName,
    PartOf,
    PrinterColumn,
    ResourceKind,
    Rule,
    SpecAmount,
    SpecHourly,
    Time,
    joined,
    keyed_by,
    ruled,
    rules,
)
from charterer.api.models.trainingjob_status import InteractiveStatus, TrainingJobRecord, TrainingJobStatus
from charterer.api.models.widths import GpuRange, GpuResource, ProfileName, VariantSpec
from charterer.api.names import ANNOTATION_CREATED_BY, GPU_RESOURCES
from charterer.api.node_demands import node_demands
from charterer.api.template import (
    TEMPLATE_SCHEMA,
    digest,
    digest_of_content,
    gpu_resource,
    grace_seconds,
    template_problem,
    trainer_gpus,
    wrong_variables,
)
from charterer.domain.ids import ClassId, JobId
from charterer.domain.interactive import Interactive
from charterer.domain.job import Job, ResizePolicy, SpotPolicy, Widths
from charterer.domain.job_quote import JobQuote
from charterer.domain.node_demands import NO_DEMANDS
from charterer.domain.target import TargetRef

# The additional fields in the spec of an interactive TrainingJob.


class InteractiveSpec(PartOf[Interactive]):
    """How an interactive job, as the worker of a notebook, gets GPUs and gives them back."""

    asks: Annotated[int, Field(ge=0, le=999_999_999)] = 0
    """Number of requests for a GPU. The job gets a GPU while asks is larger than status.interactive.answered. A client
    that needs a GPU raises asks above that number, and sets it back to that number if it no longer needs one."""
    hourly: SpecHourly | None = None
    """Minimum dollars that an hour of the owner's waiting is worth. Absent: as much as an hour of any job of the
    budget."""
    idle_seconds: (
        Annotated[
            float,
            Field(
                ge=0,
                le=2_592_000,
                json_schema_extra=rules(
                    Rule(
                        "self > 0.0",
                        "interactive.idleSeconds must be more than 0: leave it out to hold GPUs as long as that pays",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """Seconds without a cell after which the GPUs are given back. Absent: they are given back once holding them longer
    costs more than waiting for the next ones, as measured."""

    def to_domain(self, record: InteractiveStatus | None) -> Interactive:
        """The interactive part of a job, from its spec and record."""
        return joined(Interactive, self, InteractiveStatus() if record is None else record)


# The adopted object that a TrainingJob represents.


_Word = Annotated[str, Field(min_length=1, max_length=253)]


class TargetRefSpec(Mirror[TargetRef]):
    """An object of the job's namespace that Charterer runs in place, instead of runs made of the job's template."""

    api_version: _Word
    """Group and version of its kind, such as batch/v1."""
    kind: _Word
    """Kind of the object, such as Job."""
    name: _Word
    """Its name."""
    uid: _Word
    """UID of the object. An object of the same name that is created later is another object."""
    queued: bool = False
    """True if it waits in a queue of Kueue, which starts and stops it."""
    sized: bool = False
    """True if it waits in a queue and has the annotation charterer.dev/gpus, so that Charterer chooses its width."""


# The quote of cost and end that the owner got before the job was submitted.


class QuoteSpec(Mirror[JobQuote]):
    """The answer of `charterer quote` before the job was submitted: ranges that hold in nine of ten cases."""

    model_config = ruled(
        Rule(
            "has(self.endLow) == has(self.endHigh)",
            "endLow and endHigh belong together: a quote names both, or none where nobody knows when the job starts",
        ),
    )

    at: Time
    """When the quote was made."""
    cost_low: SpecAmount
    """Dollars that the job costs at least, as status.cost counts them."""
    cost_high: SpecAmount
    """Dollars that it costs at most."""
    end_low: Time | None = None
    """When the job ends at the earliest. Absent: nobody knew when it would start."""
    end_high: Time | None = None
    """When it ends at the latest."""


class ToldBottleneck(NamedTuple):
    """The reason and message of a bottleneck's condition; ``kind``: the condition's type."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class DecodedJob:
    """A TrainingJob and the names in it that only a join can resolve.

    In ``job``, ``budget`` is None, ``weight`` 1, ``remaining`` None, ``runs`` empty and ``has_service`` False until
    they are joined. ``template_verdict`` is from the conditions: why the template of this generation was refused, empty
    if it was accepted, None if it is unknown. ``variables``: misleading variables in the trainer's environment.
    ``held_up``: the bottlenecks of its run in the conditions. ``not_starting``: why its run does not start, by the
    condition PodsReady; empty if that gives no reason.
    """

    job: Job
    priority_class: str
    profile_name: str
    template_verdict: str | None = None
    variables: str = ""
    held_up: tuple[ToldBottleneck, ...] = ()
    not_starting: str = ""


_RESOURCES: Final = f"({list(GPU_RESOURCES)} + (has(self.resource) ? [self.resource] : []))"
"""The resources that are GPUs in a job's template, in CEL."""


class TrainingJobSpec(PartOf[Job]):
    """The job as its owner wants it to run."""

    APART = frozenset(
        (
            *("gpus", "resource", "template", "profile_name", "priority_class_name", "interactive", "variants"),
            *("ready_timeout_seconds", "stall_timeout_seconds", "target_ref"),
        )
    )

    model_config = ruled(
        Rule(
            "has(self.gpus) || (has(self.template.spec.containers[0].resources) && "
            "has(self.template.spec.containers[0].resources.limits) && "
            f"{_RESOURCES}.exists(gpu, gpu in self.template.spec.containers[0].resources.limits))",
            "say how many GPUs: set spec.gpus, or nvidia.com/gpu or the like in the first container's resources.limits",
        ),
        Rule(
            "has(self.targetRef) || !has(self.gpus) || !has(self.template.spec.containers[0].resources) || "
            "!has(self.template.spec.containers[0].resources.limits) || "
            f"{_RESOURCES}.all(gpu, !(gpu in self.template.spec.containers[0].resources.limits) || (self.gpus.min == "
            "self.gpus.max && string(self.template.spec.containers[0].resources.limits[gpu]) == "
            "string(self.gpus.min)))",
            "spec.gpus and the GPUs in the first container's resources.limits disagree: leave those out, and set "
            "spec.resource if they are not nvidia.com/gpu, since each run's pods get the GPUs that spec.gpus allows",
        ),
        MAX_COST_ABOVE_ZERO,
        Rule(
            "has(self.interactive) == has(oldSelf.interactive)",
            "interactive can neither be added to a job nor taken from it: create another job",
        ),
        Rule(
            "!has(self.interactive) || !has(self.targetCompletionTime)",
            "an interactive job has no end: leave targetCompletionTime or interactive out",
        ),
        Rule(
            "!has(self.variants) || size(self.variants) == 0 || (has(self.profileName) && !has(self.interactive))",
            "variants need a profileName, under which their speeds are compared, and an interactive job has none: set "
            "profileName, or leave variants out",
        ),
        Rule(
            "has(self.targetRef) == has(oldSelf.targetRef) && (!has(self.targetRef) || self.targetRef == "
            "oldSelf.targetRef)",
            "targetRef cannot be changed: Charterer makes a TrainingJob for each object that it adopts",
        ),
        Rule(
            "!has(self.quote) || (has(oldSelf.quote) && self.quote == oldSelf.quote)",
            "quote is what was said before the job was submitted: it can be taken away, and neither added nor changed",
            ".quote",
        ),
    )

    gpus: GpuRange | None = None
    """The numbers of GPUs that the job can use. Absent: exactly those in the limits of the template's first
    container, such as nvidia.com/gpu."""
    resource: GpuResource | None = None
    """Name of the job's GPUs in a node's resources, such as amd.com/gpu. The job runs in pools with the same
    spec.resource. Absent: the one in the limits of the template's first container, otherwise nvidia.com/gpu."""
    resize_policy: Annotated[ResizePolicy, Named("resize")] = ResizePolicy.NEVER
    """How the number of GPUs may change while the job runs. Never: it does not change (for jobs without checkpoints).
    Restart: the job is stopped with SIGTERM and continues from its checkpoint. InPlace: pods are added and removed
    while the job runs."""
    template: Annotated[dict[str, Any], Field(json_schema_extra=TEMPLATE_SCHEMA)]
    """The pod template. The first container is the trainer: it gets the GPUs and the environment variables that
    torchrun reads. A trainer that is stopped must exit with 143, never with 0. A change takes effect with the job's
    next run. nodeName, schedulerName, resourceClaims, a priorityClassName that begins with system- and GPUs in other
    containers are refused. A user who writes a template needs the right to create pods."""
    profile_name: ProfileName | None = None
    """Name of the SpeedupProfile, in the same namespace, that describes the class of this job. Charterer creates it
    when the jobs report their speed. Absent: nothing is learned of the job's speed."""
    gpu_types: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """GPU types that the job can run on, as in the node label nvidia.com/gpu.product or amd.com/gpu.product-name.
    Absent: any."""
    spot_policy: Annotated[SpotPolicy, Named("spot")] = SpotPolicy.NEVER
    """Whether the job may run on spot nodes, which the cloud can take back: Never or Allowed."""
    priority_class_name: ObjectName | None = None
    """Name of a priority class, to which the budget may give a weight. The priority class is not set on the pods."""
    suspend: bool = False
    """True stops the job, with its grace period for a checkpoint, and keeps it from starting."""
    backoff_limit: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    """Number of times the job may fail by its own fault before it is marked Failed."""
    max_restarts: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    """Number of times the job may be interrupted, by lost nodes for instance, before it is marked Failed."""
    stall_timeout_seconds: Annotated[int, Field(ge=0, le=2_592_000)] | None = None
    """Seconds without a step after which a run is stopped although its pods live, if the job reports steps. The job
    continues from its checkpoint. Such runs count against maxRestarts. 0: never. Absent: half an hour, or twenty times
    its longest pause if that is longer, and twice as long after each run that stalled. Absent with resizePolicy Never:
    the run is not stopped, and a condition informs its owner."""
    ready_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Seconds within which all pods of a run must be running. The time starts again if the controller of an adopted
    object recreates lost pods. If the time passes, the run is withdrawn, its nodes are given back, and the job backs
    off for a while. If a run can never start, such as without its image, it is withdrawn after 20 seconds. After three
    such runs in a row the job fails with CannotStart."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2_147_483_647)] | None = None
    """Seconds after its end at which the job is deleted. Absent: never."""
    max_cost: SpecAmount | None = None
    """Maximum dollars that the job may cost, as status.cost counts them. Absent: that of its GPUBudget's jobDefaults,
    if it has one, otherwise no maximum but the budget. The cost of a job is its share of the nodes that it runs on,
    from the time it is given them until its pods have left them, over all runs, at the price with which each run began.
    Restarts and grace periods count; the time in which nodes start or stand idle does not. Options that are expected to
    cost more are not used, and the job is stopped, with its grace period, before it costs more. The job then waits with
    the reason MaxCost, and continues from its checkpoint when maxCost is raised. maxCost takes precedence over
    targetCompletionTime."""
    target_completion_time: Annotated[Time | None, Named("target_completion")] = None
    """When the job should be complete. The job is given the GPUs that this takes, as far as the budget allows, before
    the rest of the budget is shared. After that time the job is treated like any other."""
    quote: QuoteSpec | None = None
    """The answer of `charterer quote` before the job was submitted. Planning ignores it. At the job's end the condition
    WithinQuote compares the job with it. Absent: there was no quote."""
    interactive: InteractiveSpec | None = None
    """Makes the job interactive: it gets GPUs on request and gives them back if they are not used. Its pods are the
    worker that computes. The worker's process ends with each session, and the job is never moved during one. Absent:
    the job runs to its end."""
    variants: Annotated[tuple[VariantSpec, ...], Field(max_length=4, json_schema_extra=keyed_by("name"))] = ()
    """Other ways to do the same training. Charterer chooses one of them, or the template as it stands, together with
    the number of GPUs. A job that changes to another one is restarted, and has to go on from the same checkpoint. The
    speeds of variants are compared in samples a second, and progress must be reported as a fraction of the job. A user
    who writes variants needs the right to create pods."""
    target_ref: TargetRefSpec | None = None
    """The object, such as a Job with the label charterer.dev/adopt, that is held, placed, started and stopped for this
    job. Charterer makes such a TrainingJob itself, with the object's own pod template. Absent: runs are made of the
    template."""

    def to_domain(self, meta: ObjectMeta, record: TrainingJobRecord) -> DecodedJob:
        """The job. A fault of its template becomes ``Job.invalid``, so that its runs stay known."""
        pod_gpus, problem = trainer_gpus(self.template, self.resource or ""), self._problem()
        least, refusal = max(pod_gpus, 1), problem
        if record.invalid is not None and record.invalid.generation == meta.generation:
            refusal = record.invalid.message
        class_id = ClassId(meta.namespace, self.profile_name) if self.profile_name else ClassId.of_job(JobId(meta.uid))
        widths = Widths(least, least, least) if self.gpus is None else self.gpus.to_domain()
        if self.target_ref is not None:
            widths = replace(widths, each=pod_gpus)
        job = joined(
            Job,
            meta,
            self,
            record,
            id=JobId(meta.uid),
            budget=None,
            class_id=class_id,
            weight=1.0,
            widths=widths,
            ready_timeout_seconds=float(self.ready_timeout_seconds),
            stall_timeout_seconds=None if self.stall_timeout_seconds is None else float(self.stall_timeout_seconds),
            grace_seconds=grace_seconds(self.template),
            pod_gpus=pod_gpus,
            remaining=None,
            progress=record.last_report(),
            invalid=refusal,
            runs=(),
            template="" if problem else (digest if self.target_ref is None else digest_of_content)(self.template),
            interactive=None if self.interactive is None else self.interactive.to_domain(record.interactive),
            variants=tuple([variant.to_domain(class_id, widths) for variant in self.variants]),
            user=meta.annotations.get(ANNOTATION_CREATED_BY, ""),
            target=None if self.target_ref is None else self.target_ref.to_domain(),
            demands=NO_DEMANDS if problem else node_demands(self.template, self._resource),
        )
        variables = "" if problem else self._variables()
        return DecodedJob(job, self.priority_class_name or "", self.profile_name or "", variables=variables)

    def _variables(self) -> str:
        """Faults of the variables. Charterer sets no variables in an adopted object's pods."""
        in_place = None if self.target_ref is not None else self.resize_policy is ResizePolicy.IN_PLACE
        return wrong_variables(self.template, [each.name for item in self.variants for each in item.env], in_place)

    @property
    def _resource(self) -> str:
        """The extended resource of the job's GPUs."""
        return self.resource or gpu_resource(self.template)

    def _problem(self) -> str:
        """Why the job cannot run as it is written; empty if it can."""
        said = self.resource or ""
        problem, pod_gpus = template_problem(self.template, said), trainer_gpus(self.template, said)
        where = f"{self._resource} in the limits of spec.template.spec.containers[0]"
        if problem:
            return problem
        if pod_gpus and self._resource != (named := gpu_resource(self.template, said)):
            return f"spec.resource is {self._resource}, and its first container asks for {named}: leave one of them out"
        if self.target_ref is not None and self.gpus is not None:
            return "" if pod_gpus else f"no GPUs: {where} must be at least 1"
        if self.gpus is None:
            return "" if pod_gpus >= 1 else f"no GPUs: set spec.gpus, or {where}, to at least 1"
        if pod_gpus and not self.gpus.min == self.gpus.max == pod_gpus:
            return (
                f"{where} is {pod_gpus}, and spec.gpus says {self.gpus.min} to {self.gpus.max}: leave {self._resource} "
                "out, since each run's pods get the GPUs that spec.gpus allows"
            )
        return ""


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
        PrinterColumn("Want", ".status.wantGpus", "integer", description="GPUs that it should have"),
        PrinterColumn("Pool", ".status.pool"),
        PrinterColumn("Progress%", ".status.progressPercent", "integer", description="Percent done"),
        PrinterColumn("ETA", ".status.eta", description="When it is expected to end"),
        PrinterColumn("Cost($)", ".status.cost", description="Dollars so far"),
        PrinterColumn("Why", ".status.why"),
        PrinterColumn("Run", ".status.allocation.run", "integer", wide=True),
        PrinterColumn("Budget", ".status.budget", wide=True),
        PrinterColumn("Target", '.status.conditions[?(@.type=="OnTarget")].reason', wide=True),
        PrinterColumn("Profile", ".spec.profileName", wide=True),
        PrinterColumn(
            "Created-By", f".metadata.annotations.{ANNOTATION_CREATED_BY.replace('.', chr(92) + '.')}", wide=True
        ),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
    selectable=(".status.state", ".status.why", ".status.pool", ".status.budget", ".spec.profileName"),
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
