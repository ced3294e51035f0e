"""A workload: job submissions, read from a CSV file with a header. Times are seconds from the workload's beginning."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isfinite
from typing import NamedTuple

from charterer.domain.interactive import Interactive, Usage
from charterer.domain.money import Price
from charterer.domain.time import Instant, after
from charterer.sentences import count

# The session of a simulated interactive job: its cells, and how long its owner waits for them.


class Cell(NamedTuple):
    """A cell of a notebook. The owner thinks for ``think`` seconds before the cell, and the cell runs for
    ``seconds``.
    """

    think: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Notebook:
    """What an interactive job's owner does with the job, and what the owner declares: ``hourly`` and ``idle_seconds``
    of the spec.
    """

    cells: Sequence[Cell]
    hourly: Price | None = None
    idle_seconds: float | None = None


@dataclass(slots=True, eq=False)
class SimSession:
    """An interactive job's state. Times are seconds of the virtual clock.

    ``cell``: the number of the present or next cell.
    ``asks``: number of times that the job's owner requested a GPU. ``served``: the number of these requests for which a
    run has come. ``answered``: the number of these requests whose run was released because it was unused.
    ``asked_at``: since when the cell waits for a GPU, or None if it does not wait.
    ``ready``: whether the worker runs.
    ``busy``: whether the cell runs.
    ``idle_since``: since when no cell runs on a ready worker.
    ``event``: grows when a run is stopped, so that events of earlier runs can be ignored.
    ``waits``: the seconds that each cell waited.
    """

    notebook: Notebook
    cell: int = 0
    asks: int = 0
    answered: int = 0
    served: int = 0
    asked_at: float | None = None
    ready: bool = False
    busy: bool = False
    idle_since: float | None = None
    start_seconds: float | None = None
    event: int = 0
    waits: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether all its cells have run."""
        return self.cell >= len(self.notebook.cells)

    def stop(self, *, answer: bool) -> None:
        """End the run.

        If a cell runs, it begins anew in the next run. ``answer``: whether the run ends because it was unused.
        """
        self.ready = self.busy = False
        self.idle_since = None
        self.event += 1
        if answer:
            self.answered = self.served

    def shown(self) -> Interactive:
        """The job's ``interactive`` fields as the TrainingJob has them."""
        told = self.notebook
        return Interactive(self.asks, told.hourly, told.idle_seconds, self.answered, self.served)

    def usage(self, start: Instant) -> Usage | None:
        """The usage as the worker reports it, or None if no worker is ready. ``start``: second 0 of the virtual
        clock.
        """
        idle = None if self.idle_since is None else after(start, self.idle_since)
        return Usage(self.asks, idle, start_seconds=self.start_seconds) if self.ready else None


_NEEDED = ("name", "time", "application", "num_replicas")
_SPEED_COLUMNS = ("application", "gpus", "seconds", "gpu_type")
_HIGHEST = 1e9
_MOST_GPUS = 1_000_000
_HIGHEST_TIME = 1e10
"""The latest time, in seconds. It is later than any Unix time of today, because files may count from 1970."""
_WORST_RATIO = 100.0
"""Largest ratio between the speeds of two GPU types. A B200 has 511 times a K80's peak throughput and 33 times its
bandwidth. The geometric mean of the two is 130.
"""


class BadRow(ValueError):
    """A row that cannot be used. The message names the file, the row and the field, and says what to do."""


