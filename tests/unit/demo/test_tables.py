"""The condensed tables: what was measured, and nothing better than it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.tables import T4, Application, applications, submissions

TWO_POINTS = Application("example", 1, {T4: ((1, 100.0), (3, 50.0)), "A100": ((1, 20.0),)})


def test_measured_widths_take_what_was_measured() -> None:
    assert (TWO_POINTS.time(1), TWO_POINTS.time(3)) == (100.0, 50.0)


def test_between_measured_widths_speed_is_read_linearly() -> None:
    assert TWO_POINTS.speedup(2) == pytest.approx(1.5)


def test_speeds_on_every_type_are_relative_to_one_t4() -> None:
    assert TWO_POINTS.speedup(1, "A100") == pytest.approx(5.0)


def test_beyond_the_widest_measured_width_nothing_is_faster() -> None:
    assert TWO_POINTS.time(64) == 50.0


def test_a_width_narrower_than_any_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="narrowest is 2"):
        Application("example", 1, {T4: ((2, 10.0),)}).time(1)


@given(gpus=st.integers(min_value=1, max_value=64), name=st.sampled_from(sorted(applications())))
def test_no_width_is_faster_than_the_fastest_measured(gpus: int, name: str) -> None:
    for gpu_type, measured in applications()[name].seconds.items():
        least = min(seconds for _, seconds in measured)
        assert applications()[name].time(gpus, gpu_type) >= least * (1 - 1e-9)


@pytest.mark.parametrize("name", sorted(applications()))
def test_more_gpus_never_take_longer(name: str) -> None:
    application = applications()[name]
    for gpu_type in application.seconds:
        times = [application.time(gpus, gpu_type) for gpus in range(1, 65)]
        assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(times))


def test_the_workload_has_160_jobs_of_six_measured_applications() -> None:
    rows = submissions()
    assert len(rows) == 160
    assert {row.application for row in rows} == set(applications())
    assert [row.at for row in rows] == sorted(row.at for row in rows)
