"""Progress reports of training pods. They are stored in memory and rarely written into status.

10,000 jobs that report every ten seconds must not cause 1,000 writes a second. A job's progress becomes due for its
status if it changed noticeably, and at most once per ``flush_seconds``. The step that records a run's end also writes
the run's last progress.

A new leader starts with an empty board. Until a pod reports again, the progress in status counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from charterer.api.metadata import differs_by
from charterer.domain.ids import JobId
from charterer.domain.interactive import Usage
from charterer.domain.pool import Hazard
from charterer.domain.reports import Progress
from charterer.domain.time import Instant, seconds_between
from charterer.server.listener import Refused

# Parsing of a report's fields, which a pod may fill with anything.
#
# Refused (400) names the field, its value, and the values that are allowed.


LARGEST: Final = 10**15


def json_object(body: bytes, example: str) -> dict[str, Any]:
    """Parse the body of a request as a JSON object. Raises Refused."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "InvalidReport", "the body is not JSON") from None
    if not isinstance(content, dict):
        raise Refused(400, "InvalidReport", f"the body is not a JSON object like {example}")
    return content


def bad_field(name: str, value: object, wanted: str) -> Refused:
    """The refusal of a field with a wrong value."""
    try:
        shown = repr(value)
    except RecursionError:
        shown = "a list of lists"
    return Refused(400, "InvalidReport", f"{name}: {shown[:40]} is not {wanted}")


def number_in(
    body: Mapping[str, object], name: str, largest: float, wanted: str, *, least: float = 0.0
) -> float | None:
    """A number from ``least`` to ``largest``, or None if the field is absent. Raises Refused."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_field(name, value, wanted)
    if not least <= value <= largest:  # also refuses NaN; an integer may exceed the range of a float
        raise bad_field(name, value, wanted)
    return float(value)


def whole_in(body: Mapping[str, object], name: str, least: int = 0, largest: int = LARGEST) -> int | None:
    """A whole number from ``least`` to ``largest``, or None if the field is absent. Raises Refused."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
        raise bad_field(name, value, f"a whole number from {least} to {largest}")
    return value


# The facts about a job that the progress endpoint needs. The controller provides them from its last snapshot.


class Members(NamedTuple):
    """The pods that should form the group of ``generation``: their indexes in the run's Job, and their DNS names.

    ``key`` is a secret by which the pods recognise each other. Pods of other runs do not have the key.
    """

    generation: int
    indexes: tuple[int, ...]
    addresses: tuple[str, ...]
    key: str


class SessionOfRun(NamedTuple):
    """The run of an interactive job: how often the job requested GPUs, and since when the run has its GPUs."""

    asks: int
    since: Instant


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """The oldest run of a job that has live pods. While one run replaces another, the former run still counts.

    ``allocation`` is the content of the pods' annotation ``charterer.dev/allocation``. ``stopping``: the run is being
    stopped or is about to be, so its pods should write a checkpoint and exit. ``hazard`` is the rate at which the run's
    nodes are taken back, or None if no node is expected to be taken back. ``ages`` are the ages of these nodes in
    hours. ``members`` is None if the run's width cannot change in place. ``session`` is None if the job is not
    interactive.
    """

    number: int
    pod_uids: frozenset[str]
    allocation: Mapping[str, int]
    stopping: bool
    hazard: Hazard | None = None
    ages: tuple[float, ...] = ()
    members: Members | None = None
    session: SessionOfRun | None = None

    @property
    def leader(self) -> int:
        """The index of the pod whose reports count for the run."""
        return 0 if self.members is None else self.members.indexes[0]


class JobDirectory(Protocol):
    """Looks a job up by uid, at once and from memory."""

    def find(self, job: JobId) -> CurrentRun | None:
        """The job's current run, or None if there is no such job or none of its runs has live pods."""
        ...


# Use of the GPUs of interactive jobs, derived from the reports of their workers.


_SMOOTHING = 0.25
_LONGEST_START_SECONDS = 3_600.0
"""Seconds after which a first report shows when the worker's first cell ran, and not when the worker started."""