def check_unique(names: Sequence[str], used: Collection[str], file: str) -> None:
    """Raise BadRow if a column that is used occurs twice in the header. It is then unclear which of the two is
    meant.
    """
    for name in names:
        if name in used and names.count(name) > 1:
            raise BadRow(f"{file}: column {name!r} occurs twice in its first line: leave one out")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that was submitted.

    ``at``: seconds from the workload's beginning.
    ``gpus``: number of GPUs that its owner asked for.
    ``batch``: the total batch size that its owner chose, or 0 if the file does not say.
    ``notebook``: what its owner does with an interactive job, or None for any other job.
    """

    name: str
    at: float
    application: str
    gpus: int
    batch: int = 0
    notebook: Notebook | None = None


def read_workload(lines: Iterable[str], file: str, applications: Iterable[str]) -> tuple[Submission, ...]:
    """The submissions in order of time. ``applications``: names that may occur. Raises BadRow for the first bad row."""
    permitted = sorted(applications)
    reader = csv.DictReader(lines)
    missing = [field for field in _NEEDED if field not in (reader.fieldnames or ())]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name {', '.join(_NEEDED)}")
    check_unique(reader.fieldnames or (), (*_NEEDED, "batch_size"), file)
    submissions: list[Submission] = []
    names: set[str] = set()
    for row in reader:
        submission = _submission(row, f"{file} line {reader.line_num}")
        if submission.application not in permitted:
            raise BadRow(
                f"{file} line {reader.line_num}: application {submission.application!r} is not known: "
                f"use one of {', '.join(permitted)}"
            )
        if submission.name in names:
            raise BadRow(f"{file} line {reader.line_num}: name {submission.name!r} occurs twice: give it another")
        names.add(submission.name)
        submissions.append(submission)
    if not submissions:
        raise BadRow(f"{file}: has no row: add at least one job")
    return tuple(sorted(submissions, key=lambda submission: (submission.at, submission.name)))


def since_first(submissions: Sequence[Submission]) -> tuple[Submission, ...]:
    """The submissions with times counted from the first of them.

    There is at least one, and they are in order of time.
    """
    return tuple(replace(submission, at=submission.at - submissions[0].at) for submission in submissions)


@dataclass(frozen=True, slots=True)
class Speeds:
    """How long jobs take.

    ``seconds``: by application, GPU type and number of GPUs.
    ``warnings``: sentences on widths that are never worth their money.
    """

    seconds: Mapping[str, Mapping[str, Mapping[int, float]]]
    warnings: tuple[str, ...]


def read_speeds(lines: Iterable[str], file: str, gpu_types: Iterable[str]) -> Speeds:
    """Read columns application, gpus and seconds, and gpu_type if pools have several. Raises BadRow for the first bad
    row.

    ``gpu_types``: GPU types of the pools.
    """
    reader = csv.DictReader(lines)
    names, types = reader.fieldnames or (), sorted(set(gpu_types))
    missing = [field for field in ("application", "gpus", "seconds") if field not in names]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name application, gpus, seconds")
    check_unique(names, _SPEED_COLUMNS, file)
    if len(types) > 1 and "gpu_type" not in names:
        raise BadRow(
            f"{file}: no column gpu_type, and the pools have several: say of each row whether it is about "
            f"{' or '.join(types)}"
        )
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for row in reader:
        where = f"{file} line {reader.line_num}"
        application, gpu_type, gpus, seconds = _speed(row, where, types)
        curve = curves.setdefault(application, {}).setdefault(gpu_type, {})
        if gpus in curve:
            of_type = f" of type {gpu_type}" if len(types) > 1 else ""
            raise BadRow(f"{where}: application {application!r} has two rows for {gpus} GPUs{of_type}: leave one out")
        curve[gpus] = seconds
    if not curves:
        raise BadRow(f"{file}: has no row: add at least one application")
    for application, by_type in curves.items():
        check_units(by_type, f"{file}: application {application!r}")
    warnings = [
        warning
        for name, by_type in curves.items()
        for gpu_type, curve in by_type.items()
        for warning in _slower_widths(name, curve, f" of type {gpu_type}" if len(types) > 1 else "")
    ]
    return Speeds(curves, tuple(f"{file}: {warning}" for warning in warnings))


def _speed(row: Mapping[str, str | None], where: str, types: Sequence[str]) -> tuple[str, str, int, float]:
    """The application, GPU type, GPUs and seconds of a row."""
    gpus, seconds = _number(row, "gpus", where), _number(row, "seconds", where)
    if gpus < 1 or gpus != int(gpus):
        raise BadRow(f"{where}: gpus {gpus:g} is no number of GPUs: give a whole number from 1 on")
    if seconds <= 0:
        raise BadRow(f"{where}: seconds {seconds:g} is no time that a job takes: give more than 0")
    if gpus > _MOST_GPUS or seconds > _HIGHEST:
        limits = f"give up to {_MOST_GPUS:,} GPUs and {_HIGHEST:,.0f} seconds"
        raise BadRow(f"{where}: {gpus:g} GPUs or {seconds:g} seconds are too many: {limits}")
    gpu_type = row["gpu_type"] or "" if "gpu_type" in row else types[0]
    if gpu_type not in types:
        there = f" (they have {', '.join(types)})" if any(types) else ""
        raise BadRow(
            f"{where}: gpu_type {gpu_type!r} is of no pool{there}: correct it, name a pool of that type with --pools, "
            "or leave the row out"
        )
    return row.get("application") or "", gpu_type, int(gpus), seconds


def check_units(seconds: Mapping[str, Mapping[int, float]], where: str) -> None:
    """Raise BadRow if curves of several GPU types cannot be in one unit.

    ``seconds``: by GPU type and number of GPUs.
    """
    for first, second in combinations(sorted(seconds), 2):
        for gpus in sorted(seconds[first].keys() & seconds[second].keys()):
            ratio = seconds[first][gpus] / seconds[second][gpus]
            if not 1.0 / _WORST_RATIO < ratio < _WORST_RATIO:
                slow, fast = (first, second) if ratio > 1.0 else (second, first)
                times = max(ratio, 1.0 / ratio)
                raise BadRow(
                    f"{where}: on {count(gpus, 'GPU')}, {slow} is {times:,.0f} times as slow as {fast}, and no GPU "
                    f"types differ {_WORST_RATIO:g} times: give both in the same unit"
                )


def _slower_widths(application: str, seconds: Mapping[int, float], of_type: str) -> Iterator[str]:
    """A sentence for each width that is not faster than a narrower width."""
    narrower = (0, float("inf"))
    for gpus in sorted(seconds):
        if seconds[gpus] < narrower[1]:
            narrower = gpus, seconds[gpus]
            continue
        yield (
            f"{application} is not faster on {gpus} GPUs{of_type} ({seconds[gpus]:g} s) than on {narrower[0]} "
            f"({narrower[1]:g} s): Charterer never gives it {gpus}; a job that asks for them gets them, and is that "
            "slow"
        )


def _submission(row: Mapping[str, str | None], where: str) -> Submission:
    at = _number(row, "time", where)
    if not 0 <= at <= _HIGHEST_TIME:
        raise BadRow(f"{where}: time {at:g} is negative or too large: give seconds from the workload's beginning")
    gpus = _number(row, "num_replicas", where)
    if not 1 <= gpus <= _MOST_GPUS or gpus != int(gpus):
        raise BadRow(
            f"{where}: num_replicas {gpus:g} is no number of GPUs: give a whole number from 1 to {_MOST_GPUS:,}"
        )
    batch = _number(row, "batch_size", where) if row.get("batch_size") else 0.0
    return Submission(row.get("name") or "", at, row.get("application") or "", int(gpus), int(batch))


def _number(row: Mapping[str, str | None], field: str, where: str) -> float:
    text = row.get(field)
    try:
        value = float(text or "")
    except ValueError:
        raise BadRow(f"{where}: {field} {text!r} is no number") from None
    if not isfinite(value):
        raise BadRow(f"{where}: {field} {text!r} is no finite number")
    return value
