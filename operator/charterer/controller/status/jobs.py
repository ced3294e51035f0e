"""The view of a TrainingJob."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pydantic import TypeAdapter

from charterer.api.models.base import Condition, ConditionStatus
from charterer.api.models.trainingjob_status import (
    INVALID_TEMPLATE,
    MOST_SECONDS,
    OPTIONS_SHOWN,
    ComparedOption,
    JobState,
    TrainingJobView,
)
from charterer.api.names import ConditionType
from charterer.controller.snapshot.jobs import PROFILE_NAME
from charterer.controller.status.conditions import condition
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.job import CANNOT_START, Finish, FinishKind, Job, ResizePolicy
from charterer.domain.job_quote import outcome
from charterer.domain.job_records import job_cost
from charterer.domain.money import Money, Price
from charterer.domain.plan import ReasonCode, TargetOutlook, Verdict
from charterer.domain.pool import Pool
from charterer.domain.reasons.phrases import format_duration, format_money, name
from charterer.domain.reports import Bottleneck, BottleneckKind
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, format_minute, seconds_between
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.alternatives import Alternative, Comparison, Rank, compared_options
from charterer.policy.explain.ruled_out import RuledOut, ruled_out
from charterer.policy.jobs.job_facts import last_advance, replaced_when_stalled, stall_seconds, stalls_at
from charterer.policy.nodes.limits import stop_cost, within_max_cost
from charterer.policy.solve.phase_dp import key_of
from charterer.sentences import count, is_or_are

# Conditions on the bottlenecks of a job's run, with their cost an hour and the remedy.


NO_STEP = "NoStep"


def lost_rate(job: Job, found: Bottleneck) -> Price:
    """Dollars an hour of the job's GPUs that a bottleneck wastes."""
    hourly = 0 if job.allocation is None else job.allocation.option.price.micros_per_hour
    return Price(round(found.lost * hourly))


def bottleneck_conditions(job: Job, now: Instant) -> Iterator[Condition]:
    """A condition for each bottleneck of the present run, and a condition if the run does not advance."""
    if job.finish is not None or job.allocation is None:
        return
    for found in job.bottlenecks:
        reason, message = _told(job, found)
        yield condition(ConditionType(found.kind), True, reason, message, now, job.generation)
    at, since = stalls_at(job), last_advance(job)
    if at is not None and since is not None and now >= at and not replaced_when_stalled(job):
        yield condition(ConditionType.NOT_ADVANCING, True, NO_STEP, _stalled(job, since), now, job.generation)


def _told(job: Job, found: Bottleneck) -> tuple[str, str]:
    """Reason and message of a bottleneck's condition."""
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
    """A sentence on the remedy for a slow worker."""
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


# Conditions on a job's own limits: its targetCompletionTime and its maxCost.


IN_TIME = "InTime"
TARGET_MISSED = "TargetMissed"
_END_UNKNOWN = "EndUnknown"
_NOT_LIMITED = "NotLimited"


def own_limits(job: Job, verdict: Verdict | None, cost: Money, now: Instant) -> tuple[Condition, ...]:
    """The conditions on the job's limits and on its quote. ``cost``: the job's cost so far."""
    limits = on_target(job, verdict, now), max_cost_condition(job, verdict, cost, now), within_quote(job, cost, now)
    return tuple(limit for limit in limits if limit is not None)


_Shown = tuple[bool | None, str, str]
"""Whether a condition holds (None: unknown), its reason and its message."""