def with_usage(
    progress: Progress, last: Progress | None, before: Usage | None, session: SessionOfRun | None
) -> Progress:
    """Add to ``progress`` how the GPUs were used up to its time.

    ``last`` is the last progress of the same run, ``before`` the usage of all runs so far. A new request for GPUs ends
    an idle time, because a cell is about to run. ``session`` is None if the job is not interactive or its run is being
    stopped.
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
    """Progress from a former process, from which this process continues at ``at``. Whether the GPUs were idle in
    between is unknown.
    """
    usage = progress.usage
    if usage is None or usage.idle_since is None:
        return progress
    return replace(progress, usage=replace(usage, idle_since=at))


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
    wanted = f"a number from {-_LARGEST_GRADIENT:g} to {_LARGEST_GRADIENT:g}"  # an unbiased estimate may be negative
    return number_in(body, "gradSqr", _LARGEST_GRADIENT, wanted, least=-_LARGEST_GRADIENT)


def _gradient_variance(body: Mapping[str, object]) -> float | None:
    return number_in(body, "gradVar", _LARGEST_GRADIENT, f"a number from 0 to {_LARGEST_GRADIENT:g}")


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """One report of one pod. ``fraction`` of the job done in [0, 1]. ``throughput`` in the unit of the job's profile.

    A smaller fraction than before is accepted, because a run may fall back to its last checkpoint. ``batch``: samples
    per step of all GPUs together. ``step_seconds``: mean of the steps since the last report. ``grad_sqr`` and
    ``grad_var``: squared norm of the gradient, and variance of its estimate at the job's own batch size.
    ``checkpoint_seconds``: duration of the last checkpoint. ``compute_seconds``, ``sync_seconds`` and ``load_seconds``:
    the parts of a mean step in which the pod computes, waits for other ranks, and waits for input.

    ``generation``: generation of the group in which the process trains. ``wait_generation``: the answer may be held
    back until the group to form has another generation than this one. ``resize_seconds``: how long the training stood
    still at the last change of the group. ``busy``: whether a cell runs on the GPUs of an interactive job.
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
        """Parse the JSON of a request. Unknown fields are ignored.

        Raises Refused (400), which names the field and its value.
        """
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
        """Seconds per step: as reported, otherwise batch ÷ throughput (samples a second). None if neither is known."""
        if self.step_seconds is not None or self.batch is None or not self.throughput:
            return self.step_seconds
        seconds = self.batch / self.throughput
        return seconds if _SHORTEST_STEP_SECONDS <= seconds <= _LONGEST_STEP_SECONDS else None

    @property
    def done(self) -> float | None:
        """The fraction done: as reported, otherwise step ÷ total_steps. None if neither was reported."""
        if self.fraction is not None:
            return self.fraction
        if self.step is None or not self.total_steps:
            return None
        return min(1.0, self.step / self.total_steps)

    @property
    def says_something(self) -> bool:
        """Whether the report has numbers. A pod may also post only to get its allocation."""
        told = (self.done, self.step, self.throughput, self.generation, self.busy)
        return any(value is not None for value in told)


def noticeably_different(old: Progress | None, new: Progress) -> bool:
    """Whether ``new`` is worth a write.

    A write is worthwhile for another run or group, for a change by 1 % of the job or 10 % of the throughput, for the
    first and the last fraction, and when a cell begins or ends.
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
    """Add to ``progress`` the time at which its run last advanced. ``last`` is of the same run, ``before`` of any run
    of the job.
    """
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
    """The latest progress by job. One pod speaks for the run: only reports of the leader count.

    ``regrouped`` is called if a leader reports another group than before.
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
        """Record a report of run ``run``, whose leader is the pod of index ``leader``.

        ``session``: of an interactive job. Omitted values keep their last value within the run. The group is an
        exception: recreated pods are in no group.
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
        if entry is not None:
            fraction, step = entry.latest.farthest
            progress = replace(progress, reached=fraction, reached_step=step)
        progress = with_usage(progress, last, None if entry is None else entry.latest.usage, session)
        progress = _advanced(progress, last, None if entry is None else entry.latest)
        if entry is None:
            self._entries[job] = _Entry(progress)
        else:
            entry.latest = progress
        if progress.generation is not None and (last is None or progress.generation != last.generation):
            self._regrouped()

    def adopt(self, job: JobId, progress: Progress, at: Instant) -> None:
        """Continue from the progress that a former process wrote.

        Advances and idle times are measured from ``at`` on.
        """
        if job not in self._entries:
            adopted = seen_from(replace(progress, advanced=at if progress.moves else None), at)
            self._entries[job] = _Entry(adopted, adopted, at)

    def latest(self, job: JobId) -> Progress | None:
        """The job's latest progress, or None if this process has received no report of it."""
        entry = self._entries.get(job)
        return entry.latest if entry is not None else None

    def due(self, now: Instant) -> tuple[tuple[JobId, Progress], ...]:
        """The progress of each job for which a write into status is due."""
        return tuple((job, entry.latest) for job, entry in self._entries.items() if self._is_due(entry, now))

    def _is_due(self, entry: _Entry, now: Instant) -> bool:
        if entry.flushed == entry.latest:
            return False
        if entry.flushed_at is not None and seconds_between(entry.flushed_at, now) < self._flush_seconds:
            return False
        return noticeably_different(entry.flushed, entry.latest)

    def flushed(self, job: JobId, progress: Progress, now: Instant) -> None:
        """Record that ``progress`` is in the job's status as of ``now``."""
        entry = self._entries.get(job)
        if entry is not None:
            entry.flushed = progress
            entry.flushed_at = now

    def retain(self, jobs: Collection[JobId]) -> None:
        """Forget every job that is not among ``jobs``."""
        for gone in self._entries.keys() - set(jobs):
            del self._entries[gone]


