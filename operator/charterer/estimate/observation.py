"""What is declared of a class of jobs and what a trainer reports while one of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from charterer.domain.ids import ClassId
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """What is declared of a class. Batch sizes are samples: ``own_batch`` (B₀) is what its recipe was written for.

    ``largest_batch``: the largest total batch; ``largest_local_batch``: the most that fits one GPU, larger shares are
    accumulated over several passes; ``smallest_local_batch``: the least a GPU is given. ValueError for an empty range.
    """

    class_id: ClassId
    own_batch: int
    largest_batch: int
    largest_local_batch: int
    smallest_local_batch: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.own_batch <= self.largest_batch:
            raise ValueError(
                f"class {self.class_id}: own batch {self.own_batch} must lie between 1 and the largest "
                f"total batch {self.largest_batch}"
            )
        if not 1 <= self.smallest_local_batch <= self.largest_local_batch:
            raise ValueError(
                f"class {self.class_id}: smallest batch per GPU {self.smallest_local_batch} must lie between 1 and the "
                f"largest batch per GPU {self.largest_local_batch}"
            )


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """How GPUs are spread: the number of nodes (pods) and of GPUs in all."""

    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """How a step is done: on a shape, with ``local`` samples per GPU and pass, ``passes`` of them per step."""

    shape: Shape
    local: int
    passes: int

    @property
    def batch(self) -> int:
        """Total batch size: what all GPUs see in one step."""
        return self.shape.gpus * self.local * self.passes


def split(terms: ClassTerms, shape: Shape, batch: int) -> Configuration:
    """How a total batch is done: the fewest passes that fit, in equal parts, rounded up to whole samples per GPU."""
    share = -(-batch // shape.gpus)
    passes = max(-(-share // terms.largest_local_batch), 1)
    return Configuration(shape, -(-share // passes), passes)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a trainer measured of itself over some steps. ``batch``: total batch size; ``step_seconds``: mean per step.

    ``grad_sqr`` and ``grad_var``: squared norm μ² of the gradient and variance σ² of its estimate at the own batch size
    (Pollux §3.1); None where not measured. ``fraction``: the part of the job's work that was done, 0 to 1.
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
        """Where it ran."""
        return Shape(self.nodes, self.gpus)

    def fault(self) -> str:
        """What makes the report unusable, in words; empty for a good one."""
        wrong = ""
        if not (isfinite(self.step_seconds) and self.step_seconds > 0.0):
            wrong = f"seconds per step {self.step_seconds!r}: report a finite number above 0"
        elif not 0.0 <= self.fraction <= 1.0:
            wrong = f"fraction {self.fraction!r}: report the part of the work done, between 0 and 1"
        elif not 1 <= self.nodes <= self.gpus:
            wrong = f"{self.gpus} GPUs on {self.nodes} nodes: every node has at least one GPU"
        elif self.batch < 1:
            wrong = f"batch {self.batch}: report the total batch size, at least 1"
        return f"report of class {self.class_id}: {wrong}" if wrong else ""