def on_target(job: Job, verdict: Verdict | None, now: Instant) -> Condition | None:
    """Whether the job ends by its targetCompletionTime. None if the job has no target."""
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
    """Whether the plan expects a job that has not ended to meet its target."""
    wanted = f"target {format_minute(target)}"
    outlook = None if verdict is None else verdict.target
    seconds = None if verdict is None else verdict.remaining_seconds
    if outlook is not None and not outlook.counts:
        return False, TARGET_MISSED, _out_of_reach(wanted, target, outlook, seconds, now)
    if outlook is not None and (seconds is None or not outlook.met or outlook.seconds < seconds):
        seconds = outlook.seconds  # for the path that the target needs; the path without a target may end earlier
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
    """The sentence on a target that is ignored. ``seconds``: until the expected end without the target."""
    fastest = after(now, outlook.fastest_seconds)
    late = f"the fastest path ends {format_minute(fastest)}, {_later(target, fastest)} it"
    ends = "" if seconds is None else f", and is expected to end {format_minute(after(now, seconds))}"
    return f"{wanted} cannot be met: {late}; so the job is treated as one without a target{ends}"


def max_cost_condition(job: Job, verdict: Verdict | None, cost: Money, now: Instant) -> Condition | None:
    """Whether the job ends before its maxCost requires a stop. None if the job has no maxCost or has ended.

    ``cost``: the job's cost so far.
    """
    limit = job.cost_limit
    if limit is None or job.finish is not None:
        return None
    observed = partial(condition, ConditionType.WITHIN_MAX_COST, now=now, generation=job.generation)
    if verdict is not None and verdict.reason.code is ReasonCode.MAX_COST:
        return observed(False, ReasonCode.MAX_COST.value, verdict.reason.message)
    if verdict is None or verdict.option is None or verdict.remaining_seconds is None:
        spent = f"{cost} of {limit.amount} ({limit.field}) are spent"
        if job.remaining is None:
            spent += (
                "; nothing says how much work it is, so its cost is not known, and it is stopped before it costs more"
            )
        return observed(None, _END_UNKNOWN, spent)
    option = verdict.option
    rest = option.paid_price.dollars_per_second * verdict.remaining_seconds
    needed = cost + Money.of(rest + stop_cost(job, option))
    if within_max_cost(job, option, rest, (limit.amount - cost).dollars):
        message = f"about {cost + Money.of(rest)} in all on {name(option)}; {limit.field} is {limit.amount}"
        return observed(True, _NOT_LIMITED, message)
    message = (
        f"{cost} are spent, and on {name(option)} the job would be stopped before its end: it needs about {needed} in "
        f"all, including a reserve for an orderly stop, and {limit.field} is {limit.amount}: {limit.raised_by}"
    )
    return observed(False, ReasonCode.MAX_COST.value, message)


QUOTE_HELD = "QuoteHeld"
QUOTE_MISSED = "QuoteMissed"


def within_quote(job: Job, cost: Money, now: Instant) -> Condition | None:
    """Whether a complete job met its quoted cost and end. None if the job has no quote or is not complete.

    A failed job proves nothing about its quote, because a quote is for a job that completes.
    """
    quote, finish = job.quote, job.finish
    if quote is None or finish is None or not finish.done:
        return None
    came = outcome(quote, cost, finish.at)
    said = f"{quote.cost_low} to {quote.cost_high}"
    if quote.end_low is not None and quote.end_high is not None:
        said += f", and an end from {format_minute(quote.end_low)} to {format_minute(quote.end_high)}"
    text = (
        f"the job cost {cost} and ended {format_minute(finish.at)}; its quote of {format_minute(quote.at)} said {said}"
    )
    held = came.cost and came.end is not False
    reason = QUOTE_HELD if held else QUOTE_MISSED
    return condition(ConditionType.WITHIN_QUOTE, held, reason, text, now=now, generation=job.generation)


def _later(target: Instant, ends: Instant) -> str:
    return f"{format_duration(seconds_between(target, ends))} after"


# The options in a job's status are the comparison that ``charterer explain`` prints, for people who may read only the
# job.


_log = logging.getLogger(__name__)

RULED_OUT = "ruled out"
"""The verdict on an option that the job may not have."""
_FRESH_SECONDS = 30.0
"""Seconds for which a comparison of options is shown while the decision is unchanged. Numbers of a view are written as
often.
"""
_COMPARED_A_SECOND = 1_000
"""Most options compared in a second, over all jobs. These comparisons take 20 to 60 ms of the thread in that second,
and less if jobs have many options.
"""

