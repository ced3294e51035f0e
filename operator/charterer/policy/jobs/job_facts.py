"""The facts of one job, which depend neither on the time nor on other jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from charterer.domain.ids import NO_PROFILE, ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.interactive import Interactive
from charterer.domain.job import (
    START_ATTEMPTS,
    Allocation,
    Job,
    ResizePolicy,
    RunOutcome,
    SpotPolicy,
    TrainingGroup,
)
from charterer.domain.money import ZERO, Price
from charterer.domain.node_demands import NO_OFFERS, NodeOffers
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.pool import CapacityType
from charterer.domain.reasons import jobs as of
from charterer.domain.reasons.fact import Fact
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.time import Instant, after, seconds_between
from charterer.gpu_types import names_type, slice_profile, takes_part
from charterer.policy.options.market import NOWHERE, Market, MenuKey
from charterer.policy.options.option_value import JobPosition

# The back-off of a job after a run that failed or never started, as in batch/v1, so that an outage may pass.
#
# A job that backs off holds no GPUs. A change of the job's spec (such as a corrected template, or suspending and
# resuming) ends the back-off.


NOT_BEFORE_ITS_RECORD: Final = Instant(2**62)
"""The end of a back-off that is unknown, because the end of a withdrawn run is not recorded yet."""
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 360.0
"""Back-off of batch/v1 after failed pods: 10 s, doubled each time, at most 6 minutes."""
_FIRST_START_SECONDS: Final = 30.0
_START_FACTOR: Final = 4.0
"""Runs that never started lead to longer back-offs, because each such run costs machines, and a missing image or
volume takes long to appear."""


def backs_off_until(job: Job) -> Instant | None:
    """When the job may have its next run; None if its last run is no reason to wait.

    NOT_BEFORE_ITS_RECORD while the end of a withdrawn run is not recorded.
    """
    if any(former.withdrawn_because for former in job.replaced):
        return NOT_BEFORE_ITS_RECORD
    if not job.records:
        return None
    last = max(job.records, key=lambda record: record.number)
    if last.generation not in (None, job.generation):
        return None
    if last.outcome is RunOutcome.FAILED:
        return after(last.until, failure_back_off_seconds(job.failures))
    if last.outcome is RunOutcome.NOT_STARTED:
        return after(last.until, start_back_off_seconds(job.start_failures))
    return None


def failure_back_off_seconds(failures: int) -> float:
    """Seconds of back-off after that many failed runs (at least one)."""
    return min(_FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 30), _LONGEST_SECONDS)


def start_back_off_seconds(start_failures: int) -> float:
    """Seconds of back-off after that many consecutive runs that never started (at least one)."""
    return _FIRST_START_SECONDS * _START_FACTOR ** (min(max(start_failures, 1), START_ATTEMPTS) - 1)


# Predicates of one job: whether it wants GPUs, whether its run is settled, and whether it may stay.


_HOPELESS_SECONDS = 20.0
"""Seconds for which a run may look as if it could never start. A scheduler or kubelet may see a label or Secret that
much later, and a node may have a taint that long after it is ready."""
_TOLD_TO_SECONDS = 1.0
"""Precision of the time at which a pod ended: Kubernetes gives whole seconds."""


def reason(code: ReasonCode, facts: Fact) -> Reason:
    """A reason without an effect in seconds and dollars."""
    return Reason(code, 0.0, ZERO, facts)


def not_wanted(job: Job) -> Reason | None:
    """Why the planner looks for no GPUs for the job; None if it looks for GPUs."""
    if job.deleting:
        return reason(ReasonCode.DELETED, of.JobDeleted())
    if job.finish is not None:
        return reason(ReasonCode.FINISHED, of.JobEnded(job.finish.kind))
    if job.target is not None and job.unplaceable:
        return reason(ReasonCode.NOT_ADOPTED, of.TargetRefused(job.target, job.unplaceable))
    queued = job.adopted is not None and not job.adopted.has_quota and job.allocation is None
    if job.suspend or queued:
        return reason(ReasonCode.SUSPENDED, of.JobSuspended(queued=not job.suspend))
    if job.target is not None and job.adopted is None:
        return reason(ReasonCode.NOT_ADOPTED, of.TargetWithdrawn(job.target))
    if job.invalid:
        return reason(ReasonCode.INVALID, of.JobInvalid(job.invalid))
    if job.checking:
        return reason(ReasonCode.CHECKING, of.TemplateChecked())
    if job.budget is None:
        return reason(ReasonCode.NO_BUDGET, of.NoBudgetSelects(job.namespace))
    if job.interactive is not None and not job.interactive.wants_gpus:
        return reason(ReasonCode.NO_GPU_WANTED, _last_session(job, job.interactive))
    return None


def _last_session(job: Job, told: Interactive) -> of.NoGpuWanted:
    """When the job's last session ended, and the cost of the next one, estimated from the last."""
    if not job.records or job.replaced:
        option = None if not job.replaced else job.replaced[-1].option
        at = None
    else:
        option, at = job.records[-1].option, job.records[-1].until
    if option is None:
        return of.NoGpuWanted(told.asks, None, None, None)
    return of.NoGpuWanted(told.answered, at, option.price, option.entry_seconds)


