"""Bottlenecks of running jobs: windows of reports in, findings out."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from charterer.domain.ids import ClassId, RentalId
from charterer.domain.reports import Bottleneck, BottleneckKind
from charterer.domain.time import Instant, seconds_between

# Whether a checkpoint can be written within the grace period.


_KEPT: Final = 5
_LEAST: Final = 2
"""Number of checkpoints that must have been seen. The first checkpoint may also create folders or wake a volume."""


class CheckpointTimes:
    """The seconds of a run's last checkpoints.

    Reports repeat the seconds of the last checkpoint, so equal numbers in a row are one checkpoint.
    """

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> bool:
        """Take in the seconds of a report. Returns whether they belong to a new checkpoint."""
        if self._seconds and self._seconds[-1] == seconds:
            return False
        self._seconds.append(seconds)
        return True

    def longer_than(self, grace_seconds: float) -> float | None:
        """The median seconds of a checkpoint if they exceed the grace period; None if they do not, or if too few
        checkpoints were seen."""
        if len(self._seconds) < _LEAST:
            return None
        seconds = median(self._seconds)
        return seconds if seconds > grace_seconds else None


# How long nodes took to compute the same step, by class, from which slow nodes are found.
#
# A run of one pod has no peers. Its time for a step is compared with that of runs of its class on other nodes of the
# same GPU type, with the same batch on each GPU. Different jobs ran on these nodes, so a slow job cannot be told from
# a slow node. So the finding is only shown to a person, and no node is given back because of it.


SLOW_NODE: Final = 1.25
"""Least ratio of a slow node's time for a step to that of other nodes. A slow node must also take a tenth longer than
any other node. The ratio is larger than within a run, since jobs of a class differ in their data."""
_BEYOND: Final = 1.1
LEAST_NODES: Final = 5
"""Number of other nodes that must have been seen."""
_MOST_NODES: Final = 32
_MOST_STEPS: Final = 2_000


class Step(NamedTuple):
    """A step that takes equally long on equal nodes. ``batch``: samples on each GPU; 0 if none was reported."""

    class_id: ClassId
    gpu_type: str
    gpus: int
    batch: int


class NodeHistory:
    """Median seconds of computing, by step and node. If there are too many entries, those whose last report is oldest
    are dropped."""

    def __init__(self) -> None:
        self._steps: OrderedDict[Step, OrderedDict[RentalId, float]] = OrderedDict()

    def learn(self, step: Step, rental: RentalId, seconds: float) -> None:
        """Take in that a run of one pod computes for ``seconds`` a step on this node."""
        nodes = self._steps.setdefault(step, OrderedDict())
        nodes[rental] = seconds
        nodes.move_to_end(rental)
        self._steps.move_to_end(step)
        while len(nodes) > _MOST_NODES:
            nodes.popitem(last=False)
        while len(self._steps) > _MOST_STEPS:
            self._steps.popitem(last=False)

    def slowdown(self, step: Step, rental: RentalId) -> float | None:
        """The ratio of the node's time for the step to that of other nodes; None if the node is not slow, or too
        little is known."""
        nodes = self._steps.get(step, OrderedDict())
        own, others = nodes.get(rental), [seconds for name, seconds in nodes.items() if name != rental]
        if own is None or len(others) < LEAST_NODES:
            return None
        ratio = own / median(others)
        return ratio if ratio > SLOW_NODE and own > _BEYOND * max(others) else None


# A sign test over the last values of a measure shows whether the measure exceeds a limit persistently.
#
# If the median of a measure is at most the limit, each value exceeds it with a probability of at most one half,
# whatever the distribution. Of WINDOW independent values, FOUND or more then exceed the limit with a probability of
# at most
#
#   Σ_{k ≥ 28} C(30, k) / 2^30 = 466 / 2^30 = 4.3e-7
#
# (Dixon and Mood 1946, "The statistical sign test"). The test is repeated with every value. So by the union bound, an
# hour of 360 reports has a false finding with a probability of at most 1.6e-4. The probability is that high only if
# the true median lies at the limit itself. No value counts more than another, so a pause, however long, counts as two
# values at most.


WINDOW: Final = 30
"""Number of last values that are looked at: five minutes of reports."""
FOUND: Final = 28
"""Number of values above the limit at which a finding begins. With 30, one pause of garbage collection would delay
the finding by five minutes. With 26, the bound above would be 3e-5 a value, which is one false finding in a hundred
hours."""
OVER: Final = 15
"""A finding ends if no more values than this are above the limit, because the median is then below the limit."""


class PersistentExcess:
    """The last values of a measure. ``found``: whether they exceed ``limit`` persistently."""

    __slots__ = ("_next", "_values", "found", "limit")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.found = False
        self._values = array("f")
        self._next = 0

    def add(self, value: float) -> None:
        """Take in a value, which replaces the oldest one."""
        if len(self._values) < WINDOW:
            self._values.append(value)
        else:
            self._values[self._next] = value
            self._next = (self._next + 1) % WINDOW
        exceeding = sum([each > self.limit for each in self._values])
        self.found = exceeding >= FOUND or (self.found and exceeding > OVER)

    @property
    def full(self) -> bool:
        """Whether there are ``WINDOW`` values."""
        return len(self._values) == WINDOW

    @property
    def median(self) -> float:
        """The median of the last values; 0 before the first."""
        return median(self._values) if self._values else 0.0


# The reports of one run's pods, and which pod or which part of the steps slows the run down.
#
# In synchronous training all ranks have the same step time. The slow rank computes longest and waits least for the
# other ranks (Scavenger and CM-DARE find stragglers so). Each report of a pod is compared with the last reports of
# its peers, so what all pods have in common (another batch, a longer sequence, an evaluation) cancels out. A report
# is left out if it contains no computing time, if the step times of the pods differ, or if no peer has a recent
# report.


SLOW: Final = 1.1
"""Least ratio of a slow worker's computing time to that of its peers. A restart on a new node takes some ten minutes,
and being a tenth faster makes up for them in two hours. Nodes of one kind differ by 1 to 3 % (by 1 % in the TRAINING
figures of CM-DARE)."""
STARVED: Final = 0.15
"""Fraction of a step spent waiting for input. Below this fraction, more loader processes gain less than the change
costs."""
SYNC_BOUND: Final = 0.3
"""Least fraction of a step that all ranks, even the one that waits least, spend waiting for other ranks."""
_FRESH_SECONDS: Final = 60.0
"""Greatest age in seconds of a peer's report that is compared with a pod's."""
_LEAST_SECONDS: Final = 5.0
"""Least seconds between two reports of a pod that count, because more frequent reports are no further evidence."""
_ALIKE: Final = 1.25
"""Greatest ratio of two step times that count as the same. A larger ratio may come from a checkpoint in one of
them."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """Mean seconds of a step of one pod: computing, waiting for other ranks, and waiting for input."""

    compute: float
    sync: float
    load: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.compute + self.sync + self.load


class _Pod:
    __slots__ = ("at", "compute", "last", "load", "slow", "sync")

    def __init__(self) -> None:
        self.last: StepParts | None = None
        self.at = Instant(0)
        self.compute = PersistentExcess(0.0)
        self.slow = PersistentExcess(SLOW)
        self.load = PersistentExcess(STARVED)
        self.sync = PersistentExcess(SYNC_BOUND)


class RunReports:
    """The reports of run ``run``, which has ``pods`` pods."""

    __slots__ = ("_pods", "pods", "run")

    def __init__(self, run: int, pods: int) -> None:
        self.run = run
        self.pods = pods
        self._pods: dict[int, _Pod] = {}

    @property
    def known(self) -> int:
        """Number of pods that have reported."""
        return len(self._pods)

    @property
    def complete(self) -> bool:
        """Whether the computing of every pod is known well enough to say which is slow."""
        return len(self._pods) == self.pods and all([pod.compute.full for pod in self._pods.values()])

    def add(self, index: int, parts: StepParts, at: Instant) -> bool:
        """Take in a report of pod ``index``.

        Returns whether the report begins or ends a finding. ``at``: when the report came, by the operator's clock.
        """
        if not 0 <= index < self.pods or parts.compute <= 0.0:
            return False
        pod = self._pods.setdefault(index, _Pod())
        if pod.last is not None and 0.0 <= seconds_between(pod.at, at) < _LEAST_SECONDS:
            return False
        pod.last, pod.at = parts, at
        before = pod.slow.found, pod.load.found, pod.sync.found
        pod.compute.add(parts.compute)
        pod.load.add(parts.load / parts.seconds)
        pod.sync.add(parts.sync / parts.seconds)
        ratio = self._ratio(index, parts, at)
        if ratio is not None:
            pod.slow.add(ratio)
        return before != (pod.slow.found, pod.load.found, pod.sync.found)

    def _ratio(self, index: int, parts: StepParts, at: Instant) -> float | None:
        """The ratio of the pod's computing to that of its peers; None if they cannot be compared."""
        if self.pods < 2:
            return None
        peers = [
            pod.last
            for other, pod in self._pods.items()
            if other != index and pod.last is not None and abs(seconds_between(pod.at, at)) <= _FRESH_SECONDS
        ]
        if len(peers) < self.pods - 1:
            return None
        whole = median([peer.seconds for peer in peers])
        if not 1.0 / _ALIKE <= parts.seconds / whole <= _ALIKE:
            return None
        if parts.sync > median([peer.sync for peer in peers]):
            return 1.0  # a pod that waits longer than its peers does not hold them up
        return parts.compute / median([peer.compute for peer in peers])

    def findings(self) -> tuple[Bottleneck, ...]:
        """What slows the run down now, in the order of the kinds."""
        found = (self._slow_worker(), self._starved(), self._sync_bound())
        return tuple([bottleneck for bottleneck in found if bottleneck is not None])

    def single_pod(self) -> PersistentExcess | None:
        """The computing seconds of a run of one pod; None with too few values, or with more pods."""
        pod = self._pods.get(0) if self.pods == 1 else None
        return pod.compute if pod is not None and pod.compute.full else None

    def _slow_worker(self) -> Bottleneck | None:
        slow = {index: pod for index, pod in self._pods.items() if pod.slow.found}
        if not slow:
            return None
        worst = max(slow, key=lambda index: slow[index].compute.median)
        own, seconds = slow[worst].compute.median, _seconds(slow[worst])
        peers = [pod.compute.median for index, pod in self._pods.items() if index != worst]
        lost, recovered = (max(own - other, 0.0) / seconds for other in (median(peers), max(peers)))
        value = slow[worst].slow.median
        return Bottleneck(BottleneckKind.SLOW_WORKER, self.run, value, min(lost, 0.99), min(recovered, 0.99), worst)

    def _starved(self) -> Bottleneck | None:
        fractions = {index: pod.load.median for index, pod in self._pods.items() if pod.load.found}
        if not fractions:
            return None
        worst = max(fractions, key=lambda index: fractions[index])
        pod = worst if len(fractions) < self.pods else None
        return Bottleneck(
            BottleneckKind.INPUT_STARVED, self.run, fractions[worst], min(fractions[worst], 0.99), pod=pod
        )

    def _sync_bound(self) -> Bottleneck | None:
        """The finding that all pods wait for each other, so that no single one of them is the cause."""
        if len(self._pods) < self.pods or not all([pod.sync.found for pod in self._pods.values()]):
            return None
        fraction = min([pod.sync.median for pod in self._pods.values()])
        return Bottleneck(BottleneckKind.SYNC_BOUND, self.run, fraction, min(fraction, 0.99))


def _seconds(pod: _Pod) -> float:
    """Seconds of a step, from the medians of its computing and of the fractions that it waits."""
    waits = min(pod.load.median + pod.sync.median, 0.99)
    return pod.compute.median / (1.0 - waits)
