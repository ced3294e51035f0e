"""A training job: what its owner asked for, what is intended for it (allocation) and what exists (runs, pods)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from charterer.domain.ids import BudgetId, ClassId, JobId, RentalId
from charterer.domain.interactive import Interactive
from charterer.domain.job_quote import JobQuote
from charterer.domain.money import ZERO, Money
from charterer.domain.node_demands import NO_DEMANDS, NodeDemands
from charterer.domain.option import Option
from charterer.domain.pod import RUN_LABEL_PREFIX, Pod, PodPhase, run_name
from charterer.domain.reports import Bottleneck, Progress
from charterer.domain.target import Target, TargetRef, ToldReady
from charterer.domain.time import Instant, after

# A doubt about what the status of a job says.


class Doubt(NamedTuple):
    """A rental that a job's status names and that is not believed to be the job's, and why, as a sentence."""

    rental: RentalId
    why: str


# How a job ended for good.


class FinishKind(StrEnum):
    """How a job ended for good."""

    COMPLETE = "Complete"
    FAILED = "Failed"


IN_DOUBT = "CompletedInDoubt"
"""``Finish.reason`` of a job whose pods all exited with 0 long before its work was done, as its last report says."""
CANNOT_START = "CannotStart"
"""``Finish.reason`` of a job none of whose last runs ever started."""
START_ATTEMPTS = 3
"""Runs in a row that may fail to start before the job fails. Each holds machines for up to readyTimeoutSeconds."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The job's end, recorded once in its status; no run is started after it."""

    kind: FinishKind
    at: Instant
    reason: str
    message: str

    @property
    def done(self) -> bool:
        """Whether the work is done, as far as is known."""
        return self.kind is FinishKind.COMPLETE and self.reason != IN_DOUBT


# The group of pods in which a run trains that is resized in place, as Charterer asks for it and as its leader
# reports.
#
# docs/development/adr/0020-in-place.md has the protocol and its order.


FORMED_SECONDS = 60.0
"""Seconds within which a group that only lost members must have been formed; otherwise the run is restarted."""
RESTART_EXIT_CODE = 75
"""The exit code of a trainer that could not form a group (EX_TEMPFAIL of sysexits.h): the run is to be restarted."""
_UID_LENGTH = 8


@dataclass(frozen=True, slots=True)
class TrainingGroup:
    """The pods of run ``run`` that should train together: those with the Job's ``indexes``, in order.

    ``generation``: 1 for a run's first group, one more for each change; asked for at ``since``, to be formed ``by``.
    ``uids``: which pods these are, by the first characters of their uids; empty before any of them trains.
    ``formed``: the generation in which the run's leader last said that it trains; 0 before it named any. ``reports``:
    whether a run of the job ever named one; a trainer that never does changes its group in its own way (torchrun).
    ``withdrawn``: how many times in a row the job could not be widened, the last time at ``withdrawn_at``.
    """

    run: int
    generation: int
    indexes: tuple[int, ...]
    since: Instant
    by: Instant
    uids: tuple[str, ...] = ()
    formed: int = 0
    reports: bool = False
    withdrawn: int = 0
    withdrawn_at: Instant | None = None

    @property
    def pending(self) -> bool:
        """Whether its leader trains in an earlier group, as far as it said."""
        return 0 < self.formed < self.generation

    def followed_by(self, pods: Mapping[int, str], now: Instant, seconds: float) -> TrainingGroup:
        """The next generation, to be formed within ``seconds``. ``pods``: the uid of the pod of each index in it."""
        return replace(self._of(pods), generation=self.generation + 1, since=now, by=after(now, seconds))

    def trained(self, generation: int, pods: Mapping[int, str]) -> TrainingGroup:
        """The group once its leader says that it trains in that generation."""
        known = self if self.uids else self._of(pods)
        return replace(known, formed=generation, reports=True)

    def started_again(self, pods: int, now: Instant) -> TrainingGroup:
        """The next generation, of pods none of which trained before: as at a run's beginning."""
        members = tuple(range(pods))
        return replace(self, generation=self.generation + 1, indexes=members, since=now, by=now, uids=(), formed=0)

    def lacks(self, pods: Mapping[int, str]) -> frozenset[int]:
        """The members of which another pod, or none, is there. ``pods``: as in ``followed_by``."""
        known = zip(self.indexes, self.uids, strict=False)
        return frozenset([index for index, uid in known if not uid or pods.get(index, "")[:_UID_LENGTH] != uid])

    def has(self, uid: str) -> bool:
        """Whether the pod of that uid is a member."""
        return uid[:_UID_LENGTH] in self.uids

    def _of(self, pods: Mapping[int, str]) -> TrainingGroup:
        indexes = tuple(sorted(pods))
        return replace(self, indexes=indexes, uids=tuple([pods[index][:_UID_LENGTH] for index in indexes]))