def ready_by(job: Job, allocation: Allocation) -> Instant | None:
    """The deadline for all pods of the allocation's run to be running; None if they are running, or if the run has
    ended.

    The time of a run that did not begin counts from its allocation, plus its predecessor's grace period. A run that
    can never start has a deadline of a few seconds. The deadline of a run whose group changes in place is that of the
    group. The controller of an adopted object recreates lost pods, so the time counts again from when its pods were
    no longer ready.
    """
    run = job.current_run
    if run is not None and (run.ended is not None or job.stopped_in_queue(allocation)):
        return None
    group = job.current_group
    if group is not None and group.formed:
        return _formed_by(job, allocation, group)
    if run is None or run.suspended or run.started is None:
        grace = job.grace_seconds if job.replaced else 0.0
        return after(allocation.since, job.ready_timeout_seconds + grace)
    begun = {pod.index for pod in run.pods if pod.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED)}
    told = None if job.target is None else job.told_ready
    failed = job.target is None and any(pod.phase is PodPhase.FAILED for pod in run.pods)
    if failed or (told is not None and told.ready) or (len(begun) >= len(allocation.placements) and not run.incomplete):
        return None
    seconds = min(_HOPELESS_SECONDS, job.ready_timeout_seconds) if run.hopeless else job.ready_timeout_seconds
    return after(max(run.started, allocation.since, Instant(0) if told is None else told.since), seconds)


def _formed_by(job: Job, allocation: Allocation, group: TrainingGroup) -> Instant | None:
    """The deadline for a run with groups to train as its present group; None if the run already does."""
    if widens(job):
        if _newcomer_failed(job):
            return allocation.since
        return after(allocation.since, job.ready_timeout_seconds)
    if any(index >= len(allocation.placements) for index in group.indexes):
        return None  # pods were removed a moment ago; the next group, without them, has its own deadline
    return group.by if group.pending else None


def fewest_pods(job: Job) -> int:
    """The smallest number of pods for a resize in place: 1 if the job's trainer reports groups, otherwise 2. The
    result is 0 if the job is never resized."""
    if job.resize is not ResizePolicy.IN_PLACE:
        return 0
    return 1 if job.group is not None and job.group.reports else 2


def widens(job: Job) -> bool:
    """Whether pods should join the job's run in place."""
    former, allocation = job.resized_from, job.allocation
    return former is not None and allocation is not None and len(allocation.placements) > len(former.placements)


def _newcomer_failed(job: Job) -> bool:
    run, former = job.current_run, job.resized_from
    pods = () if run is None or former is None else run.pods
    allocation = job.allocation
    return (
        former is not None
        and allocation is not None
        and any(
            pod.phase is PodPhase.FAILED
            and pod.index >= len(former.placements)
            and (pod.finished is None or after(pod.finished, _TOLD_TO_SECONDS) > allocation.since)
            for pod in pods
        )
    )


def settled(job: Job) -> bool:
    """Whether the job's run is running with all its pods, so that a move depends only on its gain."""
    run = job.current_run
    if run is None or run.started is None or run.deleting or run.ended is not None:
        return False
    return job.has_all_pods() and not job.regroups