_ROWS: TypeAdapter[tuple[ComparedOption, ...]] = TypeAdapter(tuple[ComparedOption, ...])


class ShownOptions(NamedTuple):
    """The options, and the time of their comparison (None if there was none)."""

    rows: tuple[ComparedOption, ...] = ()
    as_of: Instant | None = None


NO_OPTIONS = ShownOptions()


@dataclass(frozen=True, slots=True)
class _Kept:
    """The options of a job, valid while ``decision`` is unchanged. ``rows``: JSON text, as in ``ViewWriter``."""

    decision: tuple[object, ...]
    rows: bytes
    as_of: Instant


class JobOptions:
    """Compares the options of jobs by the last plan, for a limited number of jobs a second. Each comparison is shown
    for a while.
    """

    def __init__(self) -> None:
        self._solutions: dict[BudgetId, BudgetSolution] = {}
        self._budgets: dict[BudgetId, Comparison] = {}
        self._kept: dict[JobId, _Kept] = {}
        self._left = float(_COMPARED_A_SECOND)
        self._looked: Instant | None = None

    def planned(self, snapshot: Snapshot, solutions: Iterable[BudgetSolution]) -> None:
        """Take the snapshot of a plan and the ``solutions`` that it was made from (none if it failed)."""
        self._solutions = {solution.budget.id: solution for solution in solutions}
        self._budgets = {}
        for gone in self._kept.keys() - snapshot.jobs.keys():
            del self._kept[gone]

    def of(self, job: Job, verdict: Verdict | None, now: Instant) -> ShownOptions:
        """The options of a job in the last plan's snapshot, or none before they are compared."""
        solution = None if job.budget is None else self._solutions.get(job.budget)
        if solution is None or verdict is None or not job.wants_to_run:
            self._kept.pop(job.id, None)
            return NO_OPTIONS
        has = None if job.allocation is None else key_of(job.allocation.option)
        wants = None if verdict.option is None else key_of(verdict.option)
        decision = job.generation, has, wants, verdict.reason.code
        kept = self._kept.get(job.id)
        if kept is not None and kept.decision != decision:
            del self._kept[job.id]
            kept = None
        fresh = kept is not None and seconds_between(kept.as_of, now) < _FRESH_SECONDS
        if not fresh and self._may_compare(now):
            rows: tuple[ComparedOption, ...] = ()
            try:
                rows = self._compared(job, verdict, solution)
            except Exception:  # the rest of the view is shown anyway
                if kept is None:
                    _log.exception("options of TrainingJob %s/%s; please report it", job.namespace, job.name)
            self._kept[job.id] = _Kept(decision, _ROWS.dump_json(rows, exclude_none=True), now)
            return ShownOptions(rows, now)
        return NO_OPTIONS if kept is None else ShownOptions(_ROWS.validate_json(kept.rows), kept.as_of)

    def _may_compare(self, now: Instant) -> bool:
        passed = 0.0 if self._looked is None else max(seconds_between(self._looked, now), 0.0)
        self._left = min(self._left + passed * _COMPARED_A_SECOND, _COMPARED_A_SECOND)
        self._looked = now
        return self._left > 0.0

    def _compared(self, job: Job, verdict: Verdict, solution: BudgetSolution) -> tuple[ComparedOption, ...]:
        budget = self._budgets.get(solution.budget.id)
        if budget is None:
            budget = self._budgets[solution.budget.id] = Comparison.of(solution)
        self._left -= 1
        found, pools = compared_options(job, verdict, budget, OPTIONS_SHOWN), budget.snapshot.pools
        self._left -= found.compared
        if found.rows:
            return tuple([_compared(row, verdict, pools.get(row.option.pool)) for row in found.rows])
        selected = budget.snapshot.pools_of(solution.budget)
        excluded = [each for each in ruled_out(job, verdict, solution) if each.pool in selected]
        return tuple([_ruled_out(each, selected[each.pool]) for each in excluded[:OPTIONS_SHOWN]])


