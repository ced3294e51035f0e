"""The view of a TrainingJob."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from charterer.api.condition_types import ConditionType
from charterer.api.models.base import Condition
from charterer.api.models.trainingjob_status import INVALID_TEMPLATE, JobState, TrainingJobView
from charterer.controller.snapshot.problems import PROFILE_NAME
from charterer.controller.status.bottlenecks import bottleneck_conditions
from charterer.controller.status.conditions import condition
from charterer.controller.status.job_limits import own_limits
from charterer.controller.status.job_options import NO_OPTIONS, ShownOptions
from charterer.domain.errors import Problem
from charterer.domain.job import Job
from charterer.domain.jobs.finish import CANNOT_START, FinishKind
from charterer.domain.jobs.job_cost import job_cost
from charterer.domain.plan import ReasonCode, Verdict
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.sentences import count, is_or_are

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
    """The view of a job as of now; the transition times of its conditions are still to be set (``dated``)."""
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
    """The word of the State column."""
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
    """The word of the Why column."""
    if job.finish is not None:
        return job.finish.reason
    if verdict is None:
        return problems[0].reason if problems else ""
    code = verdict.reason.code
    if code is ReasonCode.NO_CURVE and (of_profile := [each.reason for each in problems if each.field == PROFILE_NAME]):
        return of_profile[0]  # why there is no curve says more
    return _word(job, code)


def _word(job: Job, code: ReasonCode) -> str:
    """How an option was chosen says nothing of a job that has none yet: it would look like a reason to wait."""
    return (ReasonCode.PLACING if code in _CHOSEN and job.allocation is None else code).value


def _conditions(
    job: Job, state: JobState, verdict: Verdict | None, problems: Sequence[Problem], now: Instant
) -> tuple[Condition, ...]:
    why = "" if verdict is None else _word(job, verdict.reason.code)
    message = "" if verdict is None else verdict.reason.message
    limited = verdict is not None and verdict.reason.code in _LIMITED
    placed = job.allocation is not None
    ready = job.has_all_pods(ready=True)
    observed = partial(condition, now=now, generation=job.generation)
    conditions = [
        _admitted(job, problems, now),
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


def _resizing_message(job: Job, why: str) -> str:
    """How far a change in place is, and why it is made."""
    return "; ".join(part for part in (regrouping(job), why) if part)


def regrouping(job: Job) -> str:
    """How far a change in place is: how many pods train, get ready, are to leave. Empty where there is none."""
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
    """The indexes of the pods that train while its run is resized in place, as far as its leader has said."""
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
    ready = sum(pod.ready for pod in run.pods)
    why = run.trouble if ready < run.completions else run.incomplete
    said = f"{ready} of {run.completions} pods of {job.run_title(run.number)} {is_or_are(ready)} ready"
    return f"{said}: {why}" if why else said