def must_move(job: Job, market: Market) -> of.Forbidden | None:
    """Why the owner no longer allows the job's placement; None if the job may stay, or is never resized."""
    if job.allocation is None or job.resize is ResizePolicy.NEVER:
        return None
    option = job.allocation.option
    variant = job.variant(option.variant)
    if variant is None:
        return of.VariantNotAllowed(option.variant)
    if not variant.least <= option.gpus <= variant.most:
        return of.WidthNotAllowed(option.gpus, variant.least, variant.most)
    offer = market.offers.get(option.pool)
    if offer is None or not offer.gpu_type:
        return None
    if not takes_part(offer.gpu_type, variant.slices, variant.shared_mib):
        return of.SliceNotAllowed(slice_profile(offer.gpu_type))
    if not names_type(job.gpu_types, offer.gpu_type):
        return of.GpuTypeNotAllowed(offer.gpu_type)
    if offer.capacity_type is CapacityType.SPOT and job.spot is not SpotPolicy.ALLOWED:
        return of.SpotNotAllowed()
    return None


# Jobs choose alike if they have the same class, menu and weight, and belong to the same share of the budget's money.


class GroupKey(NamedTuple):
    """The values that the jobs of a group have in common. ``menu``: the key of their menu."""

    class_id: ClassId
    menu: MenuKey
    weight: float
    share: str


def menu_key(job: Job, classes: frozenset[ClassId], tries: bool = False, offers: NodeOffers = NO_OFFERS) -> MenuKey:
    """The key of a job's menu. ``classes``: classes that have a profile. ``tries``: see ``MenuKey``."""
    known = job.class_id if job.class_id in classes else None
    widths, failed = job.widths, NOWHERE
    if (known is not None or job.variants) and job.failures:
        ended = (record.option for record in job.records if record.outcome is RunOutcome.FAILED)
        failed = frozenset((option.pool, option.gpus, option.variant) for option in ended)
    return MenuKey(
        known,
        widths.min,
        widths.preferred,
        widths.max,
        job.gpu_types,
        job.spot,
        fewest_pods(job),
        failed,
        widths.slices,
        widths.shared_mib,
        job.variants,
        tries,
        widths.each,
        offers.limits(job.demands, widths.each),
    )


def group_key(job: Job, classes: frozenset[ClassId], tries: bool = False, offers: NodeOffers = NO_OFFERS) -> GroupKey:
    """The key of a job's group. Similar jobs without a profile are in one group, whatever their uids."""
    key = menu_key(job, classes, tries, offers)
    class_id = job.class_id if key.class_id is not None else NO_PROFILE
    return GroupKey(class_id, key, job.weight, job.share)


# Runs that stopped advancing while their pods live, for example in a collective operation that one rank never enters.
#
# Such a run would hold its GPUs for ever, because no pod fails. Its trainer reported steps or a fraction before and now
# reports none. A long evaluation or checkpoint looks the same. So a run counts as stalled after
#
# 2^s · max(1800 s, 20 g)
#
# where g is the longest observed time between two advances of the job, including checkpoints and evaluations, and s the
# number of its runs that stalled before. So a first long pause of a new kind may stop a run once, but not the later
# ones. If this process has seen fewer than three advances, the job's reporting interval is unknown. In that case, the
# run counts as stalled after twice the time that it trained up to its last report, limited to between half an hour and
# a day. ``spec.stallTimeoutSeconds`` overrides all this, or disables it. A run that has not advanced yet gets its entry
# time in addition, and 1800 s at least, because it loads and compiles.


_LEAST_SECONDS: Final = 1_800.0
"""Seconds for which any run may stand still. Few evaluations take longer. On a node of $20 per hour, a stall then
costs $10 instead of the $1,000 of a weekend."""
_LONGEST_PAUSES: Final = 20.0
"""Multiple of the longest observed pause that a run may stand still."""
_MOST_DOUBLINGS: Final = 10
_KNOWN: Final = 3
"""Number of observed advances from which their longest pause shows how often the job reports."""
_UNKNOWN_SECONDS: Final = 86_400.0
"""The longest time allowed if the reporting interval is unknown. Few epochs take a day."""


def stall_seconds(job: Job) -> float:
    """Seconds without an advance after which the job's present run counts as stalled."""
    if job.stall_timeout_seconds:
        return job.stall_timeout_seconds
    stalled = sum(record.outcome is RunOutcome.STALLED for record in job.records)
    return max(_LEAST_SECONDS, _pause_seconds(job)) * 2.0 ** min(stalled, _MOST_DOUBLINGS)


def _pause_seconds(job: Job) -> float:
    """Seconds that a run may stand still, by how often the job has reported."""
    run, progress = job.current_run, job.progress
    if progress is not None and progress.advances >= _KNOWN:
        return _LONGEST_PAUSES * progress.longest_pause
    if run is None or run.started is None or progress is None or progress.run != run.number:
        return _UNKNOWN_SECONDS
    return min(2.0 * max(seconds_between(run.started, progress.at), 0.0), _UNKNOWN_SECONDS)