def _compared(row: Alternative, verdict: Verdict, pool: Pool | None) -> ComparedOption:
    return ComparedOption(
        pool=row.option.pool,
        gpu_type=_gpu_type(pool),
        capacity_type=None if pool is None else pool.capacity_type,
        gpus=row.option.gpus,
        variant=row.option.variant or None,
        hourly=row.option.price,
        seconds_left=_seconds(row.seconds),
        cost_left=_money(row.dollars + row.empty),
        per_hour_saved=None if row.per_hour_saved is None else _money(row.per_hour_saved),
        verdict=str(row.rank),
        nodes=str(row.nodes),
        message=verdict.reason.message if row.rank is Rank.CHOSEN else "",
    )


def _ruled_out(found: RuledOut, pool: Pool) -> ComparedOption:
    return ComparedOption(
        pool=found.pool,
        gpu_type=_gpu_type(pool),
        capacity_type=pool.capacity_type,
        gpus=None if found.option is None else found.option.gpus,
        variant=None if found.option is None else found.option.variant or None,
        hourly=None if found.option is None else found.option.price,
        seconds_left=None if found.seconds is None else _seconds(found.seconds),
        cost_left=None if found.dollars is None else _money(found.dollars),
        verdict=RULED_OUT,
        message=found.why,
    )


def _gpu_type(pool: Pool | None) -> str | None:
    return None if pool is None or pool.offering is None else pool.offering.gpu_type


def _seconds(seconds: float) -> int:
    return round(min(max(seconds, 0.0), MOST_SECONDS))


def _money(dollars: float) -> Money:
    return Money.of(max(dollars, 0.0))


_AS_ASKED = (JobState.RUNNING, JobState.RESIZING, JobState.SUSPENDED, JobState.IDLE, JobState.COMPLETE)
"""States in which a job is as its spec asks. As with a Kubernetes Job, a job that has begun or is suspended counts."""
_GIVEN_UP = (JobState.FAILED, JobState.CANNOT_START)
"""States that no change of the spec ends. A refused template is not among them, because it may be accepted later."""
_CHOSEN = (ReasonCode.BUDGET_OPTIMAL, ReasonCode.RIGID, ReasonCode.NO_CURVE, ReasonCode.CHEAPEST_OVER_BUDGET)
_LIMITED = (
    ReasonCode.WAITING_FOR_BUDGET,
    ReasonCode.HARD_LIMIT,
    ReasonCode.HOURLY_LIMIT,
    ReasonCode.CHEAPEST_OVER_BUDGET,
    ReasonCode.MAX_COST,
)


def job_view(
    job: Job,
    verdict: Verdict | None,
    problems: Sequence[Problem],
    snapshot: Snapshot,
    options: ShownOptions = NO_OPTIONS,
) -> TrainingJobView:
    """The view of a job as of now. ``dated`` sets the transition times of its conditions."""
    state = job_state(job)
    cost = job_cost(job, snapshot.rentals, snapshot.now)
    running = state is JobState.RUNNING and verdict is not None and verdict.remaining_seconds is not None
    return TrainingJobView(
        observed_generation=job.generation,
        budget=job.budget,
        state=state,
        gpus=0 if job.trains_on is None else job.trains_on.option.gpus,
        want_gpus=0 if verdict is None or verdict.option is None else verdict.option.gpus,
        pool=None if job.allocation is None else job.allocation.option.pool,
        progress_percent=_progress_percent(job),
        eta=after(snapshot.now, verdict.remaining_seconds or 0.0) if running and verdict is not None else None,
        cost=cost,
        why=why_word(job, verdict, problems),
        options=options.rows,
        options_as_of=options.as_of,
        conditions=(
            *_conditions(job, state, verdict, problems, snapshot.now),
            *own_limits(job, verdict, cost, snapshot.now),
            *bottleneck_conditions(job, snapshot.now),
        ),
    )


