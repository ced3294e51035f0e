"""What a GPUPool's status remembers of its nodes' lifetimes."""

from __future__ import annotations

import pytest

from charterer.api.models.machine_state import (
    InterruptionsStatus,
    PackedStatistics,
    PoolStatistics,
    packed_statistics,
    recorded_statistics,
)
from charterer.domain.pool import NO_LAUNCHES, NOTHING_COUNTED, CapacityType, EndedNode, NodeLifetimes
from charterer.domain.time import Instant
from charterer.estimate.hazard import hazard, with_ended

AT = Instant(1_700_000_000_000_000)
COUNTED = with_ended(NOTHING_COUNTED, EndedNode("uid", 2.5, AT, True, 3, True, 7))


def test_what_was_counted_is_read_back() -> None:
    assert recorded_statistics(packed_statistics(COUNTED, NO_LAUNCHES)).known_lifetimes == COUNTED


def test_nothing_is_remembered_of_nothing() -> None:
    assert packed_statistics(NOTHING_COUNTED, NO_LAUNCHES) is None
    assert recorded_statistics(None).known_lifetimes == NOTHING_COUNTED


@pytest.mark.parametrize("data", ["", "nonsense", "eJwDAAAAAAE="])
def test_what_cannot_be_read_is_learned_anew(data: str, caplog: pytest.LogCaptureFixture) -> None:
    assert recorded_statistics(PackedStatistics(version=1, data=data)).known_lifetimes == NOTHING_COUNTED
    assert "learned anew: status.machineState.data" in caplog.text


def test_uids_that_do_not_fit_are_left_out_oldest_first() -> None:
    statistics = PoolStatistics.from_domain(NodeLifetimes(at=AT, counted=("a", "b", "c")), NO_LAUNCHES)
    assert statistics is not None
    smaller = statistics.smaller()
    assert smaller is not None
    assert smaller.known_lifetimes.counted == ("c",)


def test_people_read_the_rate_its_interval_and_what_was_seen() -> None:
    shown = InterruptionsStatus.from_domain(hazard(COUNTED, (7.5,), AT, CapacityType.SPOT))
    assert (shown.seen, shown.node_hours) == (1.0, 10.0)
    assert shown.per_node_hour == pytest.approx(2.14 / 18.9, abs=1e-4)
    assert shown.low < shown.per_node_hour < shown.high
