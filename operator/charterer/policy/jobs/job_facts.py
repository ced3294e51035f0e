"""Facts of one job, whatever the time and the other jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from charterer.domain.ids import NO_PROFILE, ClassId, JobId, NodeName, PoolId, RentalId
from charterer.domain.interactive import Interactive
from charterer.domain.job import (
    START_ATTEMPTS,
    Allocation,
    Job,
    ResizePolicy,
    Run,
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

# How long a job backs off after a run that failed or never started: as batch/v1 does, so that an outage may pass.
#
# No GPUs are held for a job that backs off. Whoever changes the job's spec (corrects its template, or suspends it
# and resumes it) ends the back-off.


NOT_BEFORE_ITS_RECORD: Final = Instant(2**62)
"""When the job of a withdrawn run may have its next one while the end of that run is not on record: nobody knows."""
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 360.0
"""Batch/v1's back-off after failed pods: 10 s, doubled each time, at most 6 minutes."""
_FIRST_START_SECONDS: Final = 30.0
_START_FACTOR: Final = 4.0
"""Longer after runs that never started: each costs machines, and what they lack (an image, a volume) comes slowly."""


def backs_off_until(job: Job) -> Instant | None:
    """When the job may have its next run; None if its last run gives no reason to wait.

    NOT_BEFORE_ITS_RECORD while the end of a withdrawn run is not on record.
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
    """Seconds of back-off after that many runs in a row that never started (at least one)."""
    return _FIRST_START_SECONDS * _START_FACTOR ** (min(max(start_failures, 1), START_ATTEMPTS) - 1)


# Runs that can never start as they are, by the words of the kubelet, the scheduler and the API server.


_REFUSED: Final = (
    "violates PodSecurity",
    "denied the request",
    "denied request",
    "no PriorityClass with name",
    "pod rejected: RuntimeClass",
    "error looking up service account",
)
"""In the Warning FailedCreate of a Job: Pod Security, a webhook, an admission policy, or something that the template
names and that is missing. A quota is said otherwise."""
_NOT_MOUNTED: Final = re.compile(r'FailedMount: .*(secret|configmap) "[^"]+" not found')
"""The Warning of a pod with a volume of a Secret or ConfigMap that does not exist."""


def hopeless(run: Run) -> bool:
    """Whether a pod of the run cannot start without an edit, or the API server refuses its pods."""
    if not run.pods:
        return any(words in run.warning for words in _REFUSED)
    return _NOT_MOUNTED.match(run.warning) is not None or any(pod.hopeless for pod in run.pods)


# Predicates of one job: whether it wants GPUs, whether its run is running, whether it may stay.


_HOPELESS_SECONDS = 20.0
"""Seconds for a run that can never start: a scheduler or a kubelet may see a label or a Secret that much late, and a
node may have a taint for as long after it is ready."""
_TOLD_TO_SECONDS = 1.0
"""Kubernetes tells in whole seconds when a pod ended."""


def reason(code: ReasonCode, facts: Fact) -> Reason:
    """A reason that is no matter of seconds and dollars."""
    return Reason(code, 0.0, ZERO, facts)


def not_wanted(job: Job) -> Reason | None:
    """Why no GPUs are looked for; None when they are."""
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
    """When the job's last session ended, and what the next one costs, by what that one did."""
    if not job.records or job.replaced:
        option = None if not job.replaced else job.replaced[-1].option
        at = None
    else:
        option, at = job.records[-1].option, job.records[-1].until
    if option is None:
        return of.NoGpuWanted(told.asks, None, None, None)
    return of.NoGpuWanted(told.answered, at, option.price, option.entry_seconds)


