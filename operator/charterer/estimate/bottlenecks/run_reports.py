"""The reports of one run's pods, and which of its pods or which part of its steps holds it up.

In synchronous training all ranks have the same step time: the slow one computes longest and waits least for the others
(Scavenger, CM-DARE find stragglers so). Each report of a pod is compared with the last ones of its peers, so that what
all have in common (another batch, a longer sequence, an evaluation) cancels out. What says nothing is left out: a pod
that reports no computing, step times that differ, peers that have not reported of late.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final

from charterer.domain.reports.bottleneck import Bottleneck, BottleneckKind
from charterer.domain.time import Instant, seconds_between
from charterer.estimate.bottlenecks.persistent import PersistentExcess

SLOW: Final = 1.1
"""Times as long as its peers a slow worker computes. A restart and a new node take some ten minutes; a tenth gives them
back in two hours. Nodes of one kind differ by 1 to 3 % (TRAINING figures of CM-DARE: by 1 %)."""
STARVED: Final = 0.15
"""Part of a step spent waiting for input: below that, more loader processes gain less than the change costs."""
SYNC_BOUND: Final = 0.3
"""Part of a step that even the rank that waits least spends waiting for the others."""
_FRESH_SECONDS: Final = 60.0
"""Age up to which a peer's report is compared with."""
_LEAST_SECONDS: Final = 5.0
"""Seconds from a pod's report to the next that counts: more reports of the same time are no more evidence."""
_ALIKE: Final = 1.25
"""Ratio up to which two step times count as the same: that of one pod may include a checkpoint."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """Mean seconds of a step of one pod: in computing, in waiting for other ranks, in waiting for input."""

    compute: float
    sync: float
    load: float

    @property
    def seconds(self) -> float:
        """The whole step."""
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
        """How many pods have reported."""
        return len(self._pods)

    @property
    def complete(self) -> bool:
        """Whether enough is known of the computing of every pod to say which is slow."""
        return len(self._pods) == self.pods and all([pod.compute.full for pod in self._pods.values()])

    def add(self, index: int, parts: StepParts, at: Instant) -> bool:
        """Take in a report of pod ``index``, by the operator's clock; whether that begins or ends a finding."""
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
        """How many times as long as its peers the pod computes; None where they cannot be compared."""
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
            return 1.0  # who waits longer than its peers does not hold them up
        return parts.compute / median([peer.compute for peer in peers])

    def findings(self) -> tuple[Bottleneck, ...]:
        """What holds the run up now, in the order of the kinds."""
        found = (self._slow_worker(), self._starved(), self._sync_bound())
        return tuple([bottleneck for bottleneck in found if bottleneck is not None])

    def single_pod(self) -> PersistentExcess | None:
        """The seconds that the pod of a run of one pod computes; None before there are enough, or with more pods."""
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
        """All pods wait, so it is not for one of them."""
        if len(self._pods) < self.pods or not all([pod.sync.found for pod in self._pods.values()]):
            return None
        fraction = min([pod.sync.median for pod in self._pods.values()])
        return Bottleneck(BottleneckKind.SYNC_BOUND, self.run, fraction, min(fraction, 0.99))


def _seconds(pod: _Pod) -> float:
    """The seconds of a step by the medians of what it computes and of the parts that it waits."""
    waits = min(pod.load.median + pod.sync.median, 0.99)
    return pod.compute.median / (1.0 - waits)
