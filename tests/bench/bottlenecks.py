"""Bottlenecks: false alarms of undisturbed hours, and how soon injected faults are found.

    python -m tests.bench.bottlenecks [--hours 200] [--faults 40] [--pods 1 2 4 16] [--scatter 1] [--rule 28 30]

Reports of simulated runs, each the mean over ten seconds of steps. A step takes 0.2 to 2 s (drawn by run). By itself it
scatters lognormally by 10 %, and what a pod adds to that lasts for minutes (first order, correlation 0.8 from report to
report, 3 %). Nodes differ by 2 %. A pod stands still for 0.3 to 1.5 s now and then (garbage collection, once a minute),
waits for its loader for up to 4 s (once in five minutes), and pod 0 alone writes a checkpoint for 5 to 40 s (every ten
minutes). All evaluate for 30 to 180 s every twenty minutes, in which computing is a third and steps are shorter. A run
begins with 20 to 60 s of slow steps. All-reduces take 5 to 20 % of a step and loading 1 to 8 %, drawn by run. All ranks
wait for the slowest. ``--scatter``: multiplies all of the noise. ``--rule K N``: instead of the operator's, K of the
last N reports.

``false`` counts runs of an hour with a finding of any kind, the start of the run included. Then faults begin at a
moment drawn from the second quarter of an hour, with the part of the runs in which they are found, and the median and
the largest time until then: one pod computes 1.43 times as long (a throttle to 70 %) or 1.15 times; the loader takes 40
% of a step; all-reduces take 50 %; a checkpoint takes twice the grace period (every ten minutes).
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from unittest.mock import patch

from charterer.domain.reports import BottleneckKind
from charterer.domain.time import Instant, after
from charterer.estimate import bottlenecks
from charterer.estimate.bottlenecks import CheckpointTimes, RunReports, StepParts

EVERY = 10.0
HOUR = 3600.0
CHECKPOINT_EVERY = 600.0
GRACE = 30.0


@dataclass(frozen=True)
class Fault:
    """From ``begins`` on: pod 1 (or 0 alone) computes ``slow`` times as long, loading and all-reduces take these parts
    of a step, a checkpoint so many seconds."""

    begins: float = math.inf
    slow: float = 1.0
    load: float = 0.0
    sync: float = 0.0
    checkpoint: float = 0.0


@dataclass(frozen=True)
class Post:
    """A report of one pod, ``at`` seconds from the start of the run."""

    at: float
    pod: int
    parts: StepParts
    checkpoint: float | None


class Trainer:
    """The reports of one run."""

    def __init__(self, draw: random.Random, pods: int, scatter: float, fault: Fault) -> None:
        self._draw, self._pods, self._scatter, self._fault = draw, pods, scatter, fault
        self._step = math.exp(draw.uniform(math.log(0.2), math.log(2.0)))
        self._nodes = [math.exp(draw.gauss(0.0, 0.02 * scatter)) for _ in range(pods)]
        self._drift = [0.0] * pods
        self._sync, self._load = draw.uniform(0.05, 0.2), draw.uniform(0.01, 0.08)
        self._phase = draw.uniform(0.0, 600.0)
        self._evaluation = draw.uniform(30.0, 180.0)
        self._warm_up = draw.uniform(20.0, 60.0)
        self._writes = draw.uniform(5.0, 20.0)

    def posts(self, seconds: float) -> Iterator[Post]:
        """The reports of so many seconds, in order of time."""
        offsets = [self._draw.uniform(0.0, EVERY) for _ in range(self._pods)]
        checkpoint: float | None = None
        for number in range(int(seconds / EVERY)):
            at = number * EVERY
            if (at + self._phase) % CHECKPOINT_EVERY < EVERY and number:
                broken = self._fault.checkpoint if at >= self._fault.begins else 0.0
                checkpoint = (broken or self._writes) * math.exp(self._draw.gauss(0.0, 0.042))
            parts = self._parts(at)
            posts = [Post(at + EVERY + offsets[pod], pod, parts[pod], checkpoint) for pod in range(self._pods)]
            yield from sorted(posts, key=lambda post: post.at)

    def _parts(self, at: float) -> Sequence[StepParts]:
        """The mean step of each pod over the ten seconds from ``at`` on."""
        fault = self._fault if at >= self._fault.begins else Fault()
        step, evaluates = self._step, (at + self._phase) % 1200.0 < self._evaluation
        if evaluates:
            step /= 3.0
        steps = max(EVERY / step, 1.0)
        compute, load = [], []
        for pod in range(self._pods):
            own = step * self._nodes[pod] * self._noise(pod, steps)
            if pod == min(1, self._pods - 1):
                own *= fault.slow
            if at < self._warm_up:
                own *= self._draw.uniform(1.5, 4.0)
            if self._happens(60.0):
                own += self._scatter * self._draw.uniform(0.3, 1.5) / steps
            waits = step * self._load * self._draw.uniform(0.5, 1.5)
            if self._happens(300.0):
                waits += self._scatter * self._draw.uniform(0.0, 4.0) / steps
            if fault.load:
                waits = own * fault.load / (1.0 - fault.load) * self._draw.uniform(0.7, 1.3)
            if pod == 0 and (at + self._phase) % CHECKPOINT_EVERY < EVERY:
                own += min(self._writes, EVERY) / steps
            compute.append(own)
            load.append(waits)
        share = fault.sync or self._sync
        busy = [own + waits for own, waits in zip(compute, load, strict=True)]
        whole = max(busy) / (1.0 - share * self._draw.uniform(0.8, 1.2))
        return [StepParts(own, whole - own - waits, waits) for own, waits in zip(compute, load, strict=True)]

    def _noise(self, pod: int, steps: float) -> float:
        lasting = 0.03 * self._scatter
        self._drift[pod] = 0.8 * self._drift[pod] + self._draw.gauss(0.0, lasting * math.sqrt(1.0 - 0.8**2))
        return math.exp(self._drift[pod] + self._draw.gauss(0.0, 0.1 * self._scatter / math.sqrt(steps)))

    def _happens(self, every: float) -> bool:
        return self._draw.random() < EVERY / every


def found_at(trainer: Trainer, pods: int, seconds: float) -> dict[BottleneckKind, float]:
    """When each kind was found first, in seconds from the start of the run."""
    reports, checkpoints, first = RunReports(1, pods), CheckpointTimes(), dict[BottleneckKind, float]()
    for post in trainer.posts(seconds):
        if reports.add(post.pod, post.parts, after(Instant(0), post.at)):
            for finding in reports.findings():
                first.setdefault(finding.kind, post.at)
        if post.pod == 0 and post.checkpoint is not None:
            checkpoints.add(post.checkpoint)
            if checkpoints.longer_than(GRACE) is not None:
                first.setdefault(BottleneckKind.CHECKPOINT_TOO_LONG, post.at)
    return first


def false_alarms(pods: int, hours: int, scatter: float, seed: int = 0) -> int:
    """The undisturbed hours, of so many, with a finding."""
    runs = (Trainer(random.Random(f"{seed}/{pods}/{hour}"), pods, scatter, Fault()) for hour in range(hours))
    return sum([bool(found_at(trainer, pods, HOUR)) for trainer in runs])


FAULTS = {
    "throttled to 70 %": (BottleneckKind.SLOW_WORKER, Fault(slow=1.0 / 0.7)),
    "1.15 times as slow": (BottleneckKind.SLOW_WORKER, Fault(slow=1.15)),
    "loader 40 %": (BottleneckKind.INPUT_STARVED, Fault(load=0.4)),
    "all-reduces 50 %": (BottleneckKind.SYNC_BOUND, Fault(sync=0.5)),
    "checkpoint 2 graces": (BottleneckKind.CHECKPOINT_TOO_LONG, Fault(checkpoint=2.0 * GRACE)),
}


def delays(name: str, pods: int, runs: int, scatter: float) -> tuple[list[float], int]:
    """Seconds from the beginning of each injected fault to its finding, and in how many runs another kind was found."""
    kind, fault = FAULTS[name]
    found, others = list[float](), 0
    for run in range(runs):
        draw = random.Random(f"{name}/{pods}/{run}")
        begins = draw.uniform(900.0, 1800.0)
        broken = Fault(begins, fault.slow, fault.load, fault.sync, fault.checkpoint)
        first = found_at(Trainer(draw, pods, scatter, broken), pods, HOUR)
        if kind in first:
            found.append(first[kind] - begins)
        others += bool(first.keys() - {kind})
    return found, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--pods", type=int, nargs="+", default=[1, 2, 4, 16])
    parser.add_argument("--scatter", type=float, default=1.0)
    parser.add_argument("--rule", type=int, nargs=2, default=[bottlenecks.FOUND, bottlenecks.WINDOW])
    options = parser.parse_args()
    needed, window = options.rule
    with patch.multiple(bottlenecks, FOUND=needed, WINDOW=window, OVER=min(bottlenecks.OVER, needed - 1)):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print both tables."""
    print("undisturbed hours with a finding")
    for pods in options.pods:
        print(f"  {pods:3d} pods: {false_alarms(pods, options.hours, options.scatter)} of {options.hours}")
    print("found, of runs; median and largest delay; runs with a finding of another kind")
    for name, (kind, _) in FAULTS.items():
        for pods in options.pods:
            if pods == 1 and kind is BottleneckKind.SLOW_WORKER:
                continue
            found, others = delays(name, pods, options.faults, options.scatter)
            times = f"{median(found):5.0f} s {max(found):5.0f} s" if found else "    -       -"
            print(f"  {name:20s} {pods:3d} pods: {len(found)} of {options.faults}  {times}  {others}")


if __name__ == "__main__":
    main()
