"""Columns of the comparison: the same hour, simulated or really run in different ways. Times are workload seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from demo.replay import Replayed

Steps = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ColumnJob:
    """A job in one column. ``began`` is the first time that its pods ran. ``widths`` are steps of (second, GPUs).

    ``repeated`` is seconds of training lost because pods ended without a checkpoint. ``gpu_types`` are steps of
    (second, type of its GPUs).
    """

    name: str
    submitted: float
    began: float | None
    ended: float | None
    widths: Steps
    repeated: float = 0.0
    gpu_types: Sequence[tuple[float, str]] = ()

    def gpu_type(self, at: float) -> str:
        """Return the type of the job's GPUs at that second, or before its first run the first type.

        Empty if unknown.
        """
        known = [gpu_type for since, gpu_type in self.gpu_types if since <= at]
        return known[-1] if known else next((gpu_type for _, gpu_type in self.gpu_types), "")


@dataclass(frozen=True, slots=True)
class Column:
    """One way to run the hour. ``spent`` has points of (second, dollars so far), to be joined by straight lines.

    ``measured`` says when and on what the hour was really run, if not in this demo. It is empty otherwise.
    """

    jobs: Sequence[ColumnJob]
    dollars: float
    machines: int
    spent: Steps
    measured: str = ""

    @property
    def mean_completion_seconds(self) -> float:
        """Mean seconds from submission to completion, over the completed jobs."""
        times = [job.ended - job.submitted for job in self.jobs if job.ended is not None]
        return sum(times) / len(times) if times else 0.0

    @property
    def mean_wait_seconds(self) -> float:
        """Mean seconds from submission until the pods run, over the started jobs."""
        waits = [job.began - job.submitted for job in self.jobs if job.began is not None]
        return sum(waits) / len(waits) if waits else 0.0

    @property
    def interruptions(self) -> int:
        """Number of times that a job was stopped before its end or moved to another width."""
        return sum(max(0, sum(gpus > 0 for _, gpus in job.widths) - 1) for job in self.jobs)

    def json(self) -> str:
        """Encode the column for ``of``."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Decode a column from the dictionary that ``asdict`` made."""
        return cls(**{**raw, "jobs": [ColumnJob(**job) for job in raw["jobs"]]})


@dataclass(frozen=True, slots=True)
class Columns:
    """The three columns: today's practice, Charterer for the same dollars, and Charterer at the demo's budget."""

    autoscaler: Column
    same_money: Column
    budget: Column

    def json(self) -> str:
        """Encode all columns for ``read``."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """Decode the output of ``json``."""
        return cls(**{name: Column.of(raw) for name, raw in json.loads(text).items()})


@dataclass(frozen=True, slots=True)
class Parts:
    """Charterer with fewer offers. ``as_today`` has only the offers of today's practice, at the same budget.

    ``as_today_same_money`` has these offers for no more dollars than today's practice spends.
    """

    without_spot: Column
    as_today: Column
    as_today_same_money: Column

    def json(self) -> str:
        """Encode all columns for ``read``."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """Decode the output of ``json``."""
        return cls(**{name: Column.of(raw) for name, raw in json.loads(text).items()})


def really_run(replayed: Mapping[str, Replayed], spent: Steps, dollars: float, machines: int) -> Column:
    """Make the column of a real run, with the cloud's own bill."""
    jobs = [
        ColumnJob(name, job.submitted, job.began, job.completed, job.held, job.repeated, job.types)
        for name, job in replayed.items()
        if job.submitted is not None
    ]
    return Column(sorted(jobs, key=lambda job: (job.submitted, job.name)), dollars, machines, spent)
