"""TrainingJob.status: the record of intents and outcomes, and the view of the job's present state."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field

from charterer.api.models.base import (
    ATOMIC,
    MESSAGE_LIMIT,
    Absent,
    Amount,
    ApiModel,
    Cents,
    Conditions,
    Hourly,
    HourlyCents,
    Message,
    Minute,
    Mirror,
    Named,
    ObjectName,
    PartOf,
    Time,
    dump,
    joined,
    shortened_to,
    stored_bytes,
)
from charterer.api.names import GPU_RESOURCE
from charterer.api.template import MOST_GPUS
from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import (
    Allocation,
    Finish,
    FinishKind,
    Job,
    Placement,
    RunOutcome,
    RunRecord,
    Stretch,
    TrainingGroup,
)
from charterer.domain.money import ZERO, total
from charterer.domain.option import MOST_PODS, Option
from charterer.domain.pool import CapacityType
from charterer.domain.reports import Progress

# TrainingJob.status.options: the compared ways to run a job.


OPTIONS_SHOWN: Final = 8
"""Number of options in a status: as many as a person compares."""
MOST_SECONDS: Final = 10**12
"""The longest written time in seconds."""


class ComparedOption(ApiModel):
    """One way to run the job from now to its end, or a pool without a way to run it."""

    pool: ObjectName
    """Name of the GPUPool."""
    gpu_type: Annotated[str, Field(max_length=253)] | None = None
    """GPU type of the pool's nodes."""
    capacity_type: CapacityType | None = None
    """OnDemand or Spot."""
    gpus: Annotated[int, Field(ge=1, le=MOST_GPUS)] | None = None
    """Number of GPUs; absent if the pool has no option for the job."""
    variant: Annotated[str, Field(max_length=32)] | None = None
    """Name of the job's variant. Absent: the template as it stands."""
    hourly: HourlyCents | None = None
    """Dollars an hour: the GPUs' share of the price of their nodes."""
    seconds_left: Annotated[int, Field(ge=0, le=MOST_SECONDS)] | None = None
    """Seconds from now to the job's end, including the change to this option."""
    cost_left: Cents | None = None
    """Dollars from now to the job's end, including the change to this option. While few jobs are in sight, these
    dollars include the GPUs of its nodes that stay empty."""
    per_hour_saved: Cents | None = None
    """Dollars for each hour that the option saves over the chosen option, or that the chosen option saves over this
    one."""
    verdict: Annotated[str, Field(max_length=64)]
    """The comparison at the budget's exchange rate: chosen, as good, better, too dear, too slow, or slower and dearer.
    Ruled out: the job may not have it."""
    nodes: Annotated[str, Field(max_length=64)] | None = None
    """The source of the option's nodes, or why they are not available now."""
    message: Message = ""
    """Why the job has the chosen option, or what rules an option out."""


# The GPUs that are intended for a job, the pods that train together on them, and the time on former widths.


REASON_BYTES: Final = 1_024
"""Maximum bytes of the reason for a run's GPUs, and of the description of its end."""

_Brief = Annotated[str, Field(max_length=MESSAGE_LIMIT), BeforeValidator(shortened_to(REASON_BYTES))]
RunNumber = Annotated[int, Field(ge=0, le=999_999_999)]
_Gpus = Annotated[int, Field(ge=1, le=MOST_GPUS)]


