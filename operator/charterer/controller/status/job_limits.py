"""Whether a job can keep to its own limits: its targetCompletionTime and its maxCost."""

from __future__ import annotations

from functools import partial

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition
from charterer.controller.status.conditions import condition
from charterer.domain.job import Job
from charterer.domain.jobs.finish import Finish, FinishKind
from charterer.domain.money import Money
from charterer.domain.plan import ReasonCode, TargetOutlook, Verdict
from charterer.domain.reasons.phrases import format_duration, name
from charterer.domain.time import Instant, after, format_minute, seconds_between
from charterer.policy.nodes.max_cost import stop_cost, within_max_cost

IN_TIME = "InTime"
TARGET_MISSED = "TargetMissed"
_END_UNKNOWN = "EndUnknown"
_NOT_LIMITED = "NotLimited"


def own_limits(job: Job, verdict: Verdict | None, cost: Money, now: Instant) -> tuple[Condition, ...]:
    """The conditions of the limits that the job has; ``cost`` is what it has cost so far."""
    limits = on_target(job, verdict, now), max_cost_condition(job, verdict, cost, now)
    return tuple(limit for limit in limits if limit is not None)


_Shown = tuple[bool | None, str, str]
"""Whether a condition holds (None: unknown), its reason and its message."""


def on_target(job: Job, verdict: Verdict | None, now: Instant) -> Condition | None:
    """Whether the job ends by its targetCompletionTime; None where it has none."""
    target = job.target_completion
    if target is None:
        return None
    shown = _ended_on_target(job.finish, target) if job.finish is not None else _to_target(job, target, verdict, now)
    return condition(ConditionType.ON_TARGET, *shown, now=now, generation=job.generation)


def _ended_on_target(finish: Finish, target: Instant) -> _Shown:
    ended, wanted = f"the job ended {format_minute(finish.at)}", f"target {format_minute(target)}"
    if finish.kind is FinishKind.FAILED:
        return False, TARGET_MISSED, f"{ended} as {finish.kind}; {wanted}"
    if finish.at > target:
        return False, TARGET_MISSED, f"{ended}, {_later(target, finish.at)} {wanted}"
    return True, IN_TIME, f"{ended}; {wanted}"


def _to_target(job: Job, target: Instant, verdict: Verdict | None, now: Instant) -> _Shown:
    """The same of a job that has not ended, by what the plan expects of it."""
    wanted = f"target {format_minute(target)}"
    outlook = None if verdict is None else verdict.target
    seconds = None if verdict is None else verdict.remaining_seconds
    if outlook is not None and not outlook.counts:
        return False, TARGET_MISSED, _out_of_reach(wanted, target, outlook, seconds, now)
    if outlook is not None and (seconds is None or not outlook.met or outlook.seconds < seconds):
        seconds = outlook.seconds  # of the path that the target needs; the job's own may end before that
    starts_in = 0.0 if verdict is None else verdict.starts_in
    ends = None if seconds is None else after(now, starts_in + seconds)
    starts = "" if job.allocation is not None or starts_in else " if it starts now"
    if target <= now:
        expected = "" if ends is None else f"; the job is expected to end {format_minute(ends)}{starts}"
        return False, TARGET_MISSED, f"{wanted} has passed{expected}"
    if ends is None:
        return None, _END_UNKNOWN, f"{wanted}; when the job ends is not known"
    if outlook.met if outlook is not None else ends <= target:
        return True, IN_TIME, f"expected to end {format_minute(ends)}{starts}; {wanted}"
    missed = f"{wanted} cannot be met"
    late = f"ends {format_minute(ends)}{starts}, {_later(target, ends)} it"
    if outlook is None:
        return False, TARGET_MISSED, f"{missed}: the job {late}"
    if outlook.seconds <= outlook.fastest_seconds:
        return False, TARGET_MISSED, f"{missed}: the fastest path {late}"
    fastest = f"the fastest of all ends {format_minute(after(now, outlook.fastest_seconds))}"
    return (
        False,
        TARGET_MISSED,
        f"{missed} with what is left of the budget: the fastest path that it pays for {late}; {fastest}",
    )


def _out_of_reach(wanted: str, target: Instant, outlook: TargetOutlook, seconds: float | None, now: Instant) -> str:
    """The sentence on a target that counts as none; ``seconds``: to the expected end without it."""
    fastest = after(now, outlook.fastest_seconds)
    late = f"the fastest path ends {format_minute(fastest)}, {_later(target, fastest)} it"
    ends = "" if seconds is None else f", and is expected to end {format_minute(after(now, seconds))}"
    return f"{wanted} cannot be met: {late}; so the job is treated as one without a target{ends}"


def max_cost_condition(job: Job, verdict: Verdict | None, cost: Money, now: Instant) -> Condition | None:
    """Whether the job, which has cost ``cost`` so far, ends before it has to be stopped for its maxCost.

    None where it has no maxCost, or has ended.
    """
    if job.max_cost is None or job.finish is not None:
        return None
    observed = partial(condition, ConditionType.WITHIN_MAX_COST, now=now, generation=job.generation)
    if verdict is not None and verdict.reason.code is ReasonCode.MAX_COST:
        return observed(False, ReasonCode.MAX_COST.value, verdict.reason.message)
    if verdict is None or verdict.option is None or verdict.remaining_seconds is None:
        spent = f"{cost} of spec.maxCost {job.max_cost} are spent"
        if job.remaining is None:
            spent += (
                "; nothing says how much work it is, so its cost is not known, and it is stopped before it costs more"
            )
        return observed(None, _END_UNKNOWN, spent)
    option = verdict.option
    rest = option.paid_price.dollars_per_second * verdict.remaining_seconds
    needed = cost + Money.of(rest + stop_cost(job, option))
    if within_max_cost(job, option, rest, (job.max_cost - cost).dollars):
        message = f"about {cost + Money.of(rest)} in all on {name(option)}; spec.maxCost {job.max_cost}"
        return observed(True, _NOT_LIMITED, message)
    message = (
        f"{cost} are spent, and on {name(option)} the job would be stopped before its end: it needs about {needed} in "
        f"all, including a reserve for an orderly stop, and spec.maxCost is {job.max_cost}: raise it"
    )
    return observed(False, ReasonCode.MAX_COST.value, message)


def _later(target: Instant, ends: Instant) -> str:
    return f"{format_duration(seconds_between(target, ends))} after"
