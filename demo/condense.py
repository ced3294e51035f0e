"""Derives demo/data from the measured data: how long each application takes by its number of GPUs.

    python -m demo.condense [--check] [DATA_DIR]

An application goes through epochs. Epoch e is done once it has made the statistical progress Δp_e (the least of all
measured batch sizes), and a step at total batch size M advances it by the gain

    g = (σ² + μ²) / (σ²/s + μ²),   s = M / M₀

(Pollux, OSDI'21, equation 6; μ²: `grad_sqr`, σ²: `grad_var`, M₀: the application's own batch size). On k GPUs the epoch
takes Δp_e · step seconds / g, with the batch size that makes this the least among those measured on k. The table holds
the sum over the epochs: each width at its best batch sizes, statistical efficiency included.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

DATA = Path(__file__).parent / "data"
WORKLOAD = "workload-2"
EPOCHS = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}
LARGEST_LOCAL_BATCH = {"yolov3": 8}


@dataclass(frozen=True, slots=True)
class Measurements:
    """Files with the step times of a GPU type, where ``{name}`` is an application.

    ``packed`` maps GPUs to their packed placement, as the digits of `placements.csv`. ``nodes`` maps GPUs to nodes, for
    widths whose packed placement only `scalability.csv` has.
    """

    placements: str
    scalability: str
    packed: Mapping[int, str]
    nodes: Mapping[int, int]


TYPES = {
    "Tesla-T4": Measurements(
        "pollux/traces/{name}/placements.csv",
        "pollux/traces/{name}/scalability.csv",
        {1: "1", 2: "2", 4: "4", 6: "24", 8: "44", 12: "444", 16: "4444"},
        {24: 6, 32: 8, 48: 12},
    ),
    "NVIDIA-A100-SXM4-40GB": Measurements(
        "sia/traces/{name}/placements-dgx.csv",
        "sia/traces/{name}/scalability-dgx.csv",
        {1: "1", 2: "2", 4: "4", 8: "8", 16: "88"},
        {},
    ),
}
"""Nodes of four T4 (Pollux) and of eight A100 (Sia). 6 T4 are a whole node and half of another.

An application's statistics do not depend on the type, because Sia's jobs are Pollux's.
"""


class DataMissing(Exception):
    """The measured data is not in the given directory."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an epoch at a total batch size: progress so far, squared norm and variance of the gradient."""

    progress: float
    sqr: float
    var: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One application: statistics of its epochs by total batch size, and seconds per step by GPUs and batch size."""

    name: str
    statistics: Mapping[int, Sequence[Statistics]]
    steps: Mapping[int, Mapping[int, float]]

    @property
    def own_batch(self) -> int:
        """M₀: the smallest batch size with measured statistics."""
        return min(self.statistics)

    def statistics_at(self, epoch: int, batch: int) -> tuple[float, float]:
        """Return μ² and σ² at a batch size, by linear interpolation in the logarithm of the batch size."""
        sizes = sorted(self.statistics)
        low = bisect_right(sizes, batch) - 1
        below = self.statistics[sizes[low]][epoch]
        if sizes[low] == batch:
            return below.sqr, below.var
        above = self.statistics[sizes[low + 1]][epoch]
        fraction = math.log(batch / sizes[low]) / math.log(sizes[low + 1] / sizes[low])
        return below.sqr + fraction * (above.sqr - below.sqr), below.var + fraction * (above.var - below.var)

    def epoch_progress(self, epoch: int) -> float:
        """Return Δp of an epoch: the least progress at its end minus the least progress at the end before."""

        def least(at: int) -> float:
            return min(rows[at].progress for rows in self.statistics.values())

        return least(epoch) - (least(epoch - 1) if epoch else 0.0)

    def epoch_seconds(self, epoch: int, gpus: int) -> tuple[float, int]:
        """Return the epoch's seconds on ``gpus`` at the best batch size, and that batch size."""
        progress = self.epoch_progress(epoch)

        def seconds(batch: int) -> float:
            sqr, var = self.statistics_at(epoch, batch)
            gain = (var + sqr) / (var / (batch / self.own_batch) + sqr)
            return progress * self.steps[gpus][batch] / gain

        return min((seconds(batch), batch) for batch in self.steps[gpus])


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def _steps(
    data: Path, application: str, of: Measurements, allowed: range, largest_local: float
) -> dict[int, dict[int, float]]:
    steps: dict[int, dict[int, float]] = {}

    def add(gpus: int, row: Mapping[str, str]) -> None:
        local = int(float(row["local_bsz"]))
        if gpus * local in allowed and local <= largest_local:
            steps.setdefault(gpus, {})[gpus * local] = float(row["step_time"])

    gpus_of = {placement: gpus for gpus, placement in of.packed.items()}
    for row in _rows(data / of.placements.format(name=application)):
        if row["placement"] in gpus_of:
            add(gpus_of[row["placement"]], row)
    for row in _rows(data / of.scalability.format(name=application)):
        gpus = int(row["num_replicas"])
        if of.nodes.get(gpus) == int(row["num_nodes"]):
            add(gpus, row)
    return steps


def read(data: Path, application: str, gpu_type: str) -> Measured:
    """Read the measurements of one application on one GPU type from the data directory."""
    folder = data / "pollux" / "traces" / application
    statistics = {
        int(path.stem.removeprefix("validation-")): [
            Statistics(float(row["progress"]), float(row["grad_sqr"]), float(row["grad_var"])) for row in _rows(path)
        ]
        for path in sorted(folder.glob("validation-*.csv"))
    }
    if not statistics:
        raise DataMissing(f"no validation-*.csv in {folder}; set CHARTERER_DATA_DIR to the folder that has pollux/")
    allowed = range(min(statistics), max(statistics) + 1)
    largest = LARGEST_LOCAL_BATCH.get(application, math.inf)
    return Measured(application, statistics, _steps(data, application, TYPES[gpu_type], allowed, largest))


def speeds(data: Path) -> str:
    """Make the text of speeds.csv."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["application", "epochs", "gpu_type", "gpus", "seconds", "first_batch", "last_batch"])
    for (application, epochs), gpu_type in product(EPOCHS.items(), TYPES):
        measured = read(data, application, gpu_type)
        for gpus in sorted(measured.steps):
            taken = [measured.epoch_seconds(epoch, gpus) for epoch in range(epochs)]
            seconds = sum(epoch_seconds for epoch_seconds, _ in taken)
            table.writerow([application, epochs, gpu_type, gpus, f"{seconds:.1f}", taken[0][1], taken[-1][1]])
    return text.getvalue()


def workload(data: Path) -> str:
    """Return the text of workload.csv: the unchanged submissions."""
    return (data / "pollux" / "workloads" / f"{WORKLOAD}.csv").read_text()


def data_dir() -> Path:
    """Return CHARTERER_DATA_DIR, or ../shared/data beside the checkout."""
    named = os.environ.get("CHARTERER_DATA_DIR")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> int:
    """Write demo/data, or with --check compare it with the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=data_dir(), help="the folder with the measured data")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when demo/data is stale")
    arguments = parser.parse_args()
    try:
        texts = {"speeds.csv": speeds(arguments.data), "workload.csv": workload(arguments.data)}
    except (DataMissing, FileNotFoundError) as missing:
        print(f"condense: {missing}", file=sys.stderr)
        return 1
    stale = [name for name, text in texts.items() if not _same(DATA / name, text)]
    if arguments.check:
        for name in stale:
            print(f"demo/data/{name} is stale: run python -m demo.condense", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (DATA / name).write_text(texts[name])
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