def first_group(run: int, pods: int, now: Instant, former: TrainingGroup | None) -> TrainingGroup:
    """The group of a run that begins; ``former``: the last one of the job's former run."""
    group = TrainingGroup(run, 1, tuple(range(pods)), now, now)
    if former is None:
        return group
    return replace(group, reports=former.reports, withdrawn=former.withdrawn, withdrawn_at=former.withdrawn_at)


class Stretch(NamedTuple):
    """For how many ``seconds``, in all, the job's runs had this option before they were resized in place."""

    option: Option
    seconds: float


# A variant of a job: another way to do the same training, with a speed of its own.


class Variant(NamedTuple):
    """``class_id``: the class that says how fast it is; the others are what it runs on, as in ``Widths``.

    A tuple, as part of keys.
    """

    name: str
    class_id: ClassId
    least: int
    preferred: int
    most: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0


# What a job may run on: how many GPUs, or which parts of one.


LEAST_KEPT = 0.5
"""Part of its speed that a job keeps at least beside a chosen partner, where its owner does not say."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Numbers of GPUs; all three are equal for a rigid job. ``slices``: MIG profiles that it takes instead of a GPU.

    ``shared_mib``: GPU memory that it needs where it shares a GPU with other jobs; 0: it shares none.
    ``least_kept``: the part of its speed that it must keep there, as far as its partner can be chosen. ``each``: the
    GPUs of every one of its pods, which cannot change; 0: a pod has all GPUs that the job has of a node.
    """

    min: int
    preferred: int
    max: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
    least_kept: float = LEAST_KEPT
    each: int = 0

    def variant(self, name: str, class_id: ClassId) -> Variant:
        """The variant of a job that runs on these."""
        return Variant(name, class_id, self.min, self.preferred, self.max, self.slices, self.shared_mib)


class ResizePolicy(StrEnum):
    """How the width of a running job may change."""

    NEVER = "Never"
    RESTART = "Restart"
    IN_PLACE = "InPlace"


class SpotPolicy(StrEnum):
    """Whether the job may run on capacity that the cloud can take back."""

    NEVER = "Never"
    ALLOWED = "Allowed"


@dataclass(frozen=True, slots=True)
class Placement:
    """``gpus`` GPUs of one rental: one pod. ``empty``: those beside it that stay empty (``Option.empty``)."""

    rental: RentalId
    gpus: int
    empty: int = 0

    @property
    def takes(self) -> int:
        """The GPUs that nobody else can have."""
        return self.gpus + self.empty


@dataclass(frozen=True, slots=True)
class Allocation:
    """The intent: run number ``run`` uses ``option`` on ``placements`` (one pod each, in index order).

    ``because``: why it was given. Why its run was given up, empty if it was not: ``withdrawn_because`` before all its
    pods ran, ``stalled_because`` it did not advance any more, ``stopped_because`` for another reason, no run following.
    ``begun``: Kueue was told that the run of a queued object may start, or is told that now.
    """

    run: int
    option: Option
    placements: tuple[Placement, ...]
    since: Instant
    because: str = ""
    withdrawn_because: str = ""
    stalled_because: str = ""
    stopped_because: str = ""
    begun: bool = False

    @property
    def annotation(self) -> str:
        """The value of the pods' annotation ``charterer.dev/allocation``: compact JSON, equal for equal shapes."""
        pods, each = len(self.placements), self.placements[0].gpus
        return f'{{"run":{self.run},"gpus":{self.option.gpus},"pods":{pods},"gpusPerPod":{each}}}'

    @property
    def label_value(self) -> str:
        """The value of the job's ``run_label`` on the nodes that admit this run's pods."""
        return f"r{self.run}"


