"""Load that changes: arrival rates, job sizes, and what is left of a job of unknown size."""

from __future__ import annotations

import random

import pytest

from purser.domain.time import Instant, after
from purser.estimate.load import DAY, KEPT_SIZES, Arrivals, Sizes, gamma_quantile

START = Instant(0)


def watched(per_hour: float, days: float, seed: int = 1, arrivals: Arrivals | None = None) -> Arrivals:
    """A Poisson process for so many days, after what was there before."""
    draw = random.Random(seed)
    known = arrivals or Arrivals(START)
    begin, now = known.at, 0.0
    while (now := now + draw.expovariate(per_hour / 3600.0)) < days * DAY:
        known.arrived(after(begin, now))
    known.watched(after(begin, days * DAY))
    return known


def test_a_steady_rate_is_found() -> None:
    known = watched(10.0, 14.0)
    found = known.per_hour(known.at)
    assert found.value == pytest.approx(10.0, rel=0.1)
    assert found.low < 10.0 < found.high


def test_the_interval_covers_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(200):
        known = watched(1.0, 5.0, seed)
        found = known.per_hour(known.at)
        hits += found.low <= 1.0 <= found.high
    assert 0.8 <= hits / 200 <= 1.0


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_load_that_doubles_or_halves_is_followed_within_three_days(factor: float) -> None:
    known = watched(10.0 * factor, 3.0, 2, watched(10.0, 28.0))
    assert known.per_hour(known.at).value == pytest.approx(10.0 * factor, rel=0.2)


def test_a_class_that_stopped_coming_fades() -> None:
    known = watched(5.0, 14.0)
    assert known.per_hour(after(known.at, 7 * DAY)).value < 0.5


def test_time_that_is_told_late_changes_nothing() -> None:
    known = watched(5.0, 2.0)
    before = known.per_hour(known.at)
    known.watched(START)
    assert known.per_hour(known.at) == before


def test_a_class_never_seen_comes_as_often_as_the_others() -> None:
    found = Arrivals(START).per_hour(START, 1800.0)
    assert found.value == pytest.approx(2.0)
    assert found.low < 0.5
    assert found.high > 4.0


@pytest.mark.parametrize(
    ("shape", "probability", "truth"), [(1.0, 0.5, 0.6931), (5.0, 0.05, 1.9701), (50.0, 0.95, 62.17)]
)
def test_gamma_quantiles_are_a_few_percent_off_at_most(shape: float, probability: float, truth: float) -> None:
    assert gamma_quantile(shape, probability) == pytest.approx(truth, rel=0.03)


def test_mean_size_follows_jobs_that_became_larger() -> None:
    sizes = Sizes()
    for work in [100.0] * 200 + [300.0] * 150:
        sizes.completed(work)
    assert sizes.mean(1.0).value == pytest.approx(300.0, rel=0.15)
    assert len(sizes.latest) == KEPT_SIZES


def test_nothing_completed_means_what_the_others_have_and_wide_open() -> None:
    found = Sizes().mean(50.0)
    assert found.value == 50.0
    assert found.low < 5.0
    assert found.high > 500.0


def test_jobs_of_one_size_have_the_rest_left() -> None:
    sizes = Sizes()
    for _ in range(200):
        sizes.completed(100.0)
    assert sizes.remaining(0.0, 100.0) == pytest.approx(100.0)
    assert sizes.remaining(60.0, 100.0) == pytest.approx(40.0, rel=0.06)


def test_a_job_older_than_all_before_has_as_much_ahead_as_behind() -> None:
    sizes = Sizes()
    for _ in range(100):
        sizes.completed(10.0)
    assert sizes.remaining(1000.0, 10.0) > 1000.0


def test_heavy_tails_leave_more_to_do_the_older_a_job_is() -> None:
    draw, sizes = random.Random(3), Sizes()
    for _ in range(200):
        sizes.completed(draw.paretovariate(1.3))
    assert sizes.remaining(1.0, 4.0) < sizes.remaining(5.0, 4.0) < sizes.remaining(30.0, 4.0)


def test_a_job_without_work_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"work 0\.0"):
        Sizes().completed(0.0)
