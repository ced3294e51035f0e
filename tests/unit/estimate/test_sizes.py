"""Job sizes, and what is left of a job of unknown size."""

from __future__ import annotations

import pytest

from charterer.estimate.class_state import KEPT_SIZES, JobSizes


def test_mean_size_follows_jobs_that_became_larger() -> None:
    sizes = JobSizes()
    for work in [100.0] * 200 + [300.0] * 150:
        sizes.completed(work)
    assert sizes.mean(1.0).value == pytest.approx(300.0, rel=0.15)
    assert len(sizes.latest) == KEPT_SIZES


def test_nothing_completed_means_what_the_others_have_and_wide_open() -> None:
    found = JobSizes().mean(50.0)
    assert found.value == 50.0
    assert found.low < 5.0
    assert found.high > 500.0


def test_a_job_without_work_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"work 0\.0"):
        JobSizes().completed(0.0)
