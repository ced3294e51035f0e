"""Laws of the models beneath: gradients, gains, noise curves, load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from charterer.estimate.cells import BatchCell, cell_positions, correlation
from charterer.estimate.class_state import JobSizes
from charterer.estimate.fitting import fit
from charterer.estimate.noise import BINS, NoisePrior, NoiseReports, gain
from charterer.estimate.observation import Configuration, Shape
from charterer.estimate.priors import BASE
from charterer.estimate.throughput import (
    MOST_OVERLAP,
    SIZE,
    Effect,
    Misfit,
    StepFeatures,
    StepTimeFit,
    Unknown,
    step_gradients,
)
from tests import lanes
from tests.unit.estimate.trainers import log_step

SCATTER = 0.0025
unknowns = st.tuples(*(st.floats(mean - 2.0, mean + 2.0) for mean, _ in BASE))
places = st.builds(
    lambda gpus, nodes, local, passes: Configuration(Shape(min(nodes, gpus), gpus), local, passes),
    st.integers(1, 64),
    st.integers(1, 8),
    st.integers(1, 128),
    st.integers(1, 4),
)


@given(unknowns, places, st.integers(1, 64))
def test_a_larger_batch_per_gpu_never_makes_a_step_shorter(
    x: tuple[float, ...], where: Configuration, more: int
) -> None:
    larger = Configuration(where.shape, where.local + more, where.passes)
    assert log_step(x, where, 128) <= log_step(x, larger, 128) + 1e-12


@given(unknowns, places)
def test_another_pass_costs_its_computation_alone(x: tuple[float, ...], where: Configuration) -> None:
    again = Configuration(where.shape, where.local, where.passes + 1)
    single = math.exp(log_step(x, Configuration(Shape(1, 1), where.local, 1), 128))
    extra = math.exp(log_step(x, again, 128)) - math.exp(log_step(x, where, 128))
    further = math.exp(x[Unknown.FURTHER_PASS]) if where.shape.gpus > 1 else 1.0
    assert extra == pytest.approx(further * single, rel=1e-6)


FAR = (
    (0.0, -3.0, -1.0, -1.0, 0.0, -2.0, 0.0, 0.0),
    [Configuration(Shape(1, 1), 1, 1), Configuration(Shape(1, 1), 1, 2), Configuration(Shape(1, 3), 10, 1)],
)
"""The first step of its fit is far too long for the widths' effects."""
ZIGZAG = (
    (0.0, -2.0, -1.5, -1.0, -2.5, -2.0, 0.0, 0.0),
    [Configuration(Shape(2, 2), 17, 1), Configuration(Shape(1, 8), 1, 2)],
)
"""Each step of its fit overshoots, and gains a little all the same."""
TWO_MODES = (
    (0.0, -1.0, -1.0, -1.0, 0.0, -3.0, 0.0, 0.0),
    [Configuration(Shape(1, 2), 12, 2), Configuration(Shape(1, 8), 1, 4)],
)
"""A slow pass or slow synchronisation explains these: from what is expected one comes to the less likely first."""


def _cells(x: tuple[float, ...], ran: Iterable[Configuration]) -> dict[Configuration, BatchCell]:
    return {where: BatchCell(10.0, log_step(x, where, 128), 0.0, 10) for where in ran}


def _unlikely(y: Sequence[float], effects: Mapping[Shape, Effect], cells: Mapping[Configuration, BatchCell]) -> float:
    """Twice the negative logarithm of how likely this is, given the reports, but for a constant."""
    misfit = Misfit()
    found = sum((value - mean) ** 2 / variance for value, (mean, variance) in zip(y, BASE, strict=True))
    found += sum(every**2 / misfit.width + sync**2 / misfit.sync for every, sync in effects.values())
    for shape in {where.shape for where in cells}:
        every, sync = effects.get(shape, (0.0, 0.0))
        of_width = {where: cell for where, cell in cells.items() if where.shape == shape}
        off = np.array([cell.mean - every - log_step(y, where, 128, sync) for where, cell in of_width.items()])
        at = cell_positions(list(of_width))
        scatter = np.diag([SCATTER / cell.weight for cell in of_width.values()])
        found += float(off @ np.linalg.solve(misfit.cell * correlation(at, at) + scatter, off))
    return found


@settings(max_examples=lanes.examples(50))
@given(unknowns, st.lists(places, min_size=1, max_size=12, unique=True))
@example(*FAR)
@example(*ZIGZAG)
@example(*TWO_MODES)
def test_nothing_near_a_fit_is_likelier(x: tuple[float, ...], ran: list[Configuration]) -> None:
    cells = _cells(x, ran)
    found = fit(cells, 128, BASE, Misfit(), SCATTER)
    effects = {shape: fitted.effect for shape, fitted in found.effects.items()}
    least = _unlikely(found.unknowns, effects, cells) - 0.02
    for by in (-0.05, 0.05):
        for at in range(SIZE):
            near = [one + by * (at == other) for other, one in enumerate(found.unknowns)]
            assert near[Unknown.OVERLAP] > MOST_OVERLAP or _unlikely(near, effects, cells) >= least
        for shape, (every, sync) in effects.items():
            assert _unlikely(found.unknowns, {**effects, shape: (every + by, sync)}, cells) >= least
            assert _unlikely(found.unknowns, {**effects, shape: (every, sync + by)}, cells) >= least


