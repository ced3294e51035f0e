"""What ``charterer explain`` says of an interactive job's sessions."""

from __future__ import annotations

from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.reasons.phrases import format_duration


def sessions_sentence(job: Job) -> str:
    """How its GPUs were used so far, and what they cost; empty for any other job, and before its worker reported."""
    told, usage = job.interactive, None if job.progress is None else job.progress.usage
    if told is None or usage is None:
        return ""
    hourly = "" if job.allocation is None else f", at {Money(job.allocation.option.price.micros_per_hour)} an hour"
    starts = "" if usage.start_seconds is None else f" Its worker starts in {format_duration(usage.start_seconds)}."
    return (
        f"On its GPUs cells ran for {format_duration(usage.busy_seconds)} ({told.busy_cost}) and none for "
        f"{format_duration(usage.idle_seconds)} ({told.idle_cost}){hourly}.{starts}"
    )