def job_state(job: Job) -> JobState:
    """The state in column State."""
    if job.finish is not None:
        if job.finish.reason == CANNOT_START:
            return JobState.CANNOT_START
        return JobState.COMPLETE if job.finish.kind is FinishKind.COMPLETE else JobState.FAILED
    alive = any(pod.live for run in job.runs for pod in run.pods)
    if job.deleting:
        return JobState.STOPPING
    if job.suspend:
        return JobState.STOPPING if alive else JobState.SUSPENDED
    if job.allocation is None:
        if alive:
            return JobState.STOPPING
        if job.invalid:
            return JobState.INVALID
        return JobState.IDLE if job.interactive is not None and not job.interactive.wants_gpus else JobState.QUEUED
    if job.current_run is not None and job.current_run.failed is not None:
        return JobState.STOPPING
    if job.regroups:
        return JobState.RESIZING
    if job.has_begun:
        return JobState.RUNNING
    older = any(pod.live for run in job.runs if run.number != job.allocation.run for pod in run.pods)
    run = job.current_run
    in_place = run is not None and not run.suspended and run.completions != len(job.allocation.placements)
    return JobState.RESIZING if older or in_place else JobState.STARTING


def _progress_percent(job: Job) -> int | None:
    if job.finish is not None and job.finish.done:
        return 100
    if job.progress is None or job.progress.fraction is None:
        return None
    return int(job.progress.fraction * 100)


def why_word(job: Job, verdict: Verdict | None, problems: Sequence[Problem]) -> str:
    """The reason in column Why."""
    if job.finish is not None:
        return job.finish.reason
    if verdict is None:
        return problems[0].reason if problems else ""
    code = verdict.reason.code
    if code is ReasonCode.NO_CURVE and (of_profile := [each.reason for each in problems if each.field == PROFILE_NAME]):
        return of_profile[0]  # that the profile has no curve is the more specific reason
    return _word(job, code)


def _word(job: Job, code: ReasonCode) -> str:
    """The code as text. If a job has no allocation yet, Placing replaces the reason for the choice of its option, which
    would look like a reason to wait.
    """
    return (ReasonCode.PLACING if code in _CHOSEN and job.allocation is None else code).value


def _conditions(
    job: Job, state: JobState, verdict: Verdict | None, problems: Sequence[Problem], now: Instant
) -> tuple[Condition, ...]:
    why = "" if verdict is None else _word(job, verdict.reason.code)
    message = "" if verdict is None else verdict.reason.message
    limited = verdict is not None and verdict.reason.code in _LIMITED
    placed = job.allocation is not None
    ready = job.pods_ready
    observed = partial(condition, now=now, generation=job.generation)
    admitted = _admitted(job, problems, now)
    conditions = [
        *_readiness(job, state, admitted, message, now),
        admitted,
        observed(
            ConditionType.CAPACITY_AVAILABLE,
            placed if job.finish is None else None,
            "Placed" if placed else why or "NotNeeded",
            _capacity_message(placed, verdict),
        ),
        observed(ConditionType.PODS_READY, ready, _pods_reason(job, ready=ready), _pods_message(job)),
        observed(
            ConditionType.RESIZING,
            state is JobState.RESIZING,
            why if state is JobState.RESIZING and why else "Steady",
            _resizing_message(job, message) if state is JobState.RESIZING else "",
        ),
        observed(ConditionType.BUDGET_LIMITED, limited, why if limited else "NotLimited", message if limited else ""),
        observed(
            ConditionType.SUSPENDED,
            state is JobState.SUSPENDED,
            "SuspendRequested" if job.suspend else "NotRequested",
            "",
        ),
    ]
    run = job.current_run
    if run is not None and run.ended is None and run.template not in ("", job.template):
        message = (
            f"the pods of {run.name} keep the template that it began with; the next run has the new one. "
            "To begin that now, set spec.suspend to true and, when the job is Suspended, to false"
        )
        conditions.append(observed(ConditionType.TEMPLATE_CURRENT, False, "TemplateChanged", message))
    if job.finish is not None:
        kind = ConditionType.COMPLETE if job.finish.kind is FinishKind.COMPLETE else ConditionType.FAILED
        conditions.append(observed(kind, True, job.finish.reason, job.finish.message, now=job.finish.at))
    return tuple(conditions)


