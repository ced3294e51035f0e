"""demo/data is what the measurements give."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo import condense
from demo.condense import DATA, Measured, Statistics

_MEASUREMENTS = condense.data_dir()

needs_measurements = pytest.mark.skipif(
    not (_MEASUREMENTS / "pollux").is_dir(),
    reason="the measured data is not here; CHARTERER_DATA_DIR names the folder that has pollux/",
)


def measured() -> Measured:
    statistics = {
        10: [Statistics(100.0, sqr=1.0, var=3.0), Statistics(250.0, sqr=1.0, var=3.0)],
        40: [Statistics(90.0, sqr=1.0, var=3.0), Statistics(260.0, sqr=2.0, var=5.0)],
    }
    return Measured("example", statistics, {1: {10: 2.0}, 4: {10: 1.0, 40: 2.0}})


def test_an_epoch_is_done_at_the_least_progress_that_any_batch_size_made() -> None:
    assert measured().epoch_progress(0) == 90.0
    assert measured().epoch_progress(1) == 250.0 - 90.0


def test_at_its_own_batch_size_a_step_is_one_step_of_progress() -> None:
    assert measured().epoch_seconds(0, gpus=1) == (90.0 * 2.0, 10)


def test_the_best_batch_size_weighs_step_time_against_statistical_gain() -> None:
    # Batch 40 is scale 4: gain (3 + 1) / (3 / 4 + 1) = 16 / 7 at 2 s a step beats gain 1 at 1 s a step.
    seconds, batch = measured().epoch_seconds(0, gpus=4)
    assert batch == 40
    assert seconds == pytest.approx(90.0 * 2.0 * 7 / 16)


def test_statistics_between_batch_sizes_are_linear_in_the_logarithm() -> None:
    assert list(measured().statistics_at(1, 20)) == pytest.approx([1.5, 4.0])


@needs_measurements
def test_the_checked_in_speeds_are_what_the_measurements_give() -> None:
    assert condense.speeds(_MEASUREMENTS) == (DATA / "speeds.csv").read_text()


@needs_measurements
def test_the_checked_in_workload_is_the_measured_one() -> None:
    assert condense.workload(_MEASUREMENTS) == (DATA / "workload.csv").read_text()


def test_a_folder_without_measurements_is_named(tmp_path: Path) -> None:
    with pytest.raises(condense.DataMissing, match="CHARTERER_DATA_DIR"):
        condense.speeds(tmp_path)
