"""An option on nodes that the cloud takes back keeps a speed above nothing, whatever its width and start-up time."""

from __future__ import annotations

from charterer.policy.options.interruptions import LEAST_KEPT, NodeHazard, RunTimes, interruptions


def test_an_option_that_is_interrupted_all_the_time_has_a_speed_all_the_same() -> None:
    often = NodeHazard((0.13, 0.13, 0.13, 0.13), 0.5, False)
    lost = interruptions(often, 4000, 14_400.0, RunTimes(30.0, 0.001, 86_400.0), None)
    assert lost.kept == LEAST_KEPT