# Progress in Kubeflow Trainer's protocol, which Hugging Face's Trainer and Kubeflow's SDK use without Charterer code.
#
# Source: KEP-2779 of kubeflow/trainer (``UpdateTrainJobStatusRequest``). A body is
#
#     {"trainerStatus": {"progressPercentage": 42, "estimatedRemainingSeconds": 600, "metrics": [{"name": "loss",
#     "value": "0.31"}], "lastUpdatedTime": "2026-11-26T20:00:00Z"}}
#
# with each field optional. Charterer estimates the remaining work itself. So the seconds are only validated, and the
# time is ignored here.


_EXAMPLE: Final = '{"trainerStatus": {"progressPercentage": 42}}'
_DONE: Final = 100.0
_MOST_DIGITS: Final = 15


def parse_trainer_status(body: bytes, index: int, *, stopping: bool) -> ProgressReport:
    """Parse the report of the pod with this index.

    Raises Refused (400), which names the field, its value and the remedy.
    """
    status = json_object(body, _EXAMPLE).get("trainerStatus")
    if status is None:
        return ProgressReport(index=index)
    if not isinstance(status, Mapping):
        raise bad_field("trainerStatus", status, f"an object: send {_EXAMPLE}")
    return trainer_report(status, index, stopping=stopping)


def trainer_report(status: Mapping[str, object], index: int, *, stopping: bool) -> ProgressReport:
    """The report in an object ``trainerStatus``, which Kubeflow Trainer also stores in a TrainJob's status.

    The metrics ``current_step`` and ``total_steps``, which Hugging Face's Trainer sends, are finer than whole percents
    and are preferred to them. Two percentages are ignored. 0 is ignored, because training sends it when it begins, even
    if it continues from a checkpoint. 100 is ignored while the run is ``stopping``, because a loop that was left early
    sends it, just like a finished loop.
    """
    percent = number_in(status, "progressPercentage", _DONE, "a number from 0 to 100: percent of the work that is done")
    number_in(status, "estimatedRemainingSeconds", LARGEST, "a number of seconds from 0; it may be left out")
    metrics = _metrics(status.get("metrics"))
    step, steps = (_whole(metrics.get(name)) for name in ("current_step", "total_steps"))
    if step is not None and steps:
        return ProgressReport(index=index, step=step, total_steps=steps)
    if percent is None or percent == 0.0 or (percent == _DONE and stopping):
        return ProgressReport(index=index)
    return ProgressReport(index=index, fraction=percent / _DONE)


def _metrics(listed: object) -> Mapping[str, str]:
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise bad_field("trainerStatus.metrics", listed, 'a list of {"name": text, "value": text}')
    metrics: dict[str, str] = {}
    for place, metric in enumerate(listed):
        name, value = (metric.get("name"), metric.get("value")) if isinstance(metric, Mapping) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise bad_field(f"trainerStatus.metrics[{place}]", metric, 'of the form {"name": text, "value": text}')
        metrics[name] = value
    return metrics


def _whole(text: str | None) -> int | None:
    """A count among the metrics, which are texts of any meaning. None if the text is no count."""
    is_count = text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_count and text is not None else None
