"""Ways to run the hour, side by side: simulated ones and the real run. Times are workload seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from demo.replay import Replayed

Steps = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ColumnJob:
    """A job in one column. ``began``: when its pods ran for the first time. ``widths``: GPUs from a second on.

    ``repeated``: seconds of training that were lost because pods ended without a checkpoint. ``gpu_types``: the type of
    its GPUs from a second on.
    """

    name: str
    submitted: float
    began: float | None
    ended: float | None
    widths: Steps
    repeated: float = 0.0
    gpu_types: Sequence[tuple[float, str]] = ()

    def gpu_type(self, at: float) -> str:
        """The type of its GPUs at that second, or of its first ones; empty where none is known."""
        known = [gpu_type for since, gpu_type in self.gpu_types if since <= at]
        return known[-1] if known else next((gpu_type for _, gpu_type in self.gpu_types), "")


@dataclass(frozen=True, slots=True)
class Column:
    """One way to run the hour. ``spent``: (second, dollars so far), straight between the points.

    ``measured``: when and on what it was really run, where that was not in this demo; empty otherwise.
    """

    jobs: Sequence[ColumnJob]
    dollars: float
    machines: int
    spent: Steps
    measured: str = ""

    @property
    def mean_completion_seconds(self) -> float:
        """The mean time from submission to completion, of the jobs that completed."""
        times = [job.ended - job.submitted for job in self.jobs if job.ended is not None]
        return sum(times) / len(times) if times else 0.0

    @property
    def mean_wait_seconds(self) -> float:
        """The mean time from submission until the pods run, of the jobs that began."""
        waits = [job.began - job.submitted for job in self.jobs if job.began is not None]
        return sum(waits) / len(waits) if waits else 0.0

    @property
    def interruptions(self) -> int:
        """How many times a job was stopped before its end, or moved to another width."""
        return sum(max(0, sum(gpus > 0 for _, gpus in job.widths) - 1) for job in self.jobs)

    def json(self) -> str:
        """The column, for ``of``."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """The column that ``asdict`` made."""
        return cls(**{**raw, "jobs": [ColumnJob(**job) for job in raw["jobs"]]})


@dataclass(frozen=True, slots=True)
class Columns:
    """``autoscaler``: what people do today; ``same_money``: Charterer for its dollars; ``budget``: at the budget."""

    autoscaler: Column
    same_money: Column
    budget: Column

    def json(self) -> str:
        """All columns, for ``read``."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """The columns that ``json`` wrote."""
        return cls(**{name: Column.of(raw) for name, raw in json.loads(text).items()})


@dataclass(frozen=True, slots=True)
class Parts:
    """Charterer where less is sold. ``as_today``: only what today's practice rents, at the same budget.

    ``as_today_same_money``: only that, for no more dollars than today's practice spends.
    """

    without_spot: Column
    as_today: Column
    as_today_same_money: Column

    def json(self) -> str:
        """All of them, for ``read``."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        """What ``json`` wrote."""
        return cls(**{name: Column.of(raw) for name, raw in json.loads(text).items()})


def really_run(replayed: Mapping[str, Replayed], spent: Steps, dollars: float, machines: int) -> Column:
    """The column of a real run, with the cloud's own bill."""
    jobs = [
        ColumnJob(name, job.submitted, job.began, job.completed, job.held, job.repeated, job.types)
        for name, job in replayed.items()
        if job.submitted is not None
    ]
    return Column(sorted(jobs, key=lambda job: (job.submitted, job.name)), dollars, machines, spent)