def ready_by(job: Job, allocation: Allocation) -> Instant | None:
    """By when all pods of the allocation's run must be running; None when they are, or when the run has been ended.

    A run that did not even begin has the same time, from its allocation on, and its predecessor's grace period. One
    that can never start has a few seconds. A run whose group changes in place has until its group must be formed.
    The controller of an adopted object makes lost pods anew: from when its pods were no longer ready it has the same
    time again.
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
    seconds = min(_HOPELESS_SECONDS, job.ready_timeout_seconds) if hopeless(run) else job.ready_timeout_seconds
    return after(max(run.started, allocation.since, Instant(0) if told is None else told.since), seconds)


def _formed_by(job: Job, allocation: Allocation, group: TrainingGroup) -> Instant | None:
    """By when a run that forms groups must train with those that it should; None when it does."""
    if widens(job):
        if _newcomer_failed(job):
            return allocation.since
        return after(allocation.since, job.ready_timeout_seconds)
    if any(index >= len(allocation.placements) for index in group.indexes):
        return None  # pods were taken away a moment ago: a group without them is asked for next, with a time of its own
    return group.by if group.pending else None


def fewest_pods(job: Job) -> int:
    """From and to how many pods it is resized in place: one where its trainer forms its groups itself. 0: never."""
    if job.resize is not ResizePolicy.IN_PLACE:
        return 0
    return 1 if job.group is not None and job.group.reports else 2


def widens(job: Job) -> bool:
    """Whether pods are to join the job's run in place."""
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
    """Whether the job's run is running with all its pods, so that moving it is a question of gain."""
    run = job.current_run
    if run is None or run.started is None or run.deleting or run.ended is not None:
        return False
    return job.has_all_pods() and not job.regroups


def must_move(job: Job, market: Market) -> of.Forbidden | None:
    """Why the job's owner no longer allows where it runs; None when it may stay (a Never job keeps its width)."""
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


# Which jobs choose alike: those of one class with the same menu and weight.


GroupKey = tuple[ClassId, MenuKey, float]
"""Class, what decides the menu, and weight."""


def menu_key(job: Job, classes: frozenset[ClassId], tries: bool = False, offers: NodeOffers = NO_OFFERS) -> MenuKey:
    """The key of a job's menu. ``classes``: those that have a profile; ``tries``: see ``MenuKey``."""
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
    """Which group a job belongs to; jobs without a profile that are alike are one group, whatever their uid."""
    key = menu_key(job, classes, tries, offers)
    class_id = job.class_id if key.class_id is not None else NO_PROFILE
    return class_id, key, job.weight


# Runs that have stopped to advance while their pods live, as in a collective operation that one rank never enters.
#
# Such a run would hold its GPUs for ever: no pod fails. Its trainer has reported steps or a fraction before, and
# now reports none. An evaluation or a checkpoint looks the same for as long as it lasts. So a run counts as stalled
# after
#
# 2^s · max(1800 s, 20 g)
#
# where g is the longest time between two advances that was seen of the job, checkpoints and evaluations among them,
# and s the number of its runs that stalled before: what a first pause of a new kind breaks off once is let pass
# later. While fewer than three advances were seen, by this process, how often the job reports is not known: then it
# is twice what the run has trained up to its last report, within half an hour and a day.
# ``spec.stallTimeoutSeconds`` says it instead, or that nothing is to be done. A run that has not advanced yet has
# its entry time on top and 1800 s at least, since it loads and compiles.


_LEAST_SECONDS: Final = 1_800.0
"""Seconds for which a run may stand still, whatever is known of it: few evaluations take longer, and on a node of $20
an hour it is $10 instead of a weekend's $1,000."""
_LONGEST_PAUSES: Final = 20.0
"""The longest pauses that were seen, of which so many are waited for."""
_MOST_DOUBLINGS: Final = 10
_KNOWN: Final = 3
"""Advances from which on their longest pause says how often the job reports."""
_UNKNOWN_SECONDS: Final = 86_400.0
"""The longest that is waited for where that is not known: few epochs take a day."""


def stall_seconds(job: Job) -> float:
    """Seconds without an advance after which the job's present run counts as stalled."""
    if job.stall_timeout_seconds:
        return job.stall_timeout_seconds
    stalled = sum(record.outcome is RunOutcome.STALLED for record in job.records)
    return max(_LEAST_SECONDS, _pause_seconds(job)) * 2.0 ** min(stalled, _MOST_DOUBLINGS)


def _pause_seconds(job: Job) -> float:
    """Seconds that a run may stand still by how often the job has reported."""
    run, progress = job.current_run, job.progress
    if progress is not None and progress.advances >= _KNOWN:
        return _LONGEST_PAUSES * progress.longest_pause
    if run is None or run.started is None or progress is None or progress.run != run.number:
        return _UNKNOWN_SECONDS
    return min(2.0 * max(seconds_between(run.started, progress.at), 0.0), _UNKNOWN_SECONDS)


