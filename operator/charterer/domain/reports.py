"""What the pods of runs report: how far a job is, and what makes it slower than it need be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from charterer.domain.ids import JobId, RentalId
from charterer.domain.interactive import Usage
from charterer.domain.time import Instant

# What makes a running job slower than it need be, as its pods' reports show it.


class BottleneckKind(StrEnum):
    """The kind of bottleneck, which is also the type of its condition."""

    SLOW_WORKER = "SlowWorker"
    SLOW_NODE = "SlowNode"
    INPUT_STARVED = "InputStarved"
    SYNC_BOUND = "SyncBound"
    CHECKPOINT_TOO_LONG = "CheckpointTooLong"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A finding about the run ``run`` that has lasted for as long as its rule asks (``estimate.bottlenecks``).

    ``value``: of SLOW_WORKER and SLOW_NODE how many times as long a step's computing takes as elsewhere, of
    INPUT_STARVED and SYNC_BOUND the part of each step that is waiting, of CHECKPOINT_TOO_LONG seconds of a save.
    ``lost``: the part of the job's time that it takes, in [0, 1). ``recovered``: the part that another node would give
    back, which is less where the next pod is slow as well. ``pod``: index of the pod at fault, on ``rental``; None
    where it is not one pod's.
    """

    kind: BottleneckKind
    run: int
    value: float
    lost: float
    recovered: float = 0.0
    pod: int | None = None
    rental: RentalId | None = None


def of_run(found: tuple[Bottleneck, ...], run: int) -> tuple[Bottleneck, ...]:
    """Those of the findings that are about the run of this number."""
    return tuple([bottleneck for bottleneck in found if bottleneck.run == run]) if found else found


@dataclass(frozen=True, slots=True)
class Findings:
    """What holds runs up, by job, and the nodes that held one up and have not been found well since."""

    by_job: Mapping[JobId, tuple[Bottleneck, ...]] = field(default_factory=dict)
    slow_nodes: frozenset[RentalId] = frozenset()


# How far a job is, as its pods report it.


TRUSTED_FRACTION = 0.05
"""Fraction of the work from which on a job's own progress says more about its size than its class does."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of the current run's pods. ``fraction`` done in [0, 1]; ``throughput`` in the job's own unit.

    Two are equal that say the same. ``advanced``: when step or fraction moved last, as this process has seen; None
    where it has not heard of the run, or neither is reported. ``longest_pause``: the most seconds between two such
    moments, of which it has seen ``advances`` in all runs of the job. ``generation``: of the group in which they train
    (``domain.job``); None where they never named one. ``busy``: whether a cell runs in an interactive job's run,
    None where its worker has not said; ``usage``: what all its runs have said so. ``reached`` and
    ``reached_step``: the largest fraction and step that were reported before, in any run.
    """

    run: int
    fraction: float | None
    step: int | None
    throughput: float | None
    at: Instant
    generation: int | None = None
    busy: bool | None = None
    usage: Usage | None = None
    reached: float | None = None
    reached_step: int | None = None
    advanced: Instant | None = field(default=None, compare=False)
    longest_pause: float = field(default=0.0, compare=False)
    advances: int = field(default=0, compare=False)

    @property
    def moves(self) -> bool:
        """Whether it says something that moves as the work is done."""
        return self.step is not None or self.fraction is not None

    @property
    def farthest(self) -> tuple[float | None, int | None]:
        """The largest fraction and step that were reported up to it."""
        return _larger(self.fraction, self.reached), _larger(self.step, self.reached_step)

    @property
    def behind(self) -> bool:
        """Whether the job was farther before, by all that can be compared. A larger job has a smaller fraction at the
        same step, and a larger batch fewer steps."""
        told = [
            now < before
            for now, before in ((self.fraction, self.reached), (self.step, self.reached_step))
            if now is not None and before is not None
        ]
        return bool(told) and all(told)


_Number = TypeVar("_Number", int, float)


def _larger(one: _Number | None, other: _Number | None) -> _Number | None:
    return other if one is None else one if other is None else max(one, other)
