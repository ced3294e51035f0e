"""A workload: job submissions, read from a CSV file with a header; times are seconds from its beginning."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

_NEEDED = ("name", "time", "application", "num_replicas")


class BadRow(ValueError):
    """A row that cannot be used; the message names the file, the row and the field, and says what to do."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A job submitted ``at`` seconds after the workload's beginning, whose owner asked for ``gpus`` GPUs.

    ``batch``: the total batch size that its owner chose; 0 where the file does not say.
    """

    name: str
    at: float
    application: str
    gpus: int
    batch: int = 0


def read_workload(lines: Iterable[str], file: str, applications: Iterable[str]) -> tuple[Submission, ...]:
    """The submissions in order of time; ``applications`` are the names that may occur. BadRow for the first bad row."""
    permitted = sorted(applications)
    reader = csv.DictReader(lines)
    missing = [field for field in _NEEDED if field not in (reader.fieldnames or ())]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name {', '.join(_NEEDED)}")
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


def read_speeds(lines: Iterable[str], file: str) -> Mapping[str, Mapping[int, float]]:
    """Seconds that a job takes, by application and number of GPUs; columns application, gpus, seconds.

    BadRow for the first bad row, and where more GPUs are not faster, because such a width is never worth its price.
    """
    reader = csv.DictReader(lines)
    missing = [field for field in ("application", "gpus", "seconds") if field not in (reader.fieldnames or ())]
    if missing:
        raise BadRow(f"{file}: no column {', '.join(missing)}: its first line must name application, gpus, seconds")
    curves: dict[str, dict[int, float]] = {}
    for row in reader:
        where = f"{file} line {reader.line_num}"
        gpus, seconds = _number(row, "gpus", where), _number(row, "seconds", where)
        if gpus < 1 or gpus != int(gpus):
            raise BadRow(f"{where}: gpus {gpus:g} is no number of GPUs: give a whole number from 1 on")
        if seconds <= 0:
            raise BadRow(f"{where}: seconds {seconds:g} is no time that a job takes: give more than 0")
        curve = curves.setdefault(row.get("application") or "", {})
        narrower = [(width, time) for width, time in curve.items() if width < gpus]
        if narrower and (fastest := min(time for _, time in narrower)) <= seconds:
            raise BadRow(
                f"{where}: seconds {seconds:g} on {gpus:g} GPUs is not faster than {fastest:g} on fewer: the curve "
                "must be increasing, and its rows in order of gpus; leave this width out"
            )
        curve[int(gpus)] = seconds
    if not curves:
        raise BadRow(f"{file}: has no row: add at least one application")
    return curves


def _submission(row: Mapping[str, str | None], where: str) -> Submission:
    at = _number(row, "time", where)
    if at < 0:
        raise BadRow(f"{where}: time {at:g} is negative: give seconds from the workload's beginning")
    gpus = _number(row, "num_replicas", where)
    if gpus < 1 or gpus != int(gpus):
        raise BadRow(f"{where}: num_replicas {gpus:g} is no number of GPUs: give a whole number from 1 on")
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
