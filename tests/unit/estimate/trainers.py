"""Made-up training whose truth is a formula, and what its trainer would report."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant
from charterer.estimate.noise import gain
from charterer.estimate.observation import Configuration, Observation, Shape, split
from charterer.estimate.throughput import StepFeatures, log_step_times

NODE_GPUS = 4
UNKNOWNS = (math.log(0.5), math.log(0.1), math.log(0.1), math.log(0.05), math.log(0.5), math.log(0.02), 0.0, 0.0)
WIDTHS = (1, 2, 4, 8, 16, 32)


def shape(gpus: int) -> Shape:
    """On how many nodes of four so many GPUs are."""
    return Shape(-(-gpus // NODE_GPUS), gpus)


def log_step(unknowns: Sequence[float], where: Configuration, largest_local: int, sync_effect: float = 0.0) -> float:
    """Log seconds per step of one configuration."""
    return float(log_step_times(unknowns, StepFeatures.of([where], largest_local), sync_effect)[0])


@dataclass(frozen=True)
class Trainer:
    """True step times are the model's with ``unknowns``; true noise follows ``noise`` by the part of the work done."""

    name: str = "resnet"
    unknowns: Sequence[float] = UNKNOWNS
    noise: Callable[[float], float] = field(default=lambda done: 5.0 * math.exp(4.0 * done))
    gpu_type: str = "A"
    own: int = 64
    largest: int = 4096
    local: int = 128

    @property
    def class_id(self) -> ClassId:
        """Its class."""
        return ClassId("team", self.name)

    @property
    def terms(self) -> BatchTerms:
        """What is declared."""
        return BatchTerms(self.own, self.largest, self.local)

    def seconds(self, gpus: int, batch: int) -> float:
        """True seconds per step."""
        return math.exp(log_step(self.unknowns, split(self.terms, shape(gpus), batch), self.local))

    def goodput(self, gpus: int, batch: int, done: float) -> float:
        """True own-batch steps per second."""
        return gain(self.noise(done), batch / self.own) / self.seconds(gpus, batch)

    def report(
        self, gpus: int, batch: int, done: float, draw: random.Random | None = None, spread: float = 0.05
    ) -> Observation:
        """One report, scattered by ``spread`` where there is something to draw from."""
        off = [math.exp(draw.gauss(0.0, spread)) if draw else 1.0 for _ in range(3)]
        batch = split(self.terms, shape(gpus), batch).batch
        return Observation(
            ClassId("team", self.name),
            self.gpu_type,
            shape(gpus).nodes,
            gpus,
            batch,
            self.seconds(gpus, batch) * off[0],
            done,
            Instant(0),
            off[1],
            self.noise(done) * off[2],
        )

    def reports(self, widths: Sequence[int], number: int, seed: int = 0) -> Iterator[Observation]:
        """So many at those widths, at batch sizes and progress drawn evenly (batches by their logarithm)."""
        draw = random.Random(f"{self.class_id}/{self.gpu_type}/{seed}")
        for _ in range(number):
            gpus = draw.choice(widths)
            least = max(self.own, gpus)
            batch = round(math.exp(draw.uniform(math.log(least), math.log(self.largest * 0.98))))
            yield self.report(gpus, batch, draw.random(), draw)
