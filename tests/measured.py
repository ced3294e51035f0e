"""Applications as Pollux (OSDI'21) measured them: step times by placement and batch size, gradient noise by epoch.

Epoch e ends once the statistical progress Δp_e is made, the least that any measured batch size made of it, and a step
at total batch size B advances it by the gain

    g = (σ² + μ²) / (σ²/s + μ²),   s = B / B₀        (equation 6; B₀: own batch size)

with μ² (``grad_sqr``) and σ² (``grad_var``) read linearly between measured batch sizes. A local batch above the largest
that fits is accumulated in equal parts: each part but the last costs a step without its synchronisation. Above one node
only whole nodes are kept.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application, TrainerMeasurement

EPOCHS: Mapping[str, int] = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}
LARGEST_LOCAL_BATCH: Mapping[str, int] = {"yolov3": 8}
GPUS_PER_NODE = 4
_FEW = 1e-8
_BATCH_RATIO = 1.01
"""Ratio of the batch sizes tried between measured ones: neighbours differ in gain by a few percent at most."""

Times = tuple[float, float]
"""Seconds a step, and those of them spent synchronising."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Of one epoch at one total batch size: progress at its end, squared norm and variance of the gradient."""

    progress: float
    sqr: float
    var: float


@dataclass(frozen=True)
class Tables:
    """The measurements of one application: ``epochs`` by total batch size, ``steps`` by GPUs and local batch size."""

    name: str
    epochs: Mapping[int, Sequence[Epoch]]
    steps: Mapping[int, Mapping[int, Times]]

    @cached_property
    def batches(self) -> Sequence[int]:
        """Measured total batch sizes, ascending."""
        return sorted(self.epochs)

    @property
    def own_batch(self) -> int:
        """B₀: the smallest batch size."""
        return self.batches[0]

    @property
    def largest_batch(self) -> int:
        """The largest total batch size."""
        return self.batches[-1]

    @property
    def work(self) -> float:
        """Statistical progress of the whole job, in steps at the own batch size."""
        return self.ends[-1]

    @cached_property
    def largest_local(self) -> int:
        """The largest batch that fits a GPU."""
        return LARGEST_LOCAL_BATCH.get(self.name, max(self.steps[1]))

    @cached_property
    def smallest_local(self) -> int:
        """The smallest batch a GPU was measured with."""
        return min(min(times) for times in self.steps.values())

    @cached_property
    def ends(self) -> Sequence[float]:
        """Progress at the end of each epoch."""
        return [min(self.epochs[batch][at].progress for batch in self.batches) for at in range(EPOCHS[self.name])]

    def statistics(self, epoch: int, batch: int) -> tuple[float, float]:
        """μ² and σ² during an epoch."""
        at = bisect_left(self.batches, batch)
        above = self.epochs[self.batches[at]][epoch]
        if self.batches[at] == batch:
            return above.sqr, above.var
        low, high = self.batches[at - 1], self.batches[at]
        below, part = self.epochs[low][epoch], (batch - low) / (high - low)
        return below.sqr + part * (above.sqr - below.sqr), below.var + part * (above.var - below.var)

    def gain(self, epoch: int, batch: int) -> float:
        """Progress of one step."""
        sqr, var = self.statistics(epoch, batch)
        return (var + sqr) / (var * self.own_batch / batch + sqr)

    def step(self, gpus: int, local: int) -> Times | None:
        """Times of a step without accumulation; linear between what was measured, None beyond."""
        if gpus not in self.steps:
            widths = sorted(self.steps)
            at = bisect_left(widths, gpus)
            if at == 0 or at == len(widths):
                return None
            low, high = self.step(widths[at - 1], local), self.step(widths[at], local)
            return _between(low, high, (gpus - widths[at - 1]) / (widths[at] - widths[at - 1]))
        times = self.steps[gpus]
        if local in times:
            return times[local]
        sizes = sorted(times)
        at = bisect_left(sizes, local)
        if at == 0 or at == len(sizes):
            return None
        below, above = sizes[at - 1], sizes[at]
        return _between(times[below], times[above], (local - below) / (above - below))

    def split(self, gpus: int, batch: int) -> tuple[int, int]:
        """The local batch of one pass, and the number of passes, for a total batch."""
        local = ceil(batch / gpus - _FEW)
        passes = ceil(local / self.largest_local - _FEW)
        return ceil(local / passes - _FEW), passes

    def seconds(self, gpus: int, local: int, passes: int) -> float | None:
        """Seconds a step of ``passes`` passes."""
        times = self.step(gpus, local)
        return None if times is None else times[0] + (passes - 1) * (times[0] - times[1])

    def measurement(self, epoch: int, gpus: int, batch: int) -> TrainerMeasurement | None:
        """What a trainer measures with that batch size, rounded to a feasible one; None if there is none."""
        local, passes = self.split(gpus, batch)
        total = gpus * local * passes
        if local < self.smallest_local or not self.own_batch <= total <= self.largest_batch:
            return None
        seconds = self.seconds(gpus, local, passes)
        if seconds is None:
            return None
        return TrainerMeasurement(total, seconds, *self.statistics(epoch, total))

    def rate(self, epoch: int, gpus: int, batch: int) -> float | None:
        """Fraction of the whole job a second with that batch size; None where it cannot run so."""
        measured = self.measurement(epoch, gpus, batch)
        if measured is None:
            return None
        return self.gain(epoch, measured.batch) / measured.step_seconds / self.work

    def application(self, widths: Iterable[int], gpu_type: str = GPU_TYPE) -> Application:
        """The application on those widths on which it can run, at the best batch size of each epoch."""
        tried = {gpus: self._tried(gpus) for gpus in widths}
        rates: list[dict[int, float]] = []
        for epoch in range(EPOCHS[self.name]):
            fastest = {
                gpus: max(self.gain(epoch, batch) / seconds for batch, seconds in step_seconds.items())
                for gpus, step_seconds in tried.items()
                if step_seconds
            }
            rates.append({gpus: goodput / self.work for gpus, goodput in fastest.items()})
        return Application(self.name, [end / self.work for end in self.ends], {gpu_type: rates}, {gpu_type: self})

    def _tried(self, gpus: int) -> Mapping[int, float]:
        """Seconds a step by total batch size: the measured sizes, and a fine grid between them."""
        sizes = set(self.batches)
        size = float(self.own_batch)
        while size < self.batches[-1]:
            sizes.add(int(size))
            size *= _BATCH_RATIO
        step_seconds: dict[int, float] = {}
        for batch in sorted(sizes):
            measurement = self.measurement(0, gpus, batch)
            if measurement is not None:
                step_seconds[measurement.batch] = measurement.step_seconds
        return step_seconds


