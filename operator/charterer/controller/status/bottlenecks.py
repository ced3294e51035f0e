"""The conditions of what holds a job's run up: what it costs an hour, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition
from charterer.controller.status.conditions import condition
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.money import Price
from charterer.domain.reasons.phrases import format_duration, format_money
from charterer.domain.reports.bottleneck import Bottleneck, BottleneckKind
from charterer.domain.time import Instant, format_minute
from charterer.policy.jobs.stalls import last_advance, replaced_when_stalled, stall_seconds, stalls_at

NO_STEP = "NoStep"


def lost_rate(job: Job, found: Bottleneck) -> Price:
    """Dollars an hour of the job's GPUs that a bottleneck takes."""
    hourly = 0 if job.allocation is None else job.allocation.option.price.micros_per_hour
    return Price(round(found.lost * hourly))


def bottleneck_conditions(job: Job, now: Instant) -> Iterator[Condition]:
    """A condition for each bottleneck of the present run; none where nothing holds it up."""
    if job.finish is not None or job.allocation is None:
        return
    for found in job.bottlenecks:
        reason, message = _told(job, found)
        yield condition(ConditionType(found.kind), True, reason, message, now, job.generation)
    at, since = stalls_at(job), last_advance(job)
    if at is not None and since is not None and now >= at and not replaced_when_stalled(job):
        yield condition(ConditionType.STALLED, True, NO_STEP, _stalled(job, since), now, job.generation)


def _told(job: Job, found: Bottleneck) -> tuple[str, str]:
    """Reason and message."""
    assert job.allocation is not None
    cost = f"that is {found.lost:.0%} of its time, {format_money(lost_rate(job, found).dollars_per_hour)} an hour"
    where = "" if found.pod is None else f"pod {found.pod} of run {found.run}"
    on = "" if found.rental is None else f" on GPURental {found.rental}"
    match found.kind:
        case BottleneckKind.SLOW_WORKER:
            text = f"{where}{on} computes {found.value:.2f} times as long as the others, which wait for it: {cost}. "
            return (
                "SlowerThanPeers",
                text + _remedy(job, found),
            )
        case BottleneckKind.SLOW_NODE:
            text = f"{where}{on} computes {found.value:.2f} times as long as runs of its class on other nodes: {cost}. "
            return "SlowerThanItsClass", text + (
                f"It is the node, or this job's own data: delete GPURental {found.rental} to get another node"
            )
        case BottleneckKind.INPUT_STARVED:
            text = f"{where or 'every pod'}{on} waits for input in {found.value:.0%} of each step: {cost}. "
            return "WaitsForInput", text + "Start more loader processes, or bring the data nearer"
        case BottleneckKind.SYNC_BOUND:
            text = f"all ranks wait for each other in {found.value:.0%} of each step: {cost}. "
            return "WaitsForOthers", text + "Raise the batch, accumulate gradients, or use fewer and larger nodes"
        case BottleneckKind.CHECKPOINT_TOO_LONG:
            rate = format_money(job.allocation.option.price.dollars_per_hour)
            text = f"a checkpoint takes {found.value:.0f} s and the grace period is {job.grace_seconds} s: "
            text += f"a stop loses what was done since the last one, at {rate} an hour. "
            return "LongerThanGrace", text + "Raise terminationGracePeriodSeconds, or save faster"


def _remedy(job: Job, found: Bottleneck) -> str:
    """What becomes of a slow worker."""
    if job.nodes_replaced:
        return "It got another node before: so it is rather what this rank has to do"
    if job.resize is ResizePolicy.NEVER:
        return f"Delete GPURental {found.rental} to start the job again with another node"
    return "It gets another node once that pays"


def _stalled(job: Job, since: Instant) -> str:
    assert job.allocation is not None
    rate = format_money(job.allocation.option.price.dollars_per_hour)
    return (
        f"run {job.allocation.run} has not advanced since {format_minute(since)}, for more than "
        f"{format_duration(stall_seconds(job))}, while its pods live: {rate} an hour. Read the logs of all ranks, and "
        "delete its pods to start it again; with spec.stallTimeoutSeconds that is done for you"
    )