@settings(max_examples=lanes.examples(200), derandomize=True)  # there may be more maxima than are looked for
@given(unknowns, st.lists(places, min_size=1, max_size=12, unique=True))
@example(*FAR)
@example(*ZIGZAG)
@example(*TWO_MODES)
def test_a_fit_is_at_least_as_likely_as_the_truth(x: tuple[float, ...], ran: list[Configuration]) -> None:
    assume(x[Unknown.OVERLAP] < MOST_OVERLAP)
    cells = _cells(x, ran)
    found = fit(cells, 128, BASE, Misfit(), SCATTER)
    effects = {shape: fitted.effect for shape, fitted in found.effects.items()}
    assert _unlikely(found.unknowns, effects, cells) <= _unlikely(x, {}, cells) + 1e-3


@given(unknowns, places)
def test_how_a_step_follows_its_synchronisation_is_its_derivative(x: tuple[float, ...], where: Configuration) -> None:
    fit = StepTimeFit(x, np.zeros((SIZE, SIZE)), (0.0,) * SIZE, 128, Misfit(0.0, 1.0, 1e-12), {})
    small = 1e-5
    near = [log_step(x, where, 128, off) for off in (-small, small)]
    assert fit.predict(where).variance == pytest.approx(((near[1] - near[0]) / (2 * small)) ** 2, rel=1e-3, abs=1e-9)


@given(unknowns, places, st.floats(-1.0, 1.0))
def test_the_gradient_of_a_step_is_its_derivative(x: tuple[float, ...], where: Configuration, sync: float) -> None:
    assume(abs(x[Unknown.OVERLAP] - MOST_OVERLAP) > 1e-3)
    _, gradient, by_sync_total = step_gradients(x, StepFeatures.of([where], 128), sync)
    small = 1e-5
    for unknown in Unknown:
        near = [
            log_step([y + by * (at == unknown) for at, y in enumerate(x)], where, 128, sync) for by in (-small, small)
        ]
        assert gradient[0, unknown] == pytest.approx((near[1] - near[0]) / (2 * small), rel=1e-4, abs=1e-7)
    near = [log_step(x, where, 128, sync + by) for by in (-small, small)]
    assert by_sync_total[0] == pytest.approx((near[1] - near[0]) / (2 * small), rel=1e-4, abs=1e-7)


@given(st.floats(0.0, 1e6), st.floats(1.0, 1e4), st.floats(1.0, 10.0))
def test_a_larger_batch_gains_more_but_never_more_than_it_is_larger(noise: float, scale: float, factor: float) -> None:
    small, large = gain(noise, scale), gain(noise, scale * factor)
    assert small <= large * (1 + 1e-9)
    assert large <= small * factor * (1 + 1e-9)
    assert 1.0 - 1e-9 <= small <= scale * (1 + 1e-9)


observations = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 4.0), st.floats(-4.0, 12.0)), min_size=1, max_size=20
)


@settings(max_examples=lanes.examples(25))
@given(observations)
def test_the_noise_curve_is_the_posterior_of_its_walk(told: list[tuple[float, float, float]]) -> None:
    """The same as solving the whole system of all bins at once."""
    known = NoiseReports()
    for done, scale, value in told:
        known.add(done, scale, value)
    prior = NoisePrior((1.0, 4.0), tuple(0.05 for _ in range(BINS - 1)))
    precision, right = np.zeros((2 * BINS, 2 * BINS)), np.zeros(2 * BINS)
    precision[0, 0] += 1.0 / 4.0
    precision[1, 1] += 1.0 / 0.5**2
    right[0] += 1.0 / 4.0
    right[1] += 0.5 / 0.5**2
    for at in range(BINS - 1):
        for offset, step, growth in ((0, 0.3, 0.05), (1, 0.05, 0.0)):
            i, j, weight = 2 * at + offset, 2 * at + 2 + offset, 1.0 / step**2
            precision[i, i] += weight
            precision[j, j] += weight
            precision[i, j] -= weight
            precision[j, i] -= weight
            right[i] -= weight * growth
            right[j] += weight * growth
    scatter = known.scatter()
    for at, noise_bin in enumerate(known.bins):
        i = 2 * at
        precision[i : i + 2, i : i + 2] += (
            np.array([[noise_bin.weight, noise_bin.x], [noise_bin.x, noise_bin.xx]]) / scatter
        )
        right[i : i + 2] += np.array([noise_bin.y, noise_bin.xy]) / scatter
    covariance = np.linalg.inv(precision)
    mean = covariance @ right
    for at, noise in enumerate(known.curve(prior)):
        i = 2 * at
        assert (noise.level, noise.tilt) == pytest.approx(tuple(mean[i : i + 2]), abs=1e-6)
        assert noise.level_variance == pytest.approx(covariance[i, i], rel=1e-6)
        assert noise.covariance == pytest.approx(covariance[i, i + 1], abs=1e-9)
        assert noise.tilt_variance == pytest.approx(covariance[i + 1, i + 1], rel=1e-6)


@given(st.lists(st.floats(0.1, 1e6), max_size=30), st.floats(0.1, 1e6))
def test_the_mean_size_lies_within_its_interval(works: list[float], prior: float) -> None:
    sizes = JobSizes()
    for work in works:
        sizes.completed(work)
    found = sizes.mean(prior)
    assert found.low <= found.value <= found.high