def _between(low: Times | None, high: Times | None, part: float) -> Times | None:
    if low is None or high is None:
        return None
    return low[0] + part * (high[0] - low[0]), low[1] + part * (high[1] - low[1])


def read_tables(
    name: str, validations: Mapping[int, str], placements: str, scalability: str, node_gpus: int = GPUS_PER_NODE
) -> Tables:
    """The tables of an application from the texts of its files: ``validations`` by total batch size.

    Only whole nodes and packed widths on one node are kept: with ``node_gpus`` of 4 these are 1, 2, 3, 4, 8, 12, …
    """
    epochs = {
        batch: [
            Epoch(float(row["progress"]), float(row["grad_sqr"]), float(row["grad_var"]))
            for row in csv.DictReader(text.splitlines())
        ]
        for batch, text in validations.items()
    }
    steps: dict[int, dict[int, Times]] = {}

    def keep(gpus: int, row: Mapping[str, str]) -> None:
        steps.setdefault(gpus, {})[int(float(row["local_bsz"]))] = float(row["step_time"]), float(row["sync_time"])

    for row in csv.DictReader(placements.splitlines()):
        digits = row["placement"]
        if (len(digits) == 1 and int(digits) <= node_gpus) or set(digits) == {str(node_gpus)}:
            keep(sum(map(int, digits)), row)
    for row in csv.DictReader(scalability.splitlines()):
        if int(row["num_replicas"]) == node_gpus * int(row["num_nodes"]):
            keep(int(row["num_replicas"]), row)
    return Tables(name, epochs, steps)
