"""Reads demo/data: the time of each application at each width, and the submissions."""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

DATA = Path(__file__).parent / "data"
T4 = "Tesla-T4"
"""The GPU type for which the owners of the workload's jobs asked. Other types' speeds are relative to it."""


@dataclass(frozen=True, slots=True)
class Application:
    """A training application.

    ``seconds`` has by GPU type pairs of (GPUs, seconds for all ``epochs``), ascending by GPUs. More GPUs never take
    longer here, although some measurements did (bert on two nodes instead of one). A trainer would leave GPUs idle that
    slow it down.
    """

    name: str
    epochs: int
    seconds: Mapping[str, tuple[tuple[int, float], ...]]

    def time(self, gpus: int, gpu_type: str = T4) -> float:
        """Return the seconds of the training. Speed is linear between measured widths and constant above.

        ValueError below.
        """
        measured = self.seconds[gpu_type]
        widths = [width for width, _ in measured]
        at = bisect_right(widths, gpus) - 1
        if at < 0:
            raise ValueError(f"{self.name} was not measured on {gpus} GPUs; the narrowest is {widths[0]}")
        below, seconds = measured[at]
        if below == gpus or at == len(widths) - 1:
            return seconds
        above, seconds_above = measured[at + 1]
        fraction = (gpus - below) / (above - below)
        return 1 / ((1 - fraction) / seconds + fraction / seconds_above)

    def speedup(self, gpus: int, gpu_type: str = T4) -> float:
        """Return the speed relative to one T4."""
        return self.time(1) / self.time(gpus, gpu_type)


@dataclass(frozen=True, slots=True)
class Submission:
    """A row of the workload: submitted ``at`` seconds after its start, for ``gpus`` GPUs (num_replicas)."""

    name: str
    at: float
    application: str
    gpus: int


def applications(folder: Path = DATA) -> Mapping[str, Application]:
    """Read the applications of speeds.csv by name."""
    epochs: dict[str, int] = {}
    rows: dict[str, dict[str, list[tuple[int, float]]]] = {}
    with (folder / "speeds.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            epochs[row["application"]] = int(row["epochs"])
            points = rows.setdefault(row["application"], {}).setdefault(row["gpu_type"], [])
            points.append((int(row["gpus"]), float(row["seconds"])))
    return {
        name: Application(name, epochs[name], {gpu_type: _never_slower(points) for gpu_type, points in types.items()})
        for name, types in rows.items()
    }


def _never_slower(points: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    ascending = sorted(points)
    least = accumulate((seconds for _, seconds in ascending), min)
    return tuple((gpus, seconds) for (gpus, _), seconds in zip(ascending, least, strict=True))


def submissions(folder: Path = DATA) -> tuple[Submission, ...]:
    """Read the rows of workload.csv in order of time."""
    with (folder / "workload.csv").open(newline="") as file:
        rows = [
            Submission(row["name"], float(row["time"]), row["application"], int(row["num_replicas"]))
            for row in csv.DictReader(file)
        ]
    return tuple(sorted(rows, key=lambda row: row.at))