class OptionStatus(Mirror[Option]):
    """One way to run the job."""

    APART = frozenset(("interruptions", "paid"))

    pool: ObjectName
    """Name of the GPUPool."""
    gpus: _Gpus
    """Number of GPUs."""
    speed: Annotated[float, Field(ge=1e-30, le=9e18)]
    """Work per second, relative to the reference of the job's SpeedupProfile, which has speed 1."""
    hourly: Annotated[Hourly, Named("price")]
    """Dollars per hour: the GPUs' share of the price of their nodes."""
    entry_seconds: Annotated[float, Field(ge=0, le=1e12)] = 0
    """Seconds without training that changing to this option costs, once."""
    entry_cost: Annotated[Amount | None, Absent(ZERO)] = None
    """Dollars that changing to this option costs, once."""
    resource: Annotated[str, Field(max_length=253)] = GPU_RESOURCE
    """Name of the GPUs in a pod's resources."""
    slice: Annotated[str, Field(max_length=16)] = ""
    """MIG profile of the slice that the job has instead of a GPU; shared-2 or mps-2: a GPU that two jobs use at once.
    Absent: whole GPUs."""
    trial: bool = False
    """True if the option was chosen to measure the job's speed there, paid from the budget's explorationPercent."""
    variant: Annotated[str, Field(max_length=32)] = ""
    """Name of the job's variant. Absent: the template as it stands."""
    empty: Annotated[int, Field(ge=0)] = 0
    """Number of GPUs of its nodes that stay empty because its pods do not fill the nodes. The price of these GPUs is
    part of hourly."""


class PlacementStatus(Mirror[Placement]):
    """The place of one pod."""

    rental: ObjectName
    """Name of the GPURental whose node the pod runs on."""
    gpus: _Gpus
    """Number of GPUs of that node that the pod uses."""
    empty: Annotated[int, Field(ge=0)] = 0
    """Number of GPUs of that node that stay empty, because nothing else fits beside the job's pods."""


Placements = Annotated[tuple[PlacementStatus, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)]


class AllocationStatus(Mirror[Allocation]):
    """The GPUs that are intended for the job: for which run, in which way, and on which nodes."""

    run: RunNumber
    """Number of the run."""
    option: OptionStatus
    """Pool, number of GPUs, speed and price."""
    placements: Annotated[Placements, Field(min_length=1)]
    """The place of each pod, in the order of the pods' indices."""
    since: Time
    """When this was decided."""
    because: _Brief = ""
    """Why this was decided."""
    withdrawn_because: Message = ""
    """Why the run was given up before all its pods ran."""
    stalled_because: Message = ""
    """Why the run was given up because it did not advance any more."""
    stopped_because: _Brief = ""
    """Why the run was stopped for another reason, if no run follows it at once."""
    begun: bool = False
    """True once Kueue was told to start the run, if the job represents an object in a queue."""


_Index = Annotated[int, Field(ge=0, le=MOST_PODS - 1)]
_Uid = Annotated[str, Field(max_length=8)]


class GroupStatus(Mirror[TrainingGroup]):
    """The pods that should train together, in a run that is resized in place."""

    run: RunNumber
    """Number of the run."""
    generation: Annotated[int, Field(ge=1, le=999_999_999)]
    """Number of this group: 1 for a run's first, one more for each change."""
    indexes: Annotated[tuple[_Index, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)]
    """Indexes of the pods."""
    uids: Annotated[tuple[_Uid, ...], Field(max_length=MOST_PODS, json_schema_extra=ATOMIC)] = ()
    """First characters of the pods' uids, in the same order. Absent before the first group trains."""
    since: Time
    """When this group was requested."""
    by: Time
    """The time by which the group must have formed. Otherwise the change is withdrawn, or the run is restarted."""
    formed: RunNumber = 0
    """Number of the group in which the run's leader last reported training; 0 before its first report."""
    reports: bool = False
    """True once the job's trainer has named the group that it trains in."""
    withdrawn: RunNumber = 0
    """Number of times in a row that added pods did not join in time."""
    withdrawn_at: Time | None = None
    """When added pods last did not join in time. The job is not widened again for a while."""


class StretchStatus(Mirror[Stretch]):
    """How long runs had a width before they were resized in place."""

    option: OptionStatus
    """Pool, number of GPUs, speed and price."""
    seconds: Annotated[float, Field(ge=0, le=1e12)]
    """Seconds, in all runs together."""


