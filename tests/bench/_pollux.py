"""The measured applications and workloads of Pollux (OSDI'21), the schedulers to compare with, and how that is done.

Completion time falls by up to 4 % for 1 % more GPU-hours near tight budgets, so two policies are compared at equal
rented GPU-hours, read log-log on the lower envelope of a sweep over θ.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise

from charterer.domain.ids import Rate
from charterer.domain.money import Price
from charterer.domain.time import parse_instant
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import Scenario, new_budget
from charterer.tools.simulator.model.workload import Submission, read_workload
from charterer.tools.simulator.policy_registry import ApplicationWidths
from demo.condense import data_dir
from tests.measured import EPOCHS, GPUS_PER_NODE, Tables, read_tables

WORKLOADS = (1, 2, 3, 4)
WIDTHS = (1, 2, *(GPUS_PER_NODE * nodes for nodes in range(1, 17)))
START = parse_instant("2026-06-01T00:00:00Z")
DOLLAR_PER_GPU_HOUR = Price.parse(str(GPUS_PER_NODE))
"""A node's price at which dollars are rented GPU-hours."""
PINNED: Mapping[str, Sequence[int]] = {"ncf": (1,)}
"""Pollux's own simulator runs ncf on one GPU, and so do all that are compared with it."""

Point = tuple[float, float]
"""Rented GPU-hours, mean completion seconds."""


def absent() -> str:
    """Why nothing can be measured, empty when it can."""
    folder = data_dir() / "pollux"
    return "" if folder.is_dir() else f"the measured data is not here: {folder}; CHARTERER_DATA_DIR names the folder"


def need_data() -> None:
    """End with one clear line where the data is absent."""
    why = absent()
    if why:
        print(f"skipped: {why}")
        sys.exit(0)


@cache
def tables() -> Mapping[str, Tables]:
    """The measurements of the six applications."""
    read = {}
    for name in EPOCHS:
        folder = data_dir() / "pollux" / "traces" / name
        validations = {
            int(path.stem.removeprefix("validation-")): path.read_text() for path in folder.glob("validation-*.csv")
        }
        placements, scalability = (folder / "placements.csv").read_text(), (folder / "scalability.csv").read_text()
        read[name] = read_tables(name, validations, placements, scalability)
    return read


@cache
def applications() -> Mapping[str, Application]:
    """The applications at the best batch size of each width and epoch."""
    return {name: table.application(PINNED.get(name, WIDTHS)) for name, table in tables().items()}


@cache
def workload(number: int) -> tuple[Submission, ...]:
    """160 submissions over 8 hours."""
    path = data_dir() / "pollux" / "workloads" / f"workload-{number}.csv"
    with path.open(newline="") as lines:
        return read_workload(lines, path.name, EPOCHS)


def scenario(number: int, dollars_per_hour: float, start_seconds: float = 0.0) -> Scenario:
    """A workload on 4-GPU nodes, for a budget that pays so much for an hour of a job's life whatever is spent."""
    budget = new_budget(START, rate=Rate(dollars_per_hour / 3600.0))
    pool = PoolModel("t4", GPUS_PER_NODE, DOLLAR_PER_GPU_HOUR, start_seconds=start_seconds)
    return Scenario(START, workload(number), applications(), (pool,), budget, ApplicationWidths(applications()))


def rates(count: int, least: float = 1.5, most: float = 70.0) -> list[float]:
    """Dollars an hour of job life, evenly spread in the logarithm: from tight to generous on these workloads."""
    return [least * (most / least) ** (at / max(count - 1, 1)) for at in range(count)]


def envelope(points: Iterable[Point]) -> list[Point]:
    """The lower envelope: what at most so many hours buy at best, ascending in hours."""
    lowest: list[Point] = []
    for hours, seconds in sorted(points):
        if not lowest or seconds < lowest[-1][1]:
            lowest.append((hours, seconds))
    return lowest


def at_hours(points: Iterable[Point], hours: float) -> float | None:
    """Mean completion seconds at that many rented GPU-hours, log-log between points; None beyond them."""
    for (low, slow), (high, fast) in pairwise(envelope(points)):
        if low <= hours <= high:
            fraction = math.log(hours / low) / math.log(high / low)
            return slow * math.exp(fraction * math.log(fast / slow))
    return None


@cache
def baseline(file: str) -> Sequence[Mapping[str, str]]:
    """The rows of a file of baselines/."""
    with (data_dir() / "baselines" / f"{file}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers; nan of none."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
