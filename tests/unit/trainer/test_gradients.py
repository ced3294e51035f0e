"""The estimates of gradient noise have no bias, and are in the convention in which the operator reads them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from charterer.estimate.noise import gain as operators_gain
from charterer_trainer import GradientNoise
from charterer_trainer.gradients import Interval, estimate
from tests.unit.server.support import Clock

PARAMETERS = 50
BATCH = 64
OWN_BATCH = 256
DRAWS = 4000


def drawn(parts: int) -> tuple[GradientNoise, float, float]:
    """A quadratic model: its gradient is g plus normal noise, so |g|² and the variance at the own batch are known."""
    random = np.random.default_rng(parts)
    g, spread = random.normal(size=PARAMETERS) * 0.1, random.uniform(0.2, 2.0, PARAMETERS)
    noise = GradientNoise(OWN_BATCH)
    for _ in range(DRAWS):
        micro = g + random.normal(size=(parts, PARAMETERS)) * spread / np.sqrt(BATCH / parts)
        noise.add_parts(list((micro**2).sum(axis=1)), (micro.mean(axis=0) ** 2).sum(), BATCH)
    return noise, float((g**2).sum()), float((spread**2).sum()) / OWN_BATCH


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_the_mean_over_steps_is_the_truth(parts: int) -> None:
    noise, sqr, var = drawn(parts)
    # Standard errors of 4,000 draws: 0.7 to 1.5 % of the variance, and of |g|² by the spread of one draw.
    assert noise.measured == DRAWS
    assert noise.var == pytest.approx(var, rel=0.03)
    assert noise.sqr == pytest.approx(sqr, rel=0.08)
    assert noise.gain(2 * OWN_BATCH) == pytest.approx(operators_gain(var / sqr, 2.0), rel=0.03)


def test_single_estimates_are_often_negative_and_count_all_the_same() -> None:
    noise = GradientNoise(10)
    noise.add(small=6.0, small_batch=5, large=2.0, large_batch=10)
    assert (noise.sqr, noise.var) == (-2.0, 4.0)
    noise.add(small=6.0, small_batch=5, large=5.0, large_batch=10)
    assert (noise.sqr, noise.var) == (1.0, 2.5)


def test_an_estimate_of_a_gradient_without_noise_is_the_gradient() -> None:
    assert estimate(3.0, 4, 3.0, 8) == (3.0, 0.0)


@pytest.mark.parametrize("norm", [float("nan"), float("inf"), 1e38])
def test_gradients_that_exploded_are_left_out(norm: float) -> None:
    noise = GradientNoise(10)
    noise.add(norm, 5, 1.0, 10)
    assert noise.measured == 0


def test_two_batches_of_one_size_tell_nothing() -> None:
    with pytest.raises(ValueError, match="no larger"):
        GradientNoise(10).add_parts([1.0], 1.0, 10)
    with pytest.raises(ValueError, match="at least 1"):
        GradientNoise(0)


def test_the_gain_of_a_larger_batch_lies_between_none_and_all_of_it() -> None:
    noise = GradientNoise(10)
    assert noise.gain(40) == 1.0
    noise.add(small=6.0, small_batch=5, large=2.0, large_batch=10)
    assert noise.gain(40) == 4.0
    noise.add(small=6.0, small_batch=5, large=5.0, large_batch=10)
    assert noise.gain(40) == pytest.approx(3.5 / (2.5 / 4 + 1))
    assert noise.gain(10) == 1.0


def test_some_steps_are_measured_and_the_others_left_alone() -> None:
    noise = GradientNoise(10, every=5)
    assert [step for step in range(12) if noise.due(step)] == [0, 5, 10]


def trained(costs: list[float], seconds: list[float], share: float = 0.003) -> list[int]:
    """Steps that are measured of as many as ``seconds`` names, which take that long and ``costs`` where measured."""
    clock = Clock()
    interval = Interval(20, share, clock)
    measured: list[int] = []
    for step, duration in enumerate(seconds):
        clock.now += duration
        if interval.due(step):
            cost = costs[min(len(measured), len(costs) - 1)]
            clock.now += cost
            interval.took(cost / 2)
            interval.took(cost / 2)
            interval.next_after(step, interval.wanted(step))
            measured.append(step)
    return measured


@pytest.mark.parametrize("cost", [0.0, 0.001, 0.014, 0.1, 3.0])
def test_measuring_takes_no_more_than_its_share_of_the_time(cost: float) -> None:
    steps = 200_000
    measured = trained([cost], [0.1] * steps)
    assert measured[:2] == [0, 20], "what a step takes is known from the second on"
    assert cost * (len(measured) - 2) <= 0.003 * 0.1 * steps * 1.01
    gaps = {after - before for before, after in pairwise(measured[2:])}
    expected = max(20, cost / 0.003 / 0.1)
    assert all(0.99 * expected <= gap <= 1.05 * expected + 1 for gap in gaps)


def test_the_interval_follows_the_cost_and_the_steps() -> None:
    slower, cheaper = [0.1] * 1_000 + [1.0] * 1_000, [0.03] * 5 + [0.003]
    assert 100 <= trained([0.03], slower)[5] - trained([0.03], slower)[4] <= 102
    assert trained([0.03], slower)[-1] - trained([0.03], slower)[-2] == 20
    assert trained(cheaper, [0.1] * 2_000)[-1] - trained(cheaper, [0.1] * 2_000)[-2] == 20


def test_a_cost_beyond_all_measure_ends_the_measuring_for_long() -> None:
    assert trained([1e6], [0.1] * 1_000) == [0, 20]
    with pytest.raises(ValueError, match="share 0"):
        GradientNoise(10, share=0.0)
