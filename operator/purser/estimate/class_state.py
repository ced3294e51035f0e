"""All statistics of one class, what was last worked out from them, and their form in JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from purser.estimate.goodput import Candidate
from purser.estimate.learned import Learned
from purser.estimate.noise import BINS, Noise, NoiseBin, NoiseReports
from purser.estimate.observation import ClassTerms, Configuration, Shape
from purser.estimate.plain import Plain, Reader
from purser.estimate.sizes import Sizes
from purser.estimate.throughput import Cell, Fit, StepTimes


@dataclass(slots=True)
class ClassState:
    """Statistics: ``times`` by GPU type, ``noise`` and ``sizes``.

    Worked out: the noise ``curve`` (from so many reports), candidates ``tried`` on a width, whole profiles ``cached``
    with the ``version`` they are of. What is only borrowed from other classes, the curve before any report and fits of
    GPU types it never ran on, is kept with the lesson it is of.
    """

    terms: ClassTerms
    times: dict[str, StepTimes] = field(default_factory=dict)
    noise: NoiseReports = field(default_factory=NoiseReports)
    sizes: Sizes = field(default_factory=Sizes)
    curve: tuple[Noise, ...] = ()
    curve_reports: int = 0
    curve_lesson: int = 0
    borrowed: dict[str, tuple[int, Fit]] = field(default_factory=dict)
    version: int = 0
    tried: dict[tuple[str, int], tuple[Fit, tuple[Candidate, ...]]] = field(default_factory=dict)
    cached: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[int, Learned]] = field(default_factory=dict)

    @property
    def best(self) -> StepTimes | None:
        """The GPU type that most is known of; None before the first report."""
        return max((one for one in self.times.values() if one.reports), key=lambda one: one.reports, default=None)

    def to_plain(self) -> dict[str, Plain]:
        """The statistics alone; their size is bounded per GPU type."""
        return {
            "stepTimes": [
                {"gpuType": gpu_type, "reports": one.reports, "cells": _cells_to_plain(one)}
                for gpu_type, one in self.times.items()
            ],
            "noiseReports": self.noise.reports,
            "noise": [[one.weight, one.x, one.xx, one.y, one.xy, one.yy] for one in self.noise.bins],
            "sizes": [[work] for work in self.sizes.latest],
        }


def state_from_plain(terms: ClassTerms, read: Reader) -> ClassState:
    """The inverse of ``ClassState.to_plain``; what is worked out is worked out anew. ValueError for anything else."""
    state = ClassState(terms)
    for one in read.items("stepTimes"):
        times = StepTimes(terms.largest_local_batch, reports=one.whole("reports"))
        for nodes, gpus, local, passes, weight, mean, variance, count in one.numbers("cells", 8):
            where = Configuration(Shape(int(nodes), int(gpus)), int(local), int(passes))
            times.cells[where] = Cell(weight, mean, variance, int(count))
        state.times[one.text("gpuType")] = times
    bins = read.numbers("noise", 6)
    if len(bins) != BINS:
        raise ValueError(f"{read.path}noise: {len(bins)} rows; there are {BINS} bins")
    state.noise = NoiseReports([NoiseBin(*row) for row in bins], read.whole("noiseReports"))
    state.sizes = Sizes([work for (work,) in read.numbers("sizes", 1)])
    return state


def _cells_to_plain(times: StepTimes) -> list[Plain]:
    return [
        [
            where.shape.nodes,
            where.shape.gpus,
            where.local,
            where.passes,
            cell.weight,
            cell.mean,
            cell.variance,
            cell.count,
        ]
        for where, cell in times.cells.items()
    ]
