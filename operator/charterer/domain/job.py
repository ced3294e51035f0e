"""A training job: its owner's request, the intent for it (allocation), and what exists (runs, pods)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from typing import Final, NamedTuple

from charterer.domain.budget import NO_SHARE
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

# Doubts about a job's status.


class Doubt(NamedTuple):
    """A rental in a job's status that is not believed to be the job's. ``why``: the reason, as a sentence."""

    rental: RentalId
    why: str


# The final end of a job.


class FinishKind(StrEnum):
    """How a job ended for good."""

    COMPLETE = "Complete"
    FAILED = "Failed"


IN_DOUBT = "CompletedInDoubt"
"""``Finish.reason`` of a job whose pods all exited with 0 although the last report said that much work was left."""
CANNOT_START = "CannotStart"
"""``Finish.reason`` of a job whose last runs all failed to start."""
START_ATTEMPTS = 3
"""Number of consecutive runs that may fail to start before the job fails. Each such run holds machines for up to
readyTimeoutSeconds."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The final end of a job, recorded once in its status. No run is started after the end."""

    kind: FinishKind
    at: Instant
    reason: str
    message: str

    @property
    def done(self) -> bool:
        """Whether the work is done, as far as known: the job is complete, and its completion is not in doubt."""
        return self.kind is FinishKind.COMPLETE and self.reason != IN_DOUBT


# A run that is resized in place trains in a group of pods. Charterer requests a group, and the run's leader reports
# the group that trains.
#
# docs/development/adr/0020-in-place.md describes the protocol.


FORMED_SECONDS = 60.0
"""Seconds within which a group that only lost members must form again; otherwise the run is restarted."""
RESTART_EXIT_CODE = 75
"""The exit code of a trainer that could not form a group (EX_TEMPFAIL of sysexits.h). The run is then restarted."""
_UID_LENGTH = 8


@dataclass(frozen=True, slots=True)
class TrainingGroup:
    """The pods of run ``run`` that should train together: the pods with these Job ``indexes``, in order.

    ``generation``: 1 for a run's first group; each change of the group adds one. ``since``: when this generation was
    requested. ``by``: the deadline for forming this group. ``uids``: the first characters of the pods' uids; empty
    before any of them trains. ``formed``: the generation in which the run's leader last reported to train; 0 before
    its first report. ``reports``: whether any run of the job reported a generation; a trainer that never reports one
    changes its group in its own way (torchrun). ``withdrawn``: the number of consecutive widenings that failed, the
    last one at ``withdrawn_at``.
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
        """Whether the leader's last report still named an earlier generation."""
        return 0 < self.formed < self.generation

    def followed_by(self, pods: Mapping[int, str], now: Instant, seconds: float) -> TrainingGroup:
        """The next generation, to be formed within ``seconds``. ``pods``: its members, as uid by index."""
        return replace(self._of(pods), generation=self.generation + 1, since=now, by=after(now, seconds))

    def trained(self, generation: int, pods: Mapping[int, str]) -> TrainingGroup:
        """The group after its leader reported to train in ``generation``. ``pods``: the members, as uid by index."""
        known = self if self.uids else self._of(pods)
        return replace(known, formed=generation, reports=True)

    def started_again(self, pods: int, now: Instant) -> TrainingGroup:
        """The next generation of a group whose members are all new pods, as at the beginning of a run."""
        members = tuple(range(pods))
        return replace(self, generation=self.generation + 1, indexes=members, since=now, by=now, uids=(), formed=0)

    def lacks(self, pods: Mapping[int, str]) -> frozenset[int]:
        """The indexes whose member pod is missing or was replaced. ``pods``: the present pods, as uid by index."""
        known = zip(self.indexes, self.uids, strict=False)
        return frozenset([index for index, uid in known if not uid or pods.get(index, "")[:_UID_LENGTH] != uid])

    def has(self, uid: str) -> bool:
        return uid[:_UID_LENGTH] in self.uids

    def _of(self, pods: Mapping[int, str]) -> TrainingGroup:
        indexes = tuple(sorted(pods))
        return replace(self, indexes=indexes, uids=tuple([pods[index][:_UID_LENGTH] for index in indexes]))


