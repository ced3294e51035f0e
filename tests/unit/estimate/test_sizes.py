"""Job sizes, and what is left of a job of unknown size."""

from __future__ import annotations

import random

import pytest

from purser.estimate.sizes import KEPT_SIZES, Sizes


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