class RunOutcome(StrEnum):
    """How a run ended.

    Only FAILED counts against the job's backoffLimit. INTERRUPTED and STALLED, a run that did not advance any more,
    count against maxRestarts, and NOT_STARTED, a run that was withdrawn because not all its pods ever ran, against
    ``START_ATTEMPTS``.
    """

    COMPLETE = "Complete"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"
    STOPPED = "Stopped"
    NOT_STARTED = "NotStarted"
    STALLED = "Stalled"

    @property
    def counts_as_restart(self) -> bool:
        """Whether it counts against maxRestarts."""
        return self in (RunOutcome.INTERRUPTED, RunOutcome.STALLED)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that has ended, as recorded in the TrainingJob's status before its Job is released.

    ``cost``: of its GPUs; None in records from before it was kept (``domain.job_records`` then computes it).
    ``generation``: of the TrainingJob when the end was recorded; None if not known. ``because``: as in ``Allocation``.
    """

    number: int
    outcome: RunOutcome
    option: Option
    placements: tuple[Placement, ...]
    since: Instant
    until: Instant
    message: str
    cost: Money | None = None
    generation: int | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The fact: one run's Kubernetes object (see ``workloads``) and its pods, of which ``completions`` must succeed.

    ``complete`` / ``failed``: since when the object has that terminal condition, which is evidence and not yet truth:
    see ``lifecycle.verdict``. ``failed_by_disruption``: it says that it failed because a pod was disrupted.
    ``warning``: the last Warning Event about the object or its pods, known only of a run that takes long to start.
    ``owned``: its TrainingJob controls it; to delete that one without its dependents takes the owner away.
    ``template``: digest of the template that it was made of; empty where that is not known. ``departed``: its pods that
    were told to end and are gone. ``retries``: how many pods may fail before its object does, after ``failed_pods``.
    ``incomplete``: what its controller waits for beside its pods; empty where for nothing.
    """

    number: int
    name: str
    uid: str
    resource_version: str
    completions: int
    suspended: bool
    deleting: bool
    created: Instant
    started: Instant | None
    complete: Instant | None
    failed: Instant | None
    failed_message: str
    pods: tuple[Pod, ...]
    failed_by_disruption: bool = False
    warning: str = ""
    owned: bool = True
    template: str = ""
    departed: tuple[Pod, ...] = ()
    retries: int = 0
    failed_pods: int = 0
    incomplete: str = ""

    @property
    def ended(self) -> Instant | None:
        """Since when the object has a terminal condition; None while it has none."""
        return self.failed if self.complete is None else self.complete

    @property
    def trouble(self) -> str:
        """Why the run does not start, in Kubernetes' own words; empty where nothing is known."""
        troubled = [pod for pod in self.pods if pod.trouble]
        if not troubled:
            return self.warning
        alike = f" ({len(troubled) - 1} more like it)" if len(troubled) > 1 else ""
        return f"pod {troubled[0].name}: {troubled[0].trouble}{alike}"

    @property
    def unproven(self) -> tuple[int, ...]:
        """Indices without an undisturbed Succeeded pod, in order; the run is complete when there is none."""
        proven = {pod.index for pod in self.pods if pod.proves_completion}
        return tuple(index for index in range(self.completions) if index not in proven)

    @property
    def broken(self) -> bool:
        """Whether it cannot complete: it is being deleted, so that no pod is made any more, and an index has none."""
        going_on = {pod.index for pod in self.pods if pod.live or pod.proves_completion}
        return self.deleting and self.ended is None and not going_on >= set(range(self.completions))


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainingJob joined with its runs.

    ``budget``: None if no GPUBudget selects its namespace. ``remaining``: expected work left in seconds of the class's
    reference option, None if nothing is known. ``invalid``: why the Job API or the operator refused the template
    (recorded with the generation that was refused); empty if they did not. ``allocation`` and ``records`` are read back
    from status, where intents and outcomes survive a crash. ``pod_gpus``: GPUs in the template's first
    container, 0 if absent. ``replaced``: former allocations (of other runs than ``allocation``) whose runs have not
    been recorded yet; the write that replaces or clears an allocation puts it there. ``has_service``: its headless
    Service exists. ``checking``: the API server is being asked whether the template is valid; until then nothing is
    planned for the job, and what it may need is kept. ``max_cost``: the most it may cost. ``target_completion``: when
    its owner wants it done. ``predicted``: the expected cost from its first start to its end, as of when it first got
    GPUs, and ``predicted_end``: its expected end, as of then; None before that. ``quote``: what its owner was told
    before it was submitted. ``moves``: when it was moved because that paid, in the 24 h up to the last such move.
    ``earlier_cost``: of runs that are no longer in ``records``, and of ``stretches``. ``start_failures``: the latest
    runs, in a row, that were NOT_STARTED. ``doubts``: what is not believed of ``allocation`` and ``replaced``; it holds
    no GPUs. ``template``: digest of it. ``group``: the pods that should train together, in a run that is resized in
    place. ``resized_from``: the allocation with which that run's group trains until its leader reports the one of
    ``allocation``. ``stretches``: how long runs had other widths before they were resized in place. ``bottlenecks``:
    what holds its present run up. ``nodes_replaced``: how often it got another node because one did.
    ``stall_timeout_seconds``: see ``policy.jobs.job_facts``; 0: never. ``interactive``: if it is. ``variants``: if any.
    ``labels``: its object's. ``user``: who created it, as an admission policy wrote down; empty if none did.
    ``demands``: what its pods ask of their nodes. ``target``: the object that it stands for, if it does; ``adopted``:
    that object, None where it is not there, or has not the label any more. ``told_ready``: of an adopted object; None
    where its status does not say.
    """

    id: JobId
    namespace: str
    name: str
    generation: int
    resource_version: str
    created: Instant
    budget: BudgetId | None
    class_id: ClassId
    weight: float
    widths: Widths
    gpu_types: tuple[str, ...]
    spot: SpotPolicy
    resize: ResizePolicy
    suspend: bool
    deleting: bool
    backoff_limit: int
    max_restarts: int
    ready_timeout_seconds: float
    ttl_seconds_after_finished: int | None
    grace_seconds: int
    pod_gpus: int
    remaining: float | None
    progress: Progress | None
    allocation: Allocation | None
    last_run: int
    records: tuple[RunRecord, ...]
    failures: int
    restarts: int
    finish: Finish | None
    invalid: str
    runs: tuple[Run, ...]
    replaced: tuple[Allocation, ...] = ()
    has_service: bool = False
    checking: bool = False
    max_cost: Money | None = None
    target_completion: Instant | None = None
    predicted: Money | None = None
    predicted_end: Instant | None = None
    moves: tuple[Instant, ...] = ()
    earlier_cost: Money = ZERO
    start_failures: int = 0
    doubts: tuple[Doubt, ...] = ()
    template: str = ""
    bottlenecks: tuple[Bottleneck, ...] = ()
    stall_timeout_seconds: float | None = None
    nodes_replaced: int = 0
    group: TrainingGroup | None = None
    resized_from: Allocation | None = None
    stretches: tuple[Stretch, ...] = ()
    interactive: Interactive | None = None
    variants: tuple[Variant, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    target: TargetRef | None = None
    adopted: Target | None = None
    demands: NodeDemands = NO_DEMANDS
    told_ready: ToldReady | None = None
    quote: JobQuote | None = None

    def variant(self, name: str) -> Variant | None:
        """The one of its ways with that name; None where there is none, as after it was removed."""
        return next((variant for variant in self.ways if variant.name == name), None)

    @property
    def ways(self) -> tuple[Variant, ...]:
        """The template as it stands, as the variant without a name, and the others."""
        return (self.widths.variant("", self.class_id), *self.variants)

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """Its class, and those of its variants."""
        return (self.class_id, *[variant.class_id for variant in self.variants])

    def trusted(self, allocation: Allocation) -> tuple[Placement, ...]:
        """The placements of one of the job's allocations, without those on rentals in ``doubts``."""
        if not self.doubts:
            return allocation.placements
        doubted = {doubt.rental for doubt in self.doubts}
        return tuple([place for place in allocation.placements if place.rental not in doubted])

    @property
    def statistics(self) -> ClassId:
        """The class whose statistics it counts in: its profile's, or NO_PROFILE."""
        return self.class_id.counted_in

    def run_title(self, number: int) -> str:
        """What a person is told of as one of its runs: Charterer's own Job, or the object that it stands for."""
        return run_name(self.name, number) if self.target is None else f"run {number} of {self.target}"

    @property
    def short_id(self) -> str:
        """The first eight characters of the uid, for label keys."""
        return self.id[:8]

    @property
    def run_label(self) -> str:
        """The node label key that carries out this job's placement; its value is ``Allocation.label_value``."""
        return f"{RUN_LABEL_PREFIX}{self.short_id}"

    @property
    def current_run(self) -> Run | None:
        """The Job object of the allocation's run, if it exists."""
        if self.allocation is None:
            return None
        return next((run for run in self.runs if run.number == self.allocation.run), None)

    @property
    def trains_on(self) -> Allocation | None:
        """The allocation whose width its run has by now: while it is resized in place, still the former one."""
        former, intended = self.resized_from, self.allocation
        return intended if former is None or intended is None or former.run != intended.run else former

    @property
    def current_group(self) -> TrainingGroup | None:
        """The group of the allocation's run; None where none is on record, or the run is not resized in place."""
        group = self.group
        if group is None or self.allocation is None or group.run != self.allocation.run:
            return None
        return group if self.resize is ResizePolicy.IN_PLACE else None

    @property
    def regroups(self) -> bool:
        """Whether a change of its run's group is under way, which goes on training meanwhile."""
        group, intended = self.current_group, self.allocation
        if group is None or intended is None:
            return False
        lacks = group.formed and len(group.indexes) != len(intended.placements)
        return bool(lacks) or group.pending or self.trains_on is not intended

    def has_all_pods(self) -> bool:
        """Whether its run consists of just the pods that the allocation names, and all run."""
        return self._consists_of(lambda pod: pod.phase is PodPhase.RUNNING and not pod.deleting)

    @property
    def pods_ready(self) -> bool:
        """Whether its run consists of just the pods that the allocation names, and each is ready or has done its work.

        So the word of a job that ends does not change before its end is on record.
        """
        return self._consists_of(lambda pod: pod.proves_completion or pod.serves)

    def _consists_of(self, wanted: Callable[[Pod], bool]) -> bool:
        run = self.current_run
        if self.allocation is None or run is None or run.suspended or run.incomplete:
            return False
        there = {pod.index for pod in run.pods if wanted(pod)}
        return run.completions == len(self.allocation.placements) and there == set(range(run.completions))

    @property
    def has_begun(self) -> bool:
        """Whether all pods that the allocation names run or have ended, also on a machine that has died since."""
        run = self.current_run
        if self.allocation is None or run is None or run.suspended:
            return False
        if run.ended is not None:
            return True
        begun = {pod.index for pod in run.pods if pod.phase is not PodPhase.PENDING}
        wanted = run.completions == len(self.allocation.placements) and not run.incomplete
        return wanted and begun >= set(range(run.completions))

    def stopped_in_queue(self, allocation: Allocation) -> bool:
        """Whether Kueue has stopped the allocation's run: it was told to start it, and is not any more."""
        target = self.adopted
        carries = target is not None and (target.job, target.run) == (self.id, allocation.run)
        return target is not None and target.queued and allocation.begun and not carries

    @property
    def unplaceable(self) -> str:
        """Why its object can begin no run, as its author or its queue has it now; empty where it can, or runs."""
        return self.adopted.problem if self.adopted is not None and self.adopted.suspended else ""

    @property
    def wants_to_run(self) -> bool:
        """Whether the planner should find GPUs for it."""
        asked = self.interactive is None or self.interactive.wants_gpus
        there = self.target is None or (self.adopted is not None and (self.adopted.has_quota or bool(self.allocation)))
        there = there and not self.unplaceable
        over = self.suspend or self.deleting or self.finish or self.invalid
        return asked and there and not (over or self.checking or self.budget is None)