def first_group(run: int, pods: int, now: Instant, former: TrainingGroup | None) -> TrainingGroup:
    """The first group of a run. ``former``: the last group of the job's previous run."""
    group = TrainingGroup(run, 1, tuple(range(pods)), now, now)
    if former is None:
        return group
    return replace(group, reports=former.reports, withdrawn=former.withdrawn, withdrawn_at=former.withdrawn_at)


class Stretch(NamedTuple):
    """The total ``seconds`` for which the job's runs had this option before they were resized in place."""

    option: Option
    seconds: float


# A variant of a job: another way to do the same training, with its own speed.


class Variant(NamedTuple):
    """One way to train. ``class_id``: the class with the variant's speed. ``Widths`` explains the other fields. A
    Variant is a tuple because keys contain it."""

    name: str
    class_id: ClassId
    least: int
    preferred: int
    most: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0


# The widths of a job: its numbers of GPUs, or the parts of a GPU that it accepts.


LEAST_KEPT = 0.5
"""Default of the fraction of its speed that a job must keep beside a partner on a shared GPU."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Numbers of GPUs; all equal if the job has only one width. ``slices``: MIG profiles that the job accepts instead
    of a GPU.

    ``shared_mib``: GPU memory in MiB that the job needs on a GPU shared with other jobs; 0 if it shares no GPU.
    ``least_kept``: the fraction of its speed that it must keep on a shared GPU, if Charterer can choose its partner.
    ``each``: the fixed number of GPUs of each of its pods; 0 if one pod gets all GPUs that the job has on a node.
    """

    min: int
    preferred: int
    max: int
    slices: tuple[str, ...] = ()
    shared_mib: int = 0
    least_kept: float = LEAST_KEPT
    each: int = 0

    def variant(self, name: str, class_id: ClassId) -> Variant:
        """The variant of a job with these widths."""
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
    """``gpus`` GPUs of one rental, for one pod. ``empty``: GPUs beside these that stay empty (``Option.empty``)."""

    rental: RentalId
    gpus: int
    empty: int = 0

    @property
    def takes(self) -> int:
        """The number of GPUs that no other job can use: held GPUs and empty GPUs."""
        return self.gpus + self.empty


@dataclass(frozen=True, slots=True)
class Allocation:
    """The intent: run number ``run`` uses ``option`` on ``placements`` (one pod each, in index order).

    ``because``: why the allocation was made. The next three fields say why its run was given up, and are empty
    otherwise: ``withdrawn_because`` before all its pods ran, ``stalled_because`` after it stopped advancing,
    ``stopped_because`` for another reason, without a following run. ``begun``: Kueue was allowed, or is being allowed,
    to start the run of a queued object.
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

    FAILED counts against the job's backoffLimit. INTERRUPTED and STALLED (the run stopped advancing) count against
    maxRestarts. NOT_STARTED (the run was withdrawn before all its pods ran) counts against ``START_ATTEMPTS``.
    """

    COMPLETE = "Complete"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"
    STOPPED = "Stopped"
    NOT_STARTED = "NotStarted"
    STALLED = "Stalled"

    @property
    def counts_as_restart(self) -> bool:
        """Whether the outcome counts against maxRestarts."""
        return self in (RunOutcome.INTERRUPTED, RunOutcome.STALLED)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run that has ended, as recorded in the TrainingJob's status before the run's Job is deleted.

    ``cost``: the cost of its GPUs; None in old records without it (``domain.job_records`` then computes it).
    ``generation``: the TrainingJob's generation when the end was recorded; None if unknown. ``because``: see
    ``Allocation``.
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


class StartWarnings(NamedTuple):
    """The last Warning Events about a run that takes long to start. A text is empty if nothing is known.

    ``missing``: why a pod is not created, or why what the object's controller starts beside the pods does not run.
    ``pod``: why a pod that exists does not start.
    """

    missing: str = ""
    pod: str = ""


