"""What makes a running job slower than it need be, as its pods' reports show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from charterer.domain.ids import JobId, RentalId


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