MOVES_KEPT: Final = 1_000
"""Number of resizes in a status: the largest maxPerJobPerDay."""
MOST_STRETCHES: Final = 100
"""Number of widths in a status with the time that runs had them. The oldest are dropped first."""
RUNS_KEPT: Final = 50
"""Maximum number of ended runs in a status. The oldest are dropped first."""
RUNS_BYTES: Final = 128 * 1024
"""Maximum bytes of the ended runs in a status. With fewer runs, more places and longer messages fit."""
INVALID_TEMPLATE: Final = "InvalidTemplate"
"""The reason of the condition Admitted if the job's template was refused."""
MISLEADING_VARIABLES: Final = "MisleadingVariables"
"""The reason of the condition Admitted if the job's template sets variables that others set."""


_Count = Annotated[int, Field(ge=0, le=999_999_999)]


class RunStatus(Mirror[RunRecord]):
    """A run that has ended."""

    number: _Count
    """Number of the run."""
    outcome: RunOutcome
    """How the run ended. Complete: the job is done. Failed: by the job's own fault. Interrupted: by a lost node, for
    instance. Stopped: by Charterer. NotStarted: by Charterer, because not all its pods ran in time. Stalled: by
    Charterer, because it did not advance any more."""
    option: OptionStatus
    """Pool, number of GPUs, speed and price."""
    placements: Placements = ()
    """The place of each pod, in the order of the pods' indices. Absent for older runs of many pods."""
    since: Time
    """When the run was decided on."""
    until: Time
    """When the run ended."""
    because: _Brief = ""
    """Why the run was given its last GPUs, as a sentence."""
    message: _Brief = ""
    """How and why the run ended, as a sentence."""
    cost: Amount | None = None
    """Dollars that the run's GPUs cost."""
    generation: int | None = None
    """The metadata.generation of the job when the end was recorded. A job that was changed since then does not back
    off."""


def _kept_runs(records: Sequence[RunRecord]) -> tuple[RunStatus, ...]:
    """The latest runs, oldest first, within ``RUNS_BYTES``. The latest ones have their places, within half of that."""
    kept: list[RunStatus] = []
    left = RUNS_BYTES
    for record in reversed(records[-RUNS_KEPT:]):
        run = RunStatus.from_domain(record)
        size = stored_bytes(dump(run))
        if size > left - RUNS_BYTES // 2:
            run = run.model_copy(update={"placements": ()})
            size = stored_bytes(dump(run))
        if size > left:
            break
        kept.append(run)
        left -= size
    return tuple(reversed(kept))


class FinishStatus(Mirror[Finish]):
    """The end of the job. Nothing is started for the job after it."""

    kind: FinishKind
    """Complete or Failed."""
    at: Time
    """When the job ended."""
    reason: Annotated[str, Field(max_length=128)]
    """The reason, as one CamelCase word."""
    message: Message = ""
    """The reason, as a sentence."""


class InvalidStatus(ApiModel):
    """Why the job's template was refused."""

    generation: int
    """The metadata.generation that was refused. A later one is tried again."""
    message: Message
    """The fault, and the change that corrects it."""


class ProgressStatus(Mirror[Progress]):
    """The last progress report of the job's pods."""

    APART = frozenset(("usage", "advanced", "longest_pause", "advances"))

    run: int
    """Number of the run that reported."""
    fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fraction of the job's work that is done, from 0 to 1."""
    step: int | None = None
    """Number of training steps done."""
    throughput: float | None = None
    """Throughput in the job's own unit."""
    at: Time
    """When the report came."""
    generation: Annotated[int, Field(ge=1, le=999_999_999)] | None = None
    """Number of the group in which the pods train. Absent if the trainer reports no group."""
    busy: bool | None = None
    """Whether a cell ran on the GPUs of an interactive job. Absent if the run has not reported it."""
    reached: Annotated[float, Field(ge=0, le=1)] | None = None
    """Largest fraction that was reported before, in any run. Training below this fraction counts as redone."""
    reached_step: int | None = None
    """Largest number of steps that was reported before, in any run."""


