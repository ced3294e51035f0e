"""Laws of estimated curves: the concave fit is the best one there is, and profiles hold whatever is reported."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import ClassId
from charterer.domain.profile import BatchTerms, ThroughputTable
from charterer.domain.time import Instant
from charterer.estimate.curves import MOST_PHASES, concave_fit, expected_time, near_concave
from charterer.estimate.learner import Learner
from charterer.estimate.observation import Observation
from tests import lanes

points = st.dictionaries(
    st.integers(1, 128), st.tuples(st.floats(-5.0, 50.0), st.floats(0.01, 100.0)), min_size=1, max_size=16
).map(lambda found: [(width, *found[width]) for width in sorted(found)])


def columns(drawn: list[tuple[int, float, float]]) -> tuple[list[int], list[float], list[float]]:
    return [point[0] for point in drawn], [point[1] for point in drawn], [point[2] for point in drawn]


@given(points)
def test_the_fit_is_concave_and_never_falls(drawn: list[tuple[int, float, float]]) -> None:
    widths, values, weights = columns(drawn)
    fitted = concave_fit(widths, values, weights)
    slopes = [(b - a) / (high - low) for (low, a), (high, b) in pairwise(zip(widths, fitted, strict=True))]
    assert fitted[0] >= (slopes[0] * widths[0] if slopes else 0.0) - 1e-5
    assert all(slope >= -1e-7 for slope in slopes)
    assert all(before >= then - 1e-7 for before, then in pairwise(slopes))


@given(points)
def test_no_concave_curve_that_never_falls_is_closer(drawn: list[tuple[int, float, float]]) -> None:
    """The optimality of a projection onto a cone: no hinge improves the fit, and the fit's own scale is right."""
    widths, values, weights = columns(drawn)
    fitted = concave_fit(widths, values, weights)
    pull = [weight * (value - fit) for value, weight, fit in zip(values, weights, fitted, strict=True)]
    scale = sum(weight * (abs(value) + abs(fit)) for value, weight, fit in zip(values, weights, fitted, strict=True))
    assert sum(pull) <= 1e-7 * (1.0 + scale)
    for knot in widths:
        assert sum(force * min(width, knot) for force, width in zip(pull, widths, strict=True)) <= 1e-7 * knot * (
            1 + scale
        )
    height = max(map(abs, fitted))
    assert abs(sum(force * fit for force, fit in zip(pull, fitted, strict=True))) <= 1e-7 * height * (1.0 + scale)


@given(points)
def test_a_concave_curve_fits_itself(drawn: list[tuple[int, float, float]]) -> None:
    widths, values, weights = columns(drawn)
    fitted = concave_fit(widths, values, weights)
    assert concave_fit(widths, fitted, weights) == pytest.approx(fitted, abs=1e-4)


@given(points)
def test_values_beyond_doubt_are_believed_where_curves_may_depart(drawn: list[tuple[int, float, float]]) -> None:
    widths, values, _ = columns([(width, abs(value) + 0.1, 1.0) for width, value, _ in drawn])
    assert near_concave(widths, values, [1e9] * len(widths), 0.2) == pytest.approx(values, rel=1e-3)
    assert near_concave(widths, values, [1.0] * len(widths), 0.0) == concave_fit(widths, values, [1.0] * len(widths))


@given(st.floats(-5.0, 5.0), st.floats(0.0, 4.0), st.floats(-5.0, 5.0))
def test_a_way_back_makes_time_no_better_than_the_median_and_no_worse_than_the_mean(
    log_mean: float, variance: float, log_fallback: float
) -> None:
    found = expected_time(log_mean, variance, math.exp(log_fallback))
    assert math.exp(log_mean) * (1 - 1e-9) <= found <= math.exp(log_mean + variance / 2.0) * (1 + 1e-9)


@given(st.floats(-5.0, 5.0), st.floats(0.01, 4.0), st.floats(-5.0, 5.0), st.floats(0.0, 3.0))
def test_a_worse_way_back_never_helps(log_mean: float, variance: float, log_fallback: float, worse: float) -> None:
    near, far = (
        expected_time(log_mean, variance, math.exp(log_value)) for log_value in (log_fallback, log_fallback + worse)
    )
    assert near <= far * (1 + 1e-9)


reports = st.lists(
    st.builds(
        Observation,
        class_id=st.sampled_from([ClassId("team", "a"), ClassId("team", "b")]),
        gpu_type=st.sampled_from(["A", "B"]),
        nodes=st.just(1),
        gpus=st.sampled_from([1, 2, 4]),
        batch=st.integers(1, 20_000),
        step_seconds=st.floats(1e-6, 1e6),
        fraction=st.floats(0.0, 1.0),
        at=st.just(Instant(0)),
        grad_sqr=st.none() | st.floats(-1e300, 1e300),
        grad_var=st.none() | st.floats(0.0, 1e300),
    ),
    max_size=12,
)


@settings(max_examples=lanes.examples(60))
@given(reports, st.sampled_from([(1,), (1, 2, 4, 8), (2, 3, 16, 64)]), st.sampled_from([(64, 4096, 128), (1, 1, 1)]))
def test_whatever_is_reported_a_profile_is_sound(
    told: list[Observation], widths: tuple[int, ...], batches: tuple[int, int, int]
) -> None:
    known = Learner({ClassId("team", name): BatchTerms(*batches) for name in "ab"}, {"A": 4})
    for report in told:
        known.report(report)
    learned = known.profile(ClassId("team", "a"), widths)
    assert 1 <= len(learned.phases) <= MOST_PHASES
    assert learned.phases[-1].until == 1.0
    assert all(one.until < other.until for one, other in pairwise(learned.phases))
    for phase in learned.phases:
        for curve in phase.curves:
            assert isinstance(curve.form, ThroughputTable)
            values = [value for _, value in curve.form.points]
            assert all(math.isfinite(value) and value > 0.0 for value in values)
            assert all(one <= other * (1 + 1e-6) for one, other in pairwise(values))
    for _, entry in learned.entries:
        assert 0.0 < entry.low <= entry.goodput <= entry.high
        assert batches[0] <= entry.batch <= batches[1]
