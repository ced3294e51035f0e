"""Reports of the pods of runs: the progress of a job, and bottlenecks that slow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from charterer.domain.ids import JobId, RentalId
from charterer.domain.interactive import Usage
from charterer.domain.time import Instant

# Bottlenecks of a running job, found in its pods' reports.


class BottleneckKind(StrEnum):
    """The kind of bottleneck, which is also the type of its condition."""

    SLOW_WORKER = "SlowWorker"
    SLOW_NODE = "SlowNode"
    INPUT_STARVED = "InputStarved"
    SYNC_BOUND = "SyncBound"
    CHECKPOINT_TOO_LONG = "CheckpointTooLong"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A bottleneck of run ``run`` that has lasted for as long as its rule requires (``estimate.bottlenecks``).

    ``value``: for SLOW_WORKER and SLOW_NODE the ratio of a step's compute time to that elsewhere; for INPUT_STARVED and
    SYNC_BOUND the fraction of each step spent waiting; for CHECKPOINT_TOO_LONG the seconds of a save. ``lost``: the
    fraction of the job's time that the bottleneck costs, in [0, 1). ``recovered``: the fraction that another node would
    give back, which is less if the next pod is slow as well. ``pod``: the index of the pod at fault, and ``rental`` its
    node; None if no single pod is.
    """

    kind: BottleneckKind
    run: int
    value: float
    lost: float
    recovered: float = 0.0
    pod: int | None = None
    rental: RentalId | None = None


def of_run(found: tuple[Bottleneck, ...], run: int) -> tuple[Bottleneck, ...]:
    """The bottlenecks of one run."""
    return tuple([bottleneck for bottleneck in found if bottleneck.run == run]) if found else found


@dataclass(frozen=True, slots=True)
class Findings:
    """Bottlenecks by job, and the nodes that slowed a run and have not been found healthy since."""

    by_job: Mapping[JobId, tuple[Bottleneck, ...]] = field(default_factory=dict)
    slow_nodes: frozenset[RentalId] = frozenset()


# The progress of a job, as its pods report it.


TRUSTED_FRACTION = 0.05
"""Fraction of work done from which a job's own progress predicts its size better than its class does."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of the current run's pods. ``fraction``: the fraction of the work that is done, 0 to 1.
    ``throughput``: in the job's own unit.

    Reports with the same content are equal. ``advanced``: when this process last saw the step or the fraction change;
    None if this process has had no report of the run, or if the run reports neither. ``longest_pause``: the most
    seconds between two such changes, of which it has seen ``advances`` in all runs of the job. ``generation``: the
    generation of the group in which the pods train (``domain.job``); None if the pods never reported one. ``busy``:
    whether a cell runs in an interactive job's run; None if its worker has not reported it. ``usage``: the reported
    usage of all its runs. ``reached``,
    ``reached_step``: the largest fraction and the largest step that earlier reports of any run contained.
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
        """Whether the report contains a value that changes as work is done."""
        return self.step is not None or self.fraction is not None

    @property
    def farthest(self) -> tuple[float | None, int | None]:
        """The largest fraction and step reported so far, including this report."""
        return _larger(self.fraction, self.reached), _larger(self.step, self.reached_step)

    @property
    def behind(self) -> bool:
        """Whether the job had made more progress before, by every value that can be compared. All values are compared
        because a job that became larger has a smaller fraction at the same step, and because a larger batch means
        fewer steps."""
        told = [
            now < before
            for now, before in ((self.fraction, self.reached), (self.step, self.reached_step))
            if now is not None and before is not None
        ]
        return bool(told) and all(told)


_Number = TypeVar("_Number", int, float)


def _larger(one: _Number | None, other: _Number | None) -> _Number | None:
    return other if one is None else one if other is None else max(one, other)
