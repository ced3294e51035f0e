"""How a step is done, and what a trainer reports of its steps while a job runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """How a run is spread: the number of nodes, with one pod on each, and the total number of GPUs."""

    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """How a step is done: on a shape, in ``passes`` passes with ``local`` samples per GPU each."""

    shape: Shape
    local: int
    passes: int

    @property
    def batch(self) -> int:
        """Total batch size: the samples of all GPUs in one step."""
        return self.shape.gpus * self.local * self.passes


def split(terms: BatchTerms, shape: Shape, batch: int) -> Configuration:
    """The configuration for a total batch. It has the fewest equal passes that fit, with samples per GPU rounded up
    to whole numbers."""
    per_gpu = -(-batch // shape.gpus)
    passes = max(-(-per_gpu // terms.largest_per_gpu), 1)
    return Configuration(shape, -(-per_gpu // passes), passes)


@dataclass(frozen=True, slots=True)
class Observation:
    """A trainer's measurements over some steps.

    ``batch``: total batch size.
    ``step_seconds``: mean seconds of a step.
    ``fraction``: the fraction of the job's work that is done, 0 to 1.
    ``grad_sqr``, ``grad_var``: squared norm μ² of the gradient, and variance σ² of its estimate at the own batch size
    (Pollux §3.1); None if not measured.
    """

    class_id: ClassId
    gpu_type: str
    nodes: int
    gpus: int
    batch: int
    step_seconds: float
    fraction: float
    at: Instant
    grad_sqr: float | None = None
    grad_var: float | None = None

    @property
    def shape(self) -> Shape:
        """The nodes and GPUs it ran on."""
        return Shape(self.nodes, self.gpus)

    def fault(self) -> str:
        """The reason why the report is unusable; empty for a usable one."""
        problem = ""
        if not (isfinite(self.step_seconds) and self.step_seconds > 0.0):
            problem = f"seconds per step {self.step_seconds!r}: report a finite number above 0"
        elif not 0.0 <= self.fraction <= 1.0:
            problem = f"fraction {self.fraction!r}: report the fraction of the work that is done, between 0 and 1"
        elif not 1 <= self.nodes <= self.gpus:
            problem = f"{self.gpus} GPUs on {self.nodes} nodes: every node has at least one GPU"
        elif self.batch < 1:
            problem = f"batch {self.batch}: report the total batch size, at least 1"
        return f"report of class {self.class_id}: {problem}" if problem else ""
