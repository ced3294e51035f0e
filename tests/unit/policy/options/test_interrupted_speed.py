"""An option on nodes that the cloud takes back keeps a speed above nothing, whatever its width and start-up time."""

from __future__ import annotations

from charterer.policy.options.market import LEAST_KEPT, NodeHazard, RunTimes, interruptions


def test_an_option_that_is_interrupted_all_the_time_has_a_speed_all_the_same() -> None:
    often = NodeHazard((0.13, 0.13, 0.13, 0.13), 0.5, False)
    lost = interruptions(often, 4000, 14_400.0, RunTimes(30.0, 0.001, 86_400.0), None)
    assert lost.kept == LEAST_KEPT


def test_a_checkpoint_that_takes_a_day_stops_no_plan() -> None:
    often = NodeHazard((0.13, 0.13, 0.13, 0.13), 0.5, False)
    for narrower in (None, 0.99):
        lost = interruptions(often, 64, None, RunTimes(86_400.0, 86_400.0, 300.0), narrower)
        assert lost.kept == LEAST_KEPT


def test_deaths_make_no_option_faster_where_one_node_less_is_faster() -> None:
    hourly = NodeHazard((1.0, 1.0, 1.0, 1.0), 0.1, True)
    for narrower in (1.0, 1.1, 1.15, 5.0):
        lost = interruptions(hourly, 2, 36_000.0, RunTimes(1.0, 10.0, 3 * 3600.0), narrower)
        assert 0.0 < lost.kept < 1.0