def last_advance(job: Job) -> Instant | None:
    """When the present run advanced last, at the earliest when it was started and could; None where none is due.

    None as well for a job that has never reported, and where this process has not been told of the run yet.
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
    """When the present run counts as stalled if it does not advance before; None where that is not known."""
    since = last_advance(job)
    if since is None:
        return None
    advanced = job.progress is not None and job.allocation is not None and job.progress.run == job.allocation.run
    return after(since, stall_seconds(job) if advanced else max(stall_seconds(job), _LEAST_SECONDS))


def replaced_when_stalled(job: Job) -> bool:
    """Whether such a run is stopped, so that the job starts again from its last checkpoint.

    A job that is never resized may have none: it is only told of, unless its owner says when. So is an interactive one,
    whose worker reports no step while no cell runs.
    """
    if job.stall_timeout_seconds is None:
        return job.resize is not ResizePolicy.NEVER and job.interactive is None
    return job.stall_timeout_seconds > 0.0


@dataclass(frozen=True, slots=True, eq=False)
class JobFacts:
    """A job and what follows from it alone.

    ``order``: of creation. ``key``: of its group; ``statistics``: the class that it counts in. ``refused``: why no GPUs
    are looked for. ``settled``: whether all of its run runs, so that moving it is a question of gain; ``ready_by``: by
    when it must, if it does not. ``stalls_at``: when it is stopped if it does not advance before. ``backs_off_until``:
    when it may have its next run.

    ``rentals``: of its allocation. ``nodes``: where its pods live. ``terminating``: pods that are to end, each with its
    node and by when it must have. ``unrecorded``: nodes with pods of runs that have ended and are not on record, each
    with the run's name and its end. ``trials``: runs on widths that had never been measured, from when until when.

    Its GPUs cost ``recorded_cost`` dollars in the runs on record, and at widths from which runs were resized in place.
    Those of its allocation cost ``price`` dollars a second, or ``micros`` micro-dollars an hour, from ``since`` on.
    ``meters``: these micro-dollars and instants of every run that is not on record. ``predicted``: dollars of the whole
    job, as of its first start; 0 before that. ``reported``: dollars that it will still cost by its own progress.
    ``prepaid``: whether the nodes of its allocation are paid for whether it uses them or not.
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
        """Dollars that the GPUs it held have cost, by its own record."""
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
    """The facts of a job; ``classes``: those that have a profile; ``trying``: see ``trying_jobs``.

    ``committed``: pools whose nodes are paid for whether they are used or not. ``offers``: what their nodes would be.
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
"""The largest fraction of its work that a job which has not ended is taken to have done."""


def job_position(job: Job, mean_work: float) -> JobPosition:
    """Where the job is by what it reported; ``mean_work`` (seconds of the reference option) where it says nothing."""
    done = 0.0 if job.progress is None or job.progress.fraction is None else min(job.progress.fraction, _ALL_BUT)
    return JobPosition(mean_work if job.remaining is None else job.remaining / (1.0 - done), done)


def told_to_stop(job: Job) -> Job:
    """The job when its run has been told to stop: the run holds its GPUs until it is on record."""
    return job if job.allocation is None else replace(job, allocation=None, replaced=(*job.replaced, job.allocation))


def least_worth(job: Job) -> float:
    """Dollars that a second of the job's waiting is worth at least, as its owner says of an interactive job."""
    told = job.interactive
    return 0.0 if told is None or told.hourly is None else told.hourly.dollars_per_second


def waited_seconds(job: Job, now: Instant) -> float:
    """Seconds for which a job without GPUs has waited for them; 0 for one that has some."""
    if job.allocation is not None:
        return 0.0
    since = max([job.created, *(run.until for run in job.records[-1:])])
    return max(seconds_between(since, now), 0.0)


def next_run(job: Job) -> int:
    """The number of a new run."""
    return max(job.last_run, 0 if job.allocation is None else job.allocation.run) + 1


def last_option(job: Job) -> Option | None:
    """The option that the job has, or had last; None before its first run."""
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
