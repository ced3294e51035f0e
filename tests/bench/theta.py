"""How long θ* takes:  python -m tests.bench.theta

200 classes of 64 widths each, gathering their demands included, beside numpy without gathering: it sorts the same
segments, cumulates and searches.
"""

from __future__ import annotations

import random
import statistics
import time
from array import array
from collections.abc import Callable

import numpy as np

from charterer.policy.solve.hull import Demand, solve

CLASSES, WIDTHS = 200, 64
_REPEATS = 9


def milliseconds(work: Callable[[], object]) -> float:
    """The median of some runs, in milliseconds of the processor."""
    taken = []
    for _ in range(_REPEATS):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1e3)
    return statistics.median(taken)


class AmdahlClass:
    """A class of random parallel fraction, price, load and size; every width is a corner of its hull."""

    def __init__(self, draw: random.Random) -> None:
        parallel, work = draw.uniform(0.8, 0.999), draw.uniform(1, 20) * 3600
        price = draw.uniform(1, 5) / 3600
        self.load = draw.uniform(0.1, 2.0) / 3600
        speeds = [1 / ((1 - parallel) + parallel / gpus) for gpus in range(1, WIDTHS + 1)]
        money = [price * gpus * work / speed for gpus, speed in enumerate(speeds, 1)]
        took = [work / speed for speed in speeds]
        slopes = [(money[k + 1] - money[k]) / (took[k] - took[k + 1]) for k in range(WIDTHS - 1)]
        self.money, self.slopes = array("d", money), array("d", slopes)

    def demand(self) -> Demand:
        """The class as the solver sees it."""
        return Demand(self.slopes, self.money, self.load, 1.0, self.slopes[-1])


def main() -> None:
    """Compare at several budgets between the cheapest and the fastest corners."""
    draw = random.Random(1)
    classes = [AmdahlClass(draw) for _ in range(CLASSES)]
    base = sum(choosers.load * choosers.money[0] for choosers in classes)
    top = sum(choosers.load * choosers.money[-1] for choosers in classes)
    slopes = np.array([choosers.slopes for choosers in classes])
    steps = np.array([np.diff(choosers.money) * choosers.load for choosers in classes])
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        allowed = base + share * (top - base)

        def reproduction(allowed: float = allowed) -> float:
            order = np.argsort(slopes, axis=None)
            reached = np.searchsorted(np.cumsum(steps.ravel()[order]), allowed - base)
            return float(slopes.ravel()[order[reached]])

        def product(allowed: float = allowed) -> float:
            return solve([choosers.demand() for choosers in classes], allowed).rate

        assert product() == reproduction()
        ours, theirs = milliseconds(product), milliseconds(reproduction)
        print(f"{CLASSES} x {WIDTHS}  share {share:4}: {ours:6.2f} ms, numpy {theirs:6.2f} ms")


if __name__ == "__main__":
    main()
