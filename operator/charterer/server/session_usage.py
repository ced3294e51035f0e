"""What the reports of an interactive job's worker say of how its GPUs are used."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.jobs.interactive import Usage
from charterer.domain.reports.progress import Progress
from charterer.domain.time import Instant, seconds_between
from charterer.server.directory import SessionOfRun

_SMOOTHING = 0.25
_LONGEST_START_SECONDS = 3_600.0
"""A first report that comes later says more of the worker's first cell than of its start."""


def with_usage(
    progress: Progress, last: Progress | None, before: Usage | None, session: SessionOfRun | None
) -> Progress:
    """A report with how the GPUs were used up to it. ``last``: report of the same run; ``before``: of all runs.

    A new ask ends an idle time: a cell is about to come. ``session``: None if the job is not interactive, or its run is
    being stopped.
    """
    if session is None or (progress.busy is None and before is None):
        return replace(progress, usage=before)
    usage = Usage(session.asks) if before is None else before
    passed = 0.0 if last is None else max(seconds_between(last.at, progress.at), 0.0)
    was = None if last is None else last.busy
    idle = progress.busy is False
    asked = session.asks > usage.asks or was is not False
    return replace(
        progress,
        usage=Usage(
            asks=session.asks,
            idle_since=None if not idle else progress.at if asked or usage.idle_since is None else usage.idle_since,
            busy_seconds=usage.busy_seconds + (passed if was is True else 0.0),
            idle_seconds=usage.idle_seconds + (passed if was is False else 0.0),
            start_seconds=usage.start_seconds
            if was is not None or progress.busy is None
            else _start_seconds(usage.start_seconds, seconds_between(session.since, progress.at)),
        ),
    )


def _start_seconds(before: float | None, seconds: float) -> float | None:
    if not 0.0 <= seconds <= _LONGEST_START_SECONDS:
        return before
    return seconds if before is None else before + _SMOOTHING * (seconds - before)


def seen_from(progress: Progress, at: Instant) -> Progress:
    """What a former process wrote, as this one goes on from it at ``at``: what ran meanwhile is not known."""
    usage = progress.usage
    if usage is None or usage.idle_since is None:
        return progress
    return replace(progress, usage=replace(usage, idle_since=at))
