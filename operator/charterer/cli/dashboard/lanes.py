"""The widths of jobs over time, from the jobs' own records."""

from __future__ import annotations

from charterer.cli.shared.output import JsonValue
from charterer.domain.job import Allocation, Job, RunRecord
from charterer.domain.jobs.job_cost import spans
from charterer.domain.time import Instant


def lane_json(job: Job, state: str, cost: str | None, now: Instant) -> JsonValue:
    """The job's runs in order, at the widths that their GPUs were held with; times are milliseconds since 1970.

    ``cost``: dollars of all its runs. ``why`` of a run: the reason of its width.
    ``widthFrom`` of a run that was resized in place: since when it has its width. How long such runs had others is in
    ``inPlace``, in all: their order is not on record.
    """
    return {
        "namespace": job.namespace,
        "name": job.name,
        "state": state,
        "budget": job.budget,
        "user": job.user or None,
        "created": _milliseconds(job.created),
        "finished": None if job.finish is None else _milliseconds(job.finish.at),
        "finish": None if job.finish is None else job.finish.message or job.finish.reason,
        "cost": cost,
        "runs": [_run_json(job, *span) for span in spans(job, now)],
        "inPlace": [
            {"gpus": stretch.option.gpus, "pool": stretch.option.pool, "seconds": round(stretch.seconds)}
            for stretch in job.stretches
        ],
    }


def _run_json(job: Job, run: RunRecord | Allocation, start: Instant, end: Instant) -> JsonValue:
    option = run.option
    shown: dict[str, JsonValue] = {
        "since": _milliseconds(start),
        "gpus": option.gpus,
        "slice": option.slice or None,
        "pool": option.pool,
        "why": run.because or None,
    }
    if isinstance(run, RunRecord):
        return shown | {
            "run": run.number,
            "until": _milliseconds(end),
            "outcome": str(run.outcome),
            "message": run.message,
            "cost": None if run.cost is None else run.cost.decimal(),
        }
    made = next((found.created for found in job.runs if found.number == run.run), start)
    if job.stretches and made < start:
        shown |= {"since": _milliseconds(made), "widthFrom": _milliseconds(start)}
    because = run.withdrawn_because or run.stalled_because or run.stopped_because
    return shown | {"run": run.run, "until": None, "outcome": None, "message": because or None, "cost": None}


def _milliseconds(at: Instant) -> int:
    return at // 1_000