_Seconds = Annotated[float, Field(ge=0, le=1e12)]


class InteractiveStatus(PartOf[Interactive | Usage]):
    """What an interactive job was given, and how it used it."""

    APART = frozenset(("asks", "hourly", "busy_seconds", "idle_seconds"))

    answered: _Count = 0
    """The last ask whose GPUs were given back. The job wants GPUs while spec.interactive.asks is larger."""
    served: _Count = 0
    """The last ask that the present run serves, or that the latest run served."""
    idle_since: Time | None = None
    """The time since which no cell runs on its GPUs, or of a later ask. Absent while a cell runs."""
    busy_seconds: _Seconds | None = None
    """Seconds for which cells ran on its GPUs, in all sessions. Absent before the first report of its worker."""
    idle_seconds: _Seconds | None = None
    """Seconds for which it held GPUs and no cell ran, in all sessions."""
    busy_cost: Annotated[Amount | None, Absent(ZERO)] = None
    """Dollars of the busySeconds."""
    idle_cost: Annotated[Amount | None, Absent(ZERO)] = None
    """Dollars of the idleSeconds."""
    start_seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    """Seconds from when a run is given its GPUs to the first report of its worker, as measured."""

    @classmethod
    def from_domain(cls, told: Interactive, usage: Usage | None) -> Self:
        """The model of the interactive part."""
        if usage is None:
            return cls.copy_of(told)
        return cls.copy_of(told, usage, busy_seconds=usage.busy_seconds, idle_seconds=usage.idle_seconds)

    def usage(self) -> Usage | None:
        """How the GPUs were used; None if the worker has reported nothing."""
        if self.busy_seconds is None:
            return None
        idle_seconds = self.idle_seconds or 0.0
        return joined(Usage, self, asks=self.served, busy_seconds=self.busy_seconds, idle_seconds=idle_seconds)


class TrainingJobRecord(PartOf[Job]):
    """Intents and outcomes, which must survive a restart."""

    APART = frozenset(("invalid", "interactive"))

    allocation: AllocationStatus | None = None
    """The GPUs that are intended for the job now; absent while it waits."""
    replaced: Annotated[tuple[AllocationStatus, ...], Field(max_length=32, json_schema_extra=ATOMIC)] = ()
    """Earlier allocations whose runs have not ended, or whose end is not recorded yet."""
    last_run: _Count = 0
    """The highest run number used so far."""
    runs: Annotated[tuple[RunStatus, ...], Field(max_length=RUNS_KEPT, json_schema_extra=ATOMIC), Named("records")] = ()
    """The latest runs that have ended, oldest first."""
    earlier_cost: Annotated[Amount | None, Absent(ZERO)] = None
    """Dollars that earlier runs cost that are no longer listed in runs."""
    failures: _Count = 0
    """Number of runs that failed by the job's own fault."""
    restarts: _Count = 0
    """Number of runs that were interrupted or stalled."""
    nodes_replaced: _Count = 0
    """Number of times that the job got another node because one of its nodes held it up."""
    start_failures: _Count = 0
    """Number of the latest runs, in a row, whose pods did not all run in time."""
    finish: FinishStatus | None = None
    """The end of the job. Nothing is started for the job after it."""
    invalid: InvalidStatus | None = None
    """Why the job's template was refused."""
    progress: ProgressStatus | None = None
    """The last progress report of the job's pods."""
    predicted: Amount | None = None
    """Dollars that the job was expected to cost when it was first given GPUs."""
    predicted_end: Time | None = None
    """When the job was expected to end when it was first given GPUs."""
    moves: Annotated[tuple[Time, ...], Field(max_length=MOVES_KEPT, json_schema_extra=ATOMIC)] = ()
    """Times at which the job was resized because that paid, in the 24 hours before the latest of them."""
    group: GroupStatus | None = None
    """The pods that should train together, in a run that is resized in place."""
    resized_from: AllocationStatus | None = None
    """The GPUs with which the run trains until the pods of a change in place train together; absent without one."""
    stretches: Annotated[tuple[StretchStatus, ...], Field(max_length=MOST_STRETCHES, json_schema_extra=ATOMIC)] = ()
    """How long runs had other widths before they were resized in place."""
    interactive: InteractiveStatus | None = None
    """What an interactive job was given, and how it used it."""

    @classmethod
    def from_domain(cls, job: Job) -> Self:
        """The record of the job. Only the latest runs are listed; the cost of older runs is kept as a sum."""
        runs = _kept_runs(job.records)
        dropped = job.records[: len(job.records) - len(runs)]
        earlier = job.earlier_cost + total(record.cost or ZERO for record in dropped)
        usage = None if job.progress is None else job.progress.usage
        return cls.copy_of(
            job,
            runs=runs,
            earlier_cost=None if earlier == ZERO else earlier,
            invalid=InvalidStatus(generation=job.generation, message=job.invalid) if job.invalid else None,
            moves=job.moves[-MOVES_KEPT:],
            stretches=tuple(StretchStatus.from_domain(stretch) for stretch in job.stretches[-MOST_STRETCHES:]),
            interactive=None if job.interactive is None else InteractiveStatus.from_domain(job.interactive, usage),
        )

    def last_report(self) -> Progress | None:
        """The last progress report, with the GPU usage of an interactive job."""
        usage = None if self.interactive is None else self.interactive.usage()
        return None if self.progress is None else joined(Progress, self.progress, usage=usage)