def last_advance(job: Job) -> Instant | None:
    """When the present run last advanced, or when it could begin to advance; None if no advance is due.

    The result is also None if the job has never reported, or if this process has received no report of the run yet.
    """
    run, progress = job.current_run, job.progress
    if run is None or progress is None or not progress.moves or job.allocation is None or run.started is None:
        return None
    if run.ended is not None or not job.has_begun or not any(pod.live for pod in run.pods):
        return None
    if progress.run == run.number:
        return progress.advanced
    return after(max(run.started, job.allocation.since), job.allocation.option.entry_seconds)


def stalls_at(job: Job) -> Instant | None:
    """When the present run counts as stalled if it does not advance before; None if unknown."""
    since = last_advance(job)
    if since is None:
        return None
    advanced = job.progress is not None and job.allocation is not None and job.progress.run == job.allocation.run
    return after(since, stall_seconds(job) if advanced else max(stall_seconds(job), _LEAST_SECONDS))


def replaced_when_stalled(job: Job) -> bool:
    """Whether a stalled run is stopped, so that the job restarts from its last checkpoint.

    A job that is never resized may have no checkpoint, so its stall is only reported, unless its owner sets a
    timeout. The stall of an interactive job is only reported too, because its worker reports no step while no cell
    runs.
    """
    if job.stall_timeout_seconds is None:
        return job.resize is not ResizePolicy.NEVER and job.interactive is None
    return job.stall_timeout_seconds > 0.0


@dataclass(frozen=True, slots=True, eq=False)
class JobFacts:
    """A job and the facts that follow from it alone.

    ``order``: sort key by creation. ``key``: the key of its group. ``statistics``: the class in which the job is
    counted. ``refused``: why the job gets no GPUs. ``settled``: whether its whole run is running, so that a move
    depends only on its gain. ``ready_by``: the deadline for its pods to be running, if they are not. ``stalls_at``:
    when its run is stopped if it does not advance before. ``backs_off_until``: when the job may have its next run.

    ``rentals``: the rentals of its allocation. ``nodes``: nodes with its live pods. ``terminating``: pods that are to
    end, as (node, pod, deadline). ``unrecorded``: pods of ended runs that are not recorded, as (node, run, end).
    ``trials``: runs on widths that had never been measured, as (option, start, end).

    ``recorded_cost``: dollars of its GPUs in recorded runs, and at widths from which runs were resized in place.
    ``price``: dollars per second of its allocation, and ``micros``: micro-dollars per hour, both from ``since`` on.
    ``meters``: (micro-dollars per hour, start) of every run that is not recorded. ``predicted``: dollars of the whole
    job, as of its first start; 0 before that. ``reported``: its remaining dollars by its own progress; None if unknown.
    ``prepaid``: whether the nodes of its allocation are paid for whether used or not.
    """

    job: Job
    order: tuple[Instant, JobId]
    key: GroupKey
    statistics: ClassId
    refused: Reason | None
    settled: bool
    ready_by: Instant | None
    stalls_at: Instant | None
    backs_off_until: Instant | None
    rentals: frozenset[RentalId]
    nodes: tuple[NodeName, ...]
    terminating: tuple[tuple[NodeName, str, Instant], ...]
    unrecorded: tuple[tuple[NodeName, str, Instant], ...]
    recorded_cost: float
    price: float
    micros: int
    since: Instant | None
    meters: tuple[tuple[int, Instant], ...]
    predicted: float
    reported: float | None
    trials: tuple[tuple[Option, Instant, Instant | None], ...]
    prepaid: bool = False

    def spent(self, now: Instant) -> float:
        """Dollars of the GPUs that the job held, by its own record."""
        return self.recorded_cost + sum(
            [Price(micros).dollars_per_second * max(seconds_between(since, now), 0.0) for micros, since in self.meters]
        )


