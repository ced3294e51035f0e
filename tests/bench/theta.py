"""How long θ* and a whole plan take:  python -m tests.bench.theta

θ* for 1,000 and 10,000 classes of 64 widths, beside a numpy reproduction (sort all segments, cumulate, search) in the
same process; and ``plan`` for 10,000 jobs of 200 classes on 20 pools, waiting and running.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from purser.domain.profile import Amdahl, SpeedCurve
from purser.policy import plan
from purser.policy.exchange_rate import Demand, solve
from tests.worlds import World

_REPEATS = 9


def milliseconds(work: Callable[[], object]) -> float:
    """The median of some runs."""
    taken = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1e3)
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
        slopes = tuple((money[k + 1] - money[k]) / (took[k] - took[k + 1]) for k in range(widths - 1))
        made.append(Demand(slopes, tuple(money), load))
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


def busy_world(jobs: int, classes: int, pools: int) -> World:
    """Jobs of many classes; the pools have room for all."""
    draw = random.Random(2)
    world = World()
    world.budget(amount="90000000")
    kinds = [f"gpu{number % 4}" for number in range(pools)]
    for number, kind in enumerate(kinds):
        world.pool(f"pool{number:02}", gpu_type=kind, price=str(10 + number), max_nodes=5000)
    for number in range(classes):
        curves = [SpeedCurve(kind, Amdahl(draw.uniform(0.8, 0.999), 1.0 + at)) for at, kind in enumerate(kinds[:4])]
        world.profile(f"class{number}", curves[0].form, gpu_type="gpu0", work_hours=20, others=curves[1:])
    for number in range(jobs):
        world.job(f"job{number}", gpus=(1, 4, 32), profile=f"class{number % classes}", age_seconds=number % 997)
    return world


def planner() -> None:
    """A plan when all jobs wait, when all wait for booting nodes, when all are placed, and when all run."""
    world = busy_world(10_000, 200, 20)
    for stage in ("all wait", "nodes boot", "nodes ready", "all run", "steady"):
        snapshot = world.snapshot()
        began = time.perf_counter()
        decided = plan(snapshot)
        print(f"plan, 10,000 jobs, {stage}: {time.perf_counter() - began:.2f} s, {len(decided.commands)} commands")
        world.carry_out(decided)
        if stage != "all wait":
            world.everything_starts()
        world.passes(60.0)


if __name__ == "__main__":
    solver(1_000)
    solver(10_000)
    planner()
