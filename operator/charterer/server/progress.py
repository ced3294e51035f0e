"""Progress reports of training pods, kept in memory and written into status rarely.

10,000 jobs that report every ten seconds must not become 1,000 writes a second: a job's progress is due for its
status at most once per ``flush_seconds`` and only when it moved noticeably, and at once when its run ends.
A new leader starts with an empty board; until a pod reports again, what status says holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from charterer.api.significant_change import differs_by
from charterer.domain.ids import JobId
from charterer.domain.reports.progress import Progress
from charterer.domain.time import Instant, seconds_between
from charterer.server.directory import SessionOfRun
from charterer.server.report_fields import LARGEST, bad_field, json_object, number_in, whole_in
from charterer.server.session_usage import seen_from, with_usage

_NOTICEABLE_FRACTION = 0.01
_NOTICEABLE_RATIO = 0.1
_LARGEST_BATCH = 10**9
_LONGEST_STEP_SECONDS = 86_400.0
_SHORTEST_STEP_SECONDS = 1e-6
_LONGEST_CHECKPOINT_SECONDS = 86_400.0
_LARGEST_GRADIENT = 1e30
_LAST_GENERATION = 999_999_999
_LONGEST_RESIZE_SECONDS = 86_400.0


def _step_seconds(body: Mapping[str, object]) -> float | None:
    wanted = f"a number of seconds from {_SHORTEST_STEP_SECONDS:g} to {_LONGEST_STEP_SECONDS:g}: the mean of a step"
    value = number_in(body, "stepSeconds", _LONGEST_STEP_SECONDS, wanted)
    if value is not None and value < _SHORTEST_STEP_SECONDS:
        raise bad_field("stepSeconds", value, wanted)
    return value


def _checkpoint_seconds(body: Mapping[str, object]) -> float | None:
    wanted = f"a number of seconds from 0 to {_LONGEST_CHECKPOINT_SECONDS:g}: how long the last checkpoint took"
    return number_in(body, "checkpointSeconds", _LONGEST_CHECKPOINT_SECONDS, wanted)


def _part_of_step(body: Mapping[str, object], name: str) -> float | None:
    return number_in(body, name, _LONGEST_STEP_SECONDS, f"a number of seconds from 0 to {_LONGEST_STEP_SECONDS:g}")


def _resize_seconds(body: Mapping[str, object]) -> float | None:
    wanted = f"a number of seconds from 0 to {_LONGEST_RESIZE_SECONDS:g}: the standstill of the last change in place"
    return number_in(body, "resizeSeconds", _LONGEST_RESIZE_SECONDS, wanted)


def _busy(body: Mapping[str, object]) -> bool | None:
    value = body.get("busy")
    if value is None or isinstance(value, bool):
        return value
    raise bad_field("busy", value, "true or false: whether a cell runs")


def _gradient_square(body: Mapping[str, object]) -> float | None:
    wanted = (
        f"a number from {-_LARGEST_GRADIENT:g} to {_LARGEST_GRADIENT:g}"  # an estimate without bias may be negative
    )
    return number_in(body, "gradSqr", _LARGEST_GRADIENT, wanted, least=-_LARGEST_GRADIENT)


def _gradient_variance(body: Mapping[str, object]) -> float | None:
    return number_in(body, "gradVar", _LARGEST_GRADIENT, f"a number from 0 to {_LARGEST_GRADIENT:g}")


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """One report of one pod. ``fraction`` of the job done in [0, 1]; ``throughput`` in the unit of the job's profile.

    A fraction smaller than the last one is accepted: a run that fell back to its last checkpoint says so. ``batch``:
    samples that all GPUs see in one step; ``step_seconds``: mean of the steps since the last report; ``grad_sqr`` and
    ``grad_var``: squared norm of the gradient and variance of its estimate at the job's own batch size.
    ``checkpoint_seconds``: that the last checkpoint took. ``compute_seconds``, ``sync_seconds``, ``load_seconds``: of
    a mean step, in computing, in waiting for other ranks, and in waiting for input. ``generation``: of the group in
    which the process trains; ``wait_generation``: the answer may wait until the group to be formed is another one;
    ``resize_seconds``: for which training stood still at the last change of the group. ``busy``: whether a cell runs on
    the GPUs of an interactive job.
    """

    run: int | None = None
    index: int = 0
    fraction: float | None = None
    step: int | None = None
    total_steps: int | None = None
    throughput: float | None = None
    batch: int | None = None
    step_seconds: float | None = None
    grad_sqr: float | None = None
    grad_var: float | None = None
    checkpoint_seconds: float | None = None
    compute_seconds: float | None = None
    sync_seconds: float | None = None
    load_seconds: float | None = None
    generation: int | None = None
    wait_generation: int | None = None
    resize_seconds: float | None = None
    busy: bool | None = None

    @classmethod
    def parse(cls, body: bytes) -> ProgressReport:
        """A report from the JSON of a request; unknown fields are ignored. Refused (400) names the field and value."""
        content = json_object(body, '{"index": 0, "fraction": 0.5}')
        return cls(
            run=whole_in(content, "run"),
            index=whole_in(content, "index") or 0,
            fraction=number_in(content, "fraction", 1, "a number from 0 to 1"),
            step=whole_in(content, "step"),
            total_steps=whole_in(content, "totalSteps"),
            throughput=number_in(content, "throughput", LARGEST, f"a number from 0 to {LARGEST}"),
            batch=whole_in(content, "batch", 1, _LARGEST_BATCH),
            step_seconds=_step_seconds(content),
            grad_sqr=_gradient_square(content),
            grad_var=_gradient_variance(content),
            checkpoint_seconds=_checkpoint_seconds(content),
            compute_seconds=_part_of_step(content, "computeSeconds"),
            sync_seconds=_part_of_step(content, "syncSeconds"),
            load_seconds=_part_of_step(content, "loadSeconds"),
            generation=whole_in(content, "generation", 1, _LAST_GENERATION),
            wait_generation=whole_in(content, "waitGeneration", 0, _LAST_GENERATION),
            resize_seconds=_resize_seconds(content),
            busy=_busy(content),
        )

    @property
    def seconds_per_step(self) -> float | None:
        """As reported, otherwise batch ÷ throughput (then samples a second); None where neither was reported."""
        if self.step_seconds is not None or self.batch is None or not self.throughput:
            return self.step_seconds
        seconds = self.batch / self.throughput
        return seconds if _SHORTEST_STEP_SECONDS <= seconds <= _LONGEST_STEP_SECONDS else None

    @property
    def done(self) -> float | None:
        """The fraction done: as reported, otherwise step ÷ total_steps; None where neither was reported."""
        if self.fraction is not None:
            return self.fraction
        if self.step is None or not self.total_steps:
            return None
        return min(1.0, self.step / self.total_steps)

    @property
    def says_something(self) -> bool:
        """Whether it carries numbers; a pod may also post only to hear its allocation."""
        told = (self.done, self.step, self.throughput, self.generation, self.busy)
        return any(value is not None for value in told)


def noticeably_different(old: Progress | None, new: Progress) -> bool:
    """Whether ``new`` is worth a write: another run or group, 1 % of the job, 10 % of throughput, its first or last; a
    cell that begins or ends.
    """
    if old is None or (old.run, old.generation, old.busy) != (new.run, new.generation, new.busy):
        return True
    if old.fraction is None or new.fraction is None:
        if old.fraction is not new.fraction or differs_by(_NOTICEABLE_RATIO, new.step, old.step):
            return True
    elif abs(new.fraction - old.fraction) >= _NOTICEABLE_FRACTION or (new.fraction == 1.0 != old.fraction):
        return True
    return differs_by(_NOTICEABLE_RATIO, new.throughput, old.throughput)


def _advanced(progress: Progress, last: Progress | None, before: Progress | None) -> Progress:
    """The progress with when its run advanced. ``last``: of the same run; ``before``: of any run of the job."""
    pause, advances = (0.0, 0) if before is None else (before.longest_pause, before.advances)
    since = None if last is None else last.advanced
    if not progress.moves:
        since = None
    elif last is None or since is None:
        since = progress.at
    elif (progress.step, progress.fraction) != (last.step, last.fraction):
        pause, advances = max(pause, seconds_between(since, progress.at)), advances + 1
        since = progress.at
    return replace(progress, advanced=since, longest_pause=pause, advances=advances)


@dataclass(slots=True)
class _Entry:
    latest: Progress
    flushed: Progress | None = None
    flushed_at: Instant | None = None


class ProgressBoard:
    """The latest progress by job. Only reports of the leader count: one pod speaks for the run.

    ``regrouped`` is called when a leader names another group than before.
    """

    def __init__(self, *, flush_seconds: float = 60.0, regrouped: Callable[[], None] = lambda: None) -> None:
        self._flush_seconds = flush_seconds
        self._regrouped = regrouped
        self._entries: dict[JobId, _Entry] = {}

    def report(
        self,
        job: JobId,
        run: int,
        report: ProgressReport,
        at: Instant,
        *,
        leader: int = 0,
        session: SessionOfRun | None = None,
    ) -> None:
        """Take in a report of run ``run``, whose pod of index ``leader`` speaks for it. ``session``: if interactive.

        What it omits keeps its last value within the run, but for the group: pods that were made again are in none.
        """
        if report.index != leader or not report.says_something:
            return
        entry = self._entries.get(job)
        last = entry.latest if entry is not None and entry.latest.run == run else None
        progress = Progress(
            run=run,
            fraction=report.done if report.done is not None or last is None else last.fraction,
            step=report.step if report.step is not None or last is None else last.step,
            throughput=report.throughput if report.throughput is not None or last is None else last.throughput,
            at=at,
            generation=report.generation,
            busy=report.busy if report.busy is not None or last is None else last.busy,
        )
        progress = with_usage(progress, last, None if entry is None else entry.latest.usage, session)
        progress = _advanced(progress, last, None if entry is None else entry.latest)
        if entry is None:
            self._entries[job] = _Entry(progress)
        else:
            entry.latest = progress
        if progress.generation is not None and (last is None or progress.generation != last.generation):
            self._regrouped()

    def adopt(self, job: JobId, progress: Progress, at: Instant) -> None:
        """Go on from what a former process wrote: whether its run advances, or is idle, is seen from now on."""
        if job not in self._entries:
            adopted = seen_from(replace(progress, advanced=at if progress.moves else None), at)
            self._entries[job] = _Entry(adopted, adopted, at)

    def latest(self, job: JobId) -> Progress | None:
        """The job's latest progress; None when this process received no report of it."""
        entry = self._entries.get(job)
        return entry.latest if entry is not None else None

    def due(self, now: Instant) -> tuple[tuple[JobId, Progress], ...]:
        """The progress that is due to be written into status."""
        return tuple((job, entry.latest) for job, entry in self._entries.items() if self._is_due(entry, now))

    def _is_due(self, entry: _Entry, now: Instant) -> bool:
        if entry.flushed == entry.latest:
            return False
        if entry.flushed_at is not None and seconds_between(entry.flushed_at, now) < self._flush_seconds:
            return False
        return noticeably_different(entry.flushed, entry.latest)

    def flushed(self, job: JobId, progress: Progress, now: Instant) -> None:
        """``progress`` is in the job's status as of ``now``."""
        entry = self._entries.get(job)
        if entry is not None:
            entry.flushed = progress
            entry.flushed_at = now

    def retain(self, jobs: Collection[JobId]) -> None:
        """Forget every job that is not among ``jobs``."""
        for gone in self._entries.keys() - set(jobs):
            del self._entries[gone]
