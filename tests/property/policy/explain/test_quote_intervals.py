"""The interval of a quote holds for nine of ten jobs, of classes whose jobs are alike or not, known well or not."""

from __future__ import annotations

from math import log
from random import Random

from charterer.policy.explain.quote import LogSums, next_log
from tests import lanes


def _held(draw: Random, deviation: float, off: float, jobs: int) -> bool:
    """Whether the next job of a class lies within the interval that the ones before it give."""
    logs = [off + draw.gauss(0.0, deviation) for _ in range(jobs + 1)]
    own = LogSums(float(jobs), sum(logs[:-1]), sum(each**2 for each in logs[:-1]))
    others = [LogSums(20.0, 0.0, 20.0 * draw.uniform(0.2, 1.5) ** 2) for _ in range(draw.randint(0, 3))]
    interval = next_log(own, others).of(1.0)
    return log(interval.low) <= logs[-1] <= log(interval.high)


def test_nine_of_ten_lie_within() -> None:
    draw = Random(7)
    rounds = 10 * lanes.examples(2000)
    held = [
        _held(draw, draw.uniform(0.2, 1.5), draw.gauss(0.0, 0.3), draw.choice((5, 10, 20, 50))) for _ in range(rounds)
    ]
    assert 0.85 <= sum(held) / rounds <= 0.95
