"""CM-DARE's tables (ICDCS'20): speeds and checkpoints of twenty convolutional networks on K80 and P100, start-ups."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from demo.condense import data_dir

SAMPLES = 128
"""Of a step on one GPU."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A model on a GPU type: the mean of thirteen measurements. ``seconds``: of one sample."""

    model: str
    gpu_type: str
    flops: float
    parameters: float
    seconds: float

    @property
    def family(self) -> str:
        """Shake-shake networks, or residual ones."""
        return "shake" if self.model.startswith("shake") else "resnet"


def folder() -> Path:
    """Where the tables are."""
    return data_dir() / "cmdare"


def need_data() -> None:
    """End with one clear line where the data is absent."""
    if not folder().is_dir():
        print(f"skipped: the measured data is not here: {folder()}; CHARTERER_DATA_DIR names the folder")
        sys.exit(0)


def _rows(name: str) -> Iterator[Mapping[str, str]]:
    with (folder() / name).open(newline="") as lines:
        yield from csv.DictReader(lines)


@cache
def steps() -> tuple[MeasuredStep, ...]:
    """Every model on both GPU types."""
    found: dict[tuple[str, str, float, float], list[float]] = {}
    for row in _rows("speed_data/0latency_norm_computation.csv"):
        if row["Step Time (s)"]:
            key = row["Model (temp)"], row["GPU (temp)"], float(row["Model FLOPs"]), float(row["Number of Parameters"])
            found.setdefault(key, []).append(float(row["Step Time (s)"]))
    return tuple(MeasuredStep(*key, fmean(seconds) / SAMPLES) for key, seconds in found.items())


@cache
def checkpoints() -> Mapping[str, tuple[float, tuple[float, ...]]]:
    """By model: its parameters (weights and a momentum of four bytes each), and seconds of five checkpoints."""
    found: dict[str, tuple[float, list[float]]] = {}
    for row in _rows("checkpoint/whole_data.csv"):
        parameters = float(row["Weight File Size"]) * 2.0**20 / 8.0
        found.setdefault(row["Model"], (parameters, []))[1].append(float(row["Duration"]))
    return {model: (parameters, tuple(seconds)) for model, (parameters, seconds) in found.items()}


@cache
def start_ups() -> Mapping[tuple[str, str], tuple[float, ...]]:
    """By region with billing, and GPU type: seconds from asking for a machine until it has booted."""
    found = {}
    for path in sorted(folder().glob("startup_time/*/*.csv")):
        gpu_type = "P100" if "p100" in path.stem else "K80"
        rows = _rows(str(path.relative_to(folder())))
        found[path.parent.name, gpu_type] = tuple(math.fsum(map(float, row.values())) for row in rows)
    return found