_REFUSED: Final = (
    "violates PodSecurity",
    "denied the request",
    "denied request",
    "no PriorityClass with name",
    "pod rejected: RuntimeClass",
    "error looking up service account",
)
"""Messages in the Warning FailedCreate of a Job: from Pod Security, a webhook or an admission policy, or about a
missing object that the template names. Messages about a quota are not in this list."""
_NOT_MOUNTED: Final = re.compile(r'FailedMount: .*(secret|configmap) "[^"]+" not found')
"""The Warning about a pod with a volume of a missing Secret or ConfigMap."""


class _Trouble(NamedTuple):
    """A reason why a run does not start. ``hopeless``: only an edit removes it."""

    text: str
    hopeless: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The observed Kubernetes object of a run (see ``workloads``) and its pods, of which ``completions`` must succeed.

    ``complete``, ``failed``: when the object got that terminal condition, which is only evidence:
    ``lifecycle.verdict`` decides. ``failed_by_disruption``: the object reports that it failed because of a disrupted
    pod. ``missing``, ``warning``: ``missing`` and ``pod`` of ``StartWarnings``.
    ``owned``: the TrainingJob controls the object; False after the TrainingJob was deleted without its dependents.
    ``template``: digest of the pod template from which the object was made; empty if unknown. ``departed``: pods that
    were asked to end and no longer exist. ``retries``: the number of pods that may fail before the object fails.
    ``failed_pods``: the number of pods that have failed.
    ``incomplete``: what the object's controller waits for beside its pods; empty if it waits for nothing.
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
    missing: str = ""
    warning: str = ""
    owned: bool = True
    template: str = ""
    departed: tuple[Pod, ...] = ()
    retries: int = 0
    failed_pods: int = 0
    incomplete: str = ""

    @property
    def ended(self) -> Instant | None:
        """When the object got a terminal condition; None without one."""
        return self.failed if self.complete is None else self.complete

    @property
    def hopeless(self) -> bool:
        """Whether a pod of the run cannot start without an edit, or the API server refuses pods that the run needs."""
        return any(found.hopeless for found in self._troubles())

    @property
    def trouble(self) -> str:
        """Why the run does not start, in Kubernetes' own words; empty if no reason is known.

        Of several reasons, the cause is given: one that only an edit removes, or else the one that is first in
        ``_troubles``.
        """
        return min(self._troubles(), key=lambda found: not found.hopeless, default=_Trouble("", hopeless=False)).text

    def _troubles(self) -> Iterator[_Trouble]:
        """The reasons why the run does not start. A reason comes before its possible consequences.

        Pods may wait for a pod that is missing, or for what the object's controller starts beside them; and a pod whose
        peer has no node may fail again and again.
        """
        # An Event about a pod that could not be created is old if all pods exist by now.
        if self.missing and (self.incomplete or len(self.pods) < self.completions):
            refused = (self.incomplete or not self.pods) and any(words in self.missing for words in _REFUSED)
            yield _Trouble(self.missing, bool(refused))
        troubled = [pod for pod in self.pods if pod.trouble]
        for hopeless, placed in product((True, False), (False, True)):
            alike = [pod for pod in troubled if (pod.hopeless, pod.node is not None) == (hopeless, placed)]
            if alike:
                more = f" ({len(alike) - 1} more like it)" if len(alike) > 1 else ""
                yield _Trouble(f"pod {alike[0].name}: {alike[0].trouble}{more}", hopeless)
        if self.warning:
            yield _Trouble(self.warning, bool(self.pods) and _NOT_MOUNTED.search(self.warning) is not None)

    @property
    def unproven(self) -> tuple[int, ...]:
        """Indexes without an undisturbed Succeeded pod, in order. The run is complete if there are no such
        indexes."""
        proven = {pod.index for pod in self.pods if pod.proves_completion}
        return tuple(index for index in range(self.completions) if index not in proven)

    @property
    def broken(self) -> bool:
        """Whether the run cannot complete: its object is being deleted, so that no pod is created any more, and a pod
        is missing."""
        going_on = {pod.index for pod in self.pods if pod.live or pod.proves_completion}
        return self.deleting and self.ended is None and not going_on >= set(range(self.completions))