class JobState(StrEnum):
    """The state of a TrainingJob."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESIZING = "Resizing"
    STOPPING = "Stopping"
    SUSPENDED = "Suspended"
    IDLE = "Idle"
    INVALID = "Invalid"
    COMPLETE = "Complete"
    FAILED = "Failed"
    CANNOT_START = "CannotStart"


class TrainingJobView(ApiModel):
    """The job's present state, for people."""

    observed_generation: int | None = None
    """The metadata.generation that the view describes."""
    state: JobState | None = None
    """Queued, Starting, Running, Resizing, Stopping, Suspended, Idle, Invalid, Complete, Failed or CannotStart."""
    gpus: int | None = None
    """Number of GPUs that the job has."""
    want_gpus: int | None = None
    """Number of GPUs that the job is worth at the budget's exchange rate."""
    pool: str | None = None
    """Name of the GPUPool that the job runs in."""
    budget: str | None = None
    """Name of the GPUBudget that pays for the job."""
    progress_percent: int | None = None
    """Percent of the job's work that is done."""
    eta: Minute | None = None
    """When the job is expected to end, rounded up to the minute."""
    cost: Cents | None = None
    """Dollars that the job's GPUs have cost so far, rounded to the cent."""
    why: str | None = None
    """The reason why the job has the GPUs that it has, as one CamelCase word; the conditions give the sentence."""
    options: Annotated[tuple[ComparedOption, ...], Field(max_length=OPTIONS_SHOWN, json_schema_extra=ATOMIC)] = ()
    """The options of a job that runs or wants to run, cheapest first: those that are best at the budget's rate.
    `charterer explain` shows them to a user who may not read the whole cluster."""
    options_as_of: Time | None = None
    """When the options were compared."""
    conditions: Conditions = ()
    """Ready, Admitted, CapacityAvailable, PodsReady, Resizing, BudgetLimited, Complete, Failed, Suspended; with a
    targetCompletionTime OnTarget, with a maxCost WithinMaxCost, at the end of a job with a quote WithinQuote; while
    pods run with an older template TemplateCurrent; while something holds the run up SlowWorker, SlowNode,
    InputStarved, SyncBound, CheckpointTooLong or NotAdvancing; once it has failed for good, or cannot be read,
    Stalled."""


class TrainingJobStatus(TrainingJobView, TrainingJobRecord):
    """The GPUs that the job is given, its history, and its present state."""
