"""SpeedupProfile.status.machineState: the statistics of a class from which learning goes on after a restart."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Time
from charterer.api.models.learned import Count, Gpus, GpuType, Positive, Samples
from charterer.api.models.statistics.machine_state import MachineContent

MOST_CELLS: Final = 1024
"""Most ways to do a step whose times are kept: widths, nodes and batch sizes of all GPU types together."""
_DROPPED_AT_ONCE: Final = 8
"""Divisor of the number of cells: an eighth is left out at a time, so that few tries find what fits."""

_Sum = Annotated[float, Field(ge=-1e12, le=1e12)]


class StepTimesCell(ApiModel):
    """All reports of one way to do a step.

    ``per_gpu``: samples of a GPU in one pass; ``seconds``: geometric mean of a step; ``scatter``: standard deviation of
    its logarithm; ``weight``: number of reports that it counts for, older ones less; ``reports``: all there ever were.
    """

    gpu_type: GpuType
    nodes: Gpus
    gpus: Gpus
    per_gpu: Samples
    passes: Samples
    seconds: Positive
    scatter: Annotated[float, Field(ge=0, le=100)] = 0
    weight: Annotated[float, Field(gt=0, le=1e6)]
    reports: Annotated[int, Field(ge=1, le=1_000_000_000_000)]


class NoiseSums(ApiModel):
    """Sums over the reports of gradient noise in one of 64 equal parts of the work, ``bin``.

    x is ``noise_growth`` of the batch size over the own one, z the logarithm of the noise scale; ``weight``: number of
    reports.
    """

    bin: Annotated[int, Field(ge=0, le=63)]
    weight: Annotated[float, Field(gt=0, le=1e6)]
    x: _Sum = 0
    xx: _Sum = 0
    z: _Sum = 0
    xz: _Sum = 0
    zz: _Sum = 0


class ClassStatistics(MachineContent):
    """Measurements of a class.

    ``step_times``: of each GPU type the latest last. ``noise_reports``: how many reports had gradients. ``sizes``: work
    of the latest finished jobs in own-batch steps, oldest first; jobs that finished up to ``sizes_through`` are in it.
    """

    step_times: Annotated[tuple[StepTimesCell, ...], Field(max_length=MOST_CELLS)] = ()
    noise_reports: Count = 0
    noise_sums: Annotated[tuple[NoiseSums, ...], Field(max_length=64)] = ()
    sizes: Annotated[tuple[Positive, ...], Field(max_length=200)] = ()
    sizes_through: Time | None = None

    def smaller(self) -> Self | None:
        """Without the eighth of the step times that weighs least, the oldest first among equals."""
        cells = self.step_times
        if not cells:
            return None
        by_weight = sorted(range(len(cells)), key=lambda index: (cells[index].weight, index))
        dropped = frozenset(by_weight[: max(1, len(cells) // _DROPPED_AT_ONCE)])
        kept = tuple(cell for index, cell in enumerate(cells) if index not in dropped)
        return self.model_copy(update={"step_times": kept})
