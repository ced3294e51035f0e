"""Predicates of one job: whether it wants GPUs, whether its run is running, whether it may stay."""

from __future__ import annotations

from charterer.domain.job import Allocation, Job, ResizePolicy, SpotPolicy
from charterer.domain.jobs.group import TrainingGroup
from charterer.domain.jobs.interactive import Interactive
from charterer.domain.jobs.pod import PodPhase
from charterer.domain.money import ZERO
from charterer.domain.plan import Reason, ReasonCode
from charterer.domain.pool import CapacityType
from charterer.domain.reasons import facts_of_jobs as of
from charterer.domain.reasons.fact import Fact
from charterer.domain.time import Instant, after
from charterer.gpu_types import names_type, slice_profile, takes_part
from charterer.policy.jobs.hopeless import hopeless
from charterer.policy.options.market import Market

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
