"""The gradient noise scale: what a batch gains by it, its curve over progress, and how sure that is."""

from __future__ import annotations

import math
import random

import pytest

from charterer.estimate.noise import BINS, NoisePrior, NoiseReports, gain, log_noise, noise_growth


def curve_of(noise_of: dict[float, float], number: int = 30, scale: float = 4.0) -> NoiseReports:
    draw = random.Random(5)
    known = NoiseReports()
    for done, noise in noise_of.items():
        for _ in range(number):
            known.add(done, noise_growth(scale), math.log(noise) + draw.gauss(0.0, 0.1))
    return known


def test_a_batch_without_noise_gains_nothing_and_one_of_pure_noise_its_scale() -> None:
    assert gain(0.0, 16.0) == 1.0
    assert gain(1e9, 16.0) == pytest.approx(16.0)
    assert gain(3.0, 4.0) == pytest.approx((3.0 + 1.0) / (3.0 / 4.0 + 1.0))


@pytest.mark.parametrize("pair", [(0.0, 0.0), (math.nan, 1.0), (1.0, math.inf), (-1.0, 0.0), (1.0, -1.0)])
def test_gradient_figures_that_mean_nothing_are_left(pair: tuple[float, float]) -> None:
    assert log_noise(*pair, 32.0) is None


def test_a_gradient_of_pure_noise_counts_as_the_most_that_matters() -> None:
    assert log_noise(0.0, 1e-4, 32.0) == pytest.approx(math.log(3200.0))
    assert log_noise(-1.0, 1e-4, 32.0) == pytest.approx(math.log(3200.0))


def test_the_curve_passes_where_reports_are_many() -> None:
    curve = curve_of({0.1: 2.0, 0.5: 20.0, 0.9: 200.0}).curve(NoisePrior())
    for done, noise in ((0.1, 2.0), (0.5, 20.0), (0.9, 200.0)):
        assert curve[int(done * BINS)].at(4.0) == pytest.approx(noise, rel=0.1)


def test_between_reports_the_curve_is_between_and_less_sure() -> None:
    curve = curve_of({0.1: 2.0, 0.9: 200.0}).curve(NoisePrior())
    middle, known = curve[BINS // 2], curve[int(0.1 * BINS)]
    assert 2.0 < middle.at(4.0) < 200.0
    assert middle.level_variance > 4.0 * known.level_variance


def test_noise_that_grows_with_the_batch_it_is_measured_at_is_told_apart() -> None:
    draw = random.Random(1)
    known = NoiseReports()
    for _ in range(400):
        growth = noise_growth(32.0 ** draw.random())
        known.add(0.5, growth, math.log(10.0) + 0.4 * growth + draw.gauss(0.0, 0.1))
    here = known.curve(NoisePrior())[BINS // 2]
    assert here.tilt == pytest.approx(0.4, abs=0.05)
    assert here.at(1.0) == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("fed", [0.0, 1.0, 3.0])
def test_noise_far_above_the_batch_sizes_that_ran_keeps_to_its_limit(fed: float) -> None:
    """1/φ = 1/φ∞ + c/s with φ∞ of 100, seen at one to four own batches; a line in log s would say 130 and more."""
    draw = random.Random(1)
    known = NoiseReports()
    for _ in range(400):
        scale = 4.0 ** draw.random()
        known.add(0.5, noise_growth(scale), math.log(100.0 / (1.0 + fed / scale)) + draw.gauss(0.0, 0.1))
    here = known.curve(NoisePrior())[BINS // 2]
    assert here.at(64.0) == pytest.approx(100.0 / (1.0 + fed / 64.0), rel=0.15)


def test_later_reports_outweigh_the_prior_and_earlier_ones() -> None:
    known = curve_of({0.5: 5.0}, 50)
    before = known.curve(NoisePrior())[BINS // 2].at(4.0)
    for _ in range(150):
        known.add(0.5, noise_growth(4.0), math.log(50.0))
    after = known.curve(NoisePrior())[BINS // 2].at(4.0)
    assert before == pytest.approx(5.0, rel=0.15)
    assert after == pytest.approx(50.0, rel=0.3)


def test_a_class_never_seen_grows_as_the_others_do() -> None:
    growth = tuple(0.1 for _ in range(BINS - 1))
    curve = NoiseReports().curve(NoisePrior((0.0, 1.0), growth))
    assert curve[-1].level == pytest.approx(0.1 * (BINS - 1))
    assert curve[-1].level_variance > curve[0].level_variance