def _readiness(job: Job, state: JobState, admitted: Condition, waits: str, now: Instant) -> Iterator[Condition]:
    """The conditions Ready and Stalled, which kstatus reads from any kind. Ready says that the job is as its spec asks,
    and Stalled that it never will be.

    ``waits``: the sentence of the job's verdict.
    """
    if job.finish is not None:
        message = job.finish.message
    elif state in _AS_ASKED:
        message = ""
    elif admitted.status is ConditionStatus.FALSE:
        message = admitted.message
    else:
        message = _pods_message(job) if state is JobState.STARTING else waits or admitted.message
    yield condition(ConditionType.READY, state in _AS_ASKED, state.value, message, now, job.generation)
    if state in _GIVEN_UP:
        yield condition(ConditionType.STALLED, True, state.value, message, now, job.generation)


def _resizing_message(job: Job, why: str) -> str:
    """The progress of a change in place, and its reason."""
    return "; ".join(part for part in (regrouping(job), why) if part)


def regrouping(job: Job) -> str:
    """The numbers of pods that train, get ready and leave during a change in place, or "" if there is none."""
    run = job.current_run
    if run is None or not job.regroups:
        return ""
    training, pods = len(training_pods(job)), run.completions
    intended = 0 if job.allocation is None else len(job.allocation.placements)
    most = max(pods, intended)
    text = f"{training} of {count(most, 'pod')} {'trains' if training == 1 else 'train'}"
    if intended > training:
        return f"{text}; {intended - training} {is_or_are(intended - training)} getting ready"
    return f"{text}; {most - intended} {is_or_are(most - intended)} to leave" if most > intended else text


def training_pods(job: Job) -> Sequence[int]:
    """The indexes of the pods that train while their run is resized in place, by their leader's last report."""
    group = job.current_group
    if group is None:
        return ()
    former = job.resized_from if group.pending else None
    return group.indexes if former is None else group.indexes[: len(former.placements)]


def _capacity_message(placed: bool, verdict: Verdict | None) -> str:
    if not placed:
        return "" if verdict is None else verdict.reason.message
    if verdict is not None and verdict.reason.code is ReasonCode.NO_OPTION:
        return f"the job has its GPUs: {verdict.reason.message}"
    return "the job has its GPUs"


def _admitted(job: Job, problems: Sequence[Problem], now: Instant) -> Condition:
    admitted = partial(condition, ConditionType.ADMITTED, now=now, generation=job.generation)
    if job.checking:
        return admitted(None, "Checking", "the template is being tried by a dry run")
    if job.invalid:
        return admitted(False, INVALID_TEMPLATE, job.invalid)
    if job.budget is None:
        message = f"no GPUBudget selects namespace {job.namespace}: create one, or label the namespace for one"
        return admitted(False, "NoBudget", message)
    if problems:
        message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
        return admitted(True, problems[0].reason, message)
    return admitted(True, "Accepted", f"paid by GPUBudget {job.budget}")


def _pods_reason(job: Job, *, ready: bool) -> str:
    run = job.current_run
    if ready:
        return "AllReady"
    return "NotReady" if run is None or not run.trouble else ReasonCode.NOT_STARTING.value


def _pods_message(job: Job) -> str:
    run = job.current_run
    if run is None:
        return "no run"
    ready = sum(pod.ready or pod.proves_completion for pod in run.pods)
    why = run.trouble or run.incomplete if run.incomplete or ready < run.completions else ""
    said = f"{ready} of {run.completions} pods of {job.run_title(run.number)} {is_or_are(ready)} ready"
    return f"{said}: {why}" if why else said