@dataclass(frozen=True, slots=True)
class CostLimit:
    """The most that a job may cost. ``budget``: the budget whose ``spec.jobDefaults`` sets the limit; None if the job
    itself sets it."""

    amount: Money
    budget: BudgetId | None = None

    @property
    def field(self) -> str:
        """The field in which the limit is written."""
        return "spec.maxCost" if self.budget is None else f"spec.jobDefaults.maxCost of GPUBudget {self.budget}"

    @property
    def raised_by(self) -> str:
        """The remedy for the job's owner. A job's own limit takes the place of its budget's limit."""
        return "raise spec.maxCost" if self.budget is None else f"set the job's own spec.maxCost above {self.amount}"


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainingJob joined with its runs.

    ``budget``: None if no GPUBudget selects its namespace. ``remaining``: expected remaining work in seconds of the
    class's reference option; None if unknown. ``invalid``: why the Job API or the operator refused the template of the
    recorded generation; empty if neither did. ``allocation``, ``records``: read from status, where intents and outcomes
    survive a crash. ``pod_gpus``: GPUs in the template's first container; 0 if absent. ``replaced``: former allocations
    of other runs whose ends are not recorded yet; the write that replaces or clears an allocation adds the old
    allocation here. ``has_service``: its headless Service exists. ``checking``: the API server is checking the
    template; until it answers, nothing is planned for the job, and what the job may need is kept. ``max_cost``: the
    limit of its cost. ``target_completion``: when its owner wants the job to end. ``predicted``: the expected cost from
    its first start to its end. ``predicted_end``: its expected end. Both are predicted at its first allocation, and
    None before that allocation. ``quote``: the quote that its owner got before submitting the job. ``moves``: the times
    in the 24 h up to the last one at which the job was moved because the move paid. ``earlier_cost``: the cost of runs
    that are no longer in ``records``, and of ``stretches``. ``start_failures``: the number of latest consecutive runs
    that were NOT_STARTED.
    ``doubts``: rentals in ``allocation`` and ``replaced`` that are not believed to be the job's; the job holds none of
    their GPUs. ``template``: digest of its template. ``bottlenecks``: what slows its present run.
    ``stall_timeout_seconds``: time after which a stalled run is stopped (``policy.jobs.job_facts``); 0: never; None:
    the default. ``nodes_replaced``: how often a slow node of the job was replaced. ``group``: the pods that should
    train together in a run that is resized in place. ``resized_from``: the allocation with which that group trains
    until its leader reports the group of ``allocation``. ``stretches``: how long runs had other widths before they were
    resized in place. ``interactive``: None for a batch job. ``labels``: the labels of its object. ``user``: its
    creator, as an admission policy recorded it; empty if none did. ``target``: the adopted object that the TrainingJob
    stands for; None if it has its own Job. ``adopted``: that object as observed; None if it does not exist or lost its
    label. ``demands``: what its pods demand of their nodes. ``told_ready``: the readiness of an adopted object in the
    job's status; None if the status has none. ``default_max_cost``: the limit of its cost by its budget, if
    ``max_cost`` is None. ``share``: the share of its budget's money, by name.
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
    default_max_cost: Money | None = None
    share: str = NO_SHARE

    @property
    def cost_limit(self) -> CostLimit | None:
        """The most that the job may cost: its own limit, or else its budget's limit; None without any limit."""
        if self.max_cost is not None:
            return CostLimit(self.max_cost)
        return None if self.default_max_cost is None else CostLimit(self.default_max_cost, self.budget)

    def variant(self, name: str) -> Variant | None:
        """The variant of that name; None if none exists, for example after it was removed."""
        return next((variant for variant in self.ways if variant.name == name), None)

    @property
    def ways(self) -> tuple[Variant, ...]:
        """All variants: first the plain template, as the variant with an empty name."""
        return (self.widths.variant("", self.class_id), *self.variants)

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """The classes of all ``ways``."""
        return (self.class_id, *[variant.class_id for variant in self.variants])

    def trusted(self, allocation: Allocation) -> tuple[Placement, ...]:
        """The placements of one of the job's allocations, without placements on rentals in ``doubts``."""
        if not self.doubts:
            return allocation.placements
        doubted = {doubt.rental for doubt in self.doubts}
        return tuple([place for place in allocation.placements if place.rental not in doubted])

    @property
    def statistics(self) -> ClassId:
        """The class in whose statistics the job is counted: its profile's, or NO_PROFILE."""
        return self.class_id.counted_in

    def run_title(self, number: int) -> str:
        """The name of a run for people: the name of Charterer's own Job, or the number of the run and its adopted
        object."""
        return run_name(self.name, number) if self.target is None else f"run {number} of {self.target}"

    @property
    def short_id(self) -> str:
        """The first eight characters of the uid, for label keys."""
        return self.id[:8]

    @property
    def run_label(self) -> str:
        """The label key of nodes that admit the job's pods; the label's value is ``Allocation.label_value``."""
        return f"{RUN_LABEL_PREFIX}{self.short_id}"

    @property
    def current_run(self) -> Run | None:
        """The object of the allocation's run; None if the object does not exist."""
        if self.allocation is None:
            return None
        return next((run for run in self.runs if run.number == self.allocation.run), None)

    @property
    def trains_on(self) -> Allocation | None:
        """The allocation whose width the run has now: the former one while the run is being resized in place."""
        former, intended = self.resized_from, self.allocation
        return intended if former is None or intended is None or former.run != intended.run else former

    @property
    def current_group(self) -> TrainingGroup | None:
        """The group of the allocation's run; None if none is recorded, or if the run is not resized in place."""
        group = self.group
        if group is None or self.allocation is None or group.run != self.allocation.run:
            return None
        return group if self.resize is ResizePolicy.IN_PLACE else None

    @property
    def regroups(self) -> bool:
        """Whether a change of the run's group is under way. The run goes on training meanwhile."""
        group, intended = self.current_group, self.allocation
        if group is None or intended is None:
            return False
        lacks = group.formed and len(group.indexes) != len(intended.placements)
        return bool(lacks) or group.pending or self.trains_on is not intended

    def has_all_pods(self) -> bool:
        """Whether the run consists of exactly the allocation's pods, and all of them run."""
        return self._consists_of(lambda pod: pod.phase is PodPhase.RUNNING and not pod.deleting)

    @property
    def pods_ready(self) -> bool:
        """Whether the run consists of exactly the allocation's pods, and each of them is ready or has completed.

        Completed pods are included so that the state of an ending job does not change before its end is recorded.
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
        """Whether all pods of the allocation run or have ended, including pods on machines that have since died."""
        run = self.current_run
        if self.allocation is None or run is None or run.suspended:
            return False
        if run.ended is not None:
            return True
        begun = {pod.index for pod in run.pods if pod.phase is not PodPhase.PENDING}
        wanted = run.completions == len(self.allocation.placements) and not run.incomplete
        return wanted and begun >= set(range(run.completions))

    def stopped_in_queue(self, allocation: Allocation) -> bool:
        """Whether Kueue stopped the allocation's run: Kueue was allowed to start it, and the object no longer carries
        it."""
        target = self.adopted
        carries = target is not None and (target.job, target.run) == (self.id, allocation.run)
        return target is not None and target.queued and allocation.begun and not carries

    @property
    def unplaceable(self) -> str:
        """Why the object of the job can begin no run; empty if it can, or if it is not suspended."""
        return self.adopted.problem if self.adopted is not None and self.adopted.suspended else ""

    @property
    def wants_to_run(self) -> bool:
        """Whether the planner should find GPUs for the job."""
        asked = self.interactive is None or self.interactive.wants_gpus
        there = self.target is None or (self.adopted is not None and (self.adopted.has_quota or bool(self.allocation)))
        there = there and not self.unplaceable
        over = self.suspend or self.deleting or self.finish or self.invalid
        return asked and there and not (over or self.checking or self.budget is None)
