"""How long θ* takes:  python -m tests.bench.theta

1,000 and 10,000 classes of 64 widths, beside a numpy reproduction (sort all segments, cumulate, search) in the same
process.
"""

from __future__ import annotations

import random
import statistics
import time
from array import array
from collections.abc import Callable

import numpy as np

from charterer.policy.solve.exchange_rate import Demand, solve

_REPEATS = 9


def milliseconds(work: Callable[[], object]) -> float:
    """The median of some runs, of the processor."""
    taken = []
    for _ in range(_REPEATS):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1e3)
    return statistics.median(taken)


def demands(classes: int, widths: int = 64) -> list[Demand]:
    """Amdahl classes of random parallel fraction, price, load and size; every width is a corner of its hull."""
    draw = random.Random(1)
    made = []
    for _ in range(classes):
        parallel, work = draw.uniform(0.8, 0.999), draw.uniform(1, 20) * 3600
        price, load = draw.uniform(1, 5) / 3600, draw.uniform(0.1, 2.0) / 3600
        speeds = [1 / ((1 - parallel) + parallel / gpus) for gpus in range(1, widths + 1)]
        money = [price * gpus * work / speed for gpus, speed in enumerate(speeds, 1)]
        took = [work / speed for speed in speeds]
        slopes = [(money[k + 1] - money[k]) / (took[k] - took[k + 1]) for k in range(widths - 1)]
        made.append(Demand(array("d", slopes), array("d", money), load))
    return made


def solver(classes: int) -> None:
    """Compare at several budgets between the cheapest and the fastest."""
    made = demands(classes)
    base = sum(one.load * one.spends[0] for one in made)
    top = sum(one.load * one.spends[-1] for one in made)
    slopes = np.array([one.slopes for one in made])
    steps = np.array([np.diff(one.spends) * one.load for one in made])
    for share in (0.02, 0.1, 0.3, 0.6, 0.9):
        allowed = base + share * (top - base)

        def reproduction(allowed: float = allowed) -> float:
            order = np.argsort(slopes, axis=None)
            reached = np.searchsorted(np.cumsum(steps.ravel()[order]), allowed - base)
            return float(slopes.ravel()[order[reached]])

        ours, theirs = milliseconds(lambda allowed=allowed: solve(made, allowed)), milliseconds(reproduction)  # type: ignore[misc]
        assert solve(made, allowed).rate == reproduction()
        print(f"{classes:6} x 64  share {share:4}: {ours:7.2f} ms, numpy {theirs:7.2f} ms, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    solver(1_000)
    solver(10_000)