def job_facts(
    job: Job,
    classes: frozenset[ClassId],
    trying: frozenset[JobId] = frozenset(),
    committed: frozenset[PoolId] = frozenset(),
    offers: NodeOffers = NO_OFFERS,
) -> JobFacts:
    """The facts of a job. ``classes``: classes that have a profile. ``trying``: see ``trying_jobs``.

    ``committed``: pools whose nodes are paid for whether used or not. ``offers``: the possible nodes of pools.
    """
    allocation = job.allocation
    return JobFacts(
        job=job,
        order=(job.created, job.id),
        key=group_key(job, classes, job.id in trying, offers),
        statistics=job.statistics,
        refused=not_wanted(job),
        settled=settled(job),
        ready_by=None if allocation is None else ready_by(job, allocation),
        stalls_at=stalls_at(job) if replaced_when_stalled(job) else None,
        backs_off_until=backs_off_until(job),
        rentals=frozenset() if allocation is None else frozenset(place.rental for place in allocation.placements),
        nodes=tuple(pod.node for run in job.runs for pod in run.pods if pod.node is not None and pod.live),
        terminating=tuple(
            (pod.node, pod.name, pod.must_end_by)
            for run in job.runs
            for pod in run.pods
            if pod.node is not None and pod.live and pod.must_end_by is not None
        ),
        unrecorded=_unrecorded(job),
        recorded_cost=sum(
            record.option.price.dollars_per_second * max(seconds_between(record.since, record.until), 0.0)
            for record in job.records
        )
        + sum([stretch.option.price.dollars_per_second * stretch.seconds for stretch in job.stretches]),
        price=0.0 if allocation is None else allocation.option.price.dollars_per_second,
        micros=0 if allocation is None else allocation.option.price.micros_per_hour,
        since=None if allocation is None else allocation.since,
        meters=tuple(
            (given.option.price.micros_per_hour, given.since)
            for given in (*job.replaced, allocation)
            if given is not None
        ),
        predicted=0.0 if job.predicted is None else job.predicted.dollars,
        reported=_reported(job),
        trials=_trials(job),
        prepaid=allocation is not None and allocation.option.pool in committed,
    )


def _unrecorded(job: Job) -> tuple[tuple[NodeName, str, Instant], ...]:
    recorded = {record.number for record in job.records}
    return tuple(
        (pod.node, job.run_title(run.number), max([pod.finished or ended for pod in run.pods]))
        for run in job.runs
        if (ended := run.ended) is not None and run.number not in recorded
        if not any(pod.live for pod in run.pods)
        for pod in run.pods
        if pod.node is not None
    )


_ALL_BUT = 1.0 - 1e-9
"""The largest fraction of work done that an unfinished job is assumed to have."""


def job_position(job: Job, mean_work: float) -> JobPosition:
    """The work and progress of the job. ``mean_work``, in seconds of the reference option, is used if the job's own
    work is unknown."""
    done = 0.0 if job.progress is None or job.progress.fraction is None else min(job.progress.fraction, _ALL_BUT)
    return JobPosition(mean_work if job.remaining is None else job.remaining / (1.0 - done), done)


def told_to_stop(job: Job) -> Job:
    """The job after its run was told to stop. The run holds its GPUs until its end is recorded."""
    return job if job.allocation is None else replace(job, allocation=None, replaced=(*job.replaced, job.allocation))


def least_worth(job: Job) -> float:
    """The least value of a second of an interactive job's waiting, in dollars, as its owner declares it; 0 for other
    jobs."""
    told = job.interactive
    return 0.0 if told is None or told.hourly is None else told.hourly.dollars_per_second


def waited_seconds(job: Job, now: Instant) -> float:
    """Seconds for which a job has waited for GPUs; 0 if it has GPUs."""
    if job.allocation is not None:
        return 0.0
    since = max([job.created, *(run.until for run in job.records[-1:])])
    return max(seconds_between(since, now), 0.0)


def next_run(job: Job) -> int:
    """The number of the job's next run."""
    return max(job.last_run, 0 if job.allocation is None else job.allocation.run) + 1


def last_option(job: Job) -> Option | None:
    """The option that the job has or last had; None before its first run."""
    if job.allocation is not None:
        return job.allocation.option
    if job.replaced:
        return job.replaced[-1].option
    return job.records[-1].option if job.records else None


def _trials(job: Job) -> tuple[tuple[Option, Instant, Instant | None], ...]:
    ended = [(record.option, record.since, record.until) for record in job.records if record.option.trial]
    if job.allocation is not None and job.allocation.option.trial:
        return (*ended, (job.allocation.option, job.allocation.since, None))
    return tuple(ended)


def _reported(job: Job) -> float | None:
    fraction = None if job.progress is None else job.progress.fraction
    option = last_option(job)
    if option is None or job.remaining is None or (fraction or 0.0) < TRUSTED_FRACTION:
        return None
    return job.remaining / option.speed * option.price.dollars_per_second
