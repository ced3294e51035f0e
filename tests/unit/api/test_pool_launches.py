"""What was counted of a pool's refusals and starts is in its status: packed, and in a few numbers for people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api import decode
from charterer.api.models.base import dump
from charterer.api.models.gpupool import GPUPoolRecord
from charterer.api.models.machine_state import LaunchesStatus
from charterer.domain.pool import NO_LAUNCHES, NodeStart
from charterer.domain.time import after
from charterer.estimate.waits import with_refusal, with_start
from tests import factory as make
from tests.unit.api import values

ANSWERS = with_start(with_refusal(NO_LAUNCHES, make.at(0)), NodeStart(make.at(7200), make.at(7205), make.at(7805)))


def test_a_pools_record_is_read_back_as_it_was_written() -> None:
    pool = replace(decode.pool(values.raw_pool()), launches=ANSWERS)
    again = decode.pool(values.raw_pool(dump(GPUPoolRecord.from_domain(pool)))).launches
    assert again.refused == pytest.approx(ANSWERS.refused, abs=1e-4)
    assert replace(again, given=ANSWERS.given, refused=ANSWERS.refused) == ANSWERS


def test_a_pools_record_stays_small() -> None:
    launches = ANSWERS
    for hour in range(24 * 60):
        when = after(make.at(0), 3600.0 * hour)
        launches = with_refusal(launches, when) if hour % 3 else with_start(launches, NodeStart(when, when, when))
    state = GPUPoolRecord.from_domain(make.pool(launches=launches)).machine_state
    assert state is not None
    assert len(state.data) < 4096


@pytest.mark.parametrize("data", ["?", "AAAA"])
def test_what_cannot_be_read_is_learned_anew_and_said(data: str, caplog: pytest.LogCaptureFixture) -> None:
    pool = decode.pool(values.raw_pool({"machineState": {"version": 1, "data": data}}))
    assert pool.launches == NO_LAUNCHES
    assert "is learned anew: status.machineState.data" in caplog.text


def test_people_read_the_chance_of_this_hour_and_the_start_that_is_expected() -> None:
    pool = make.pool(launches=ANSWERS)
    out, later = (LaunchesStatus.from_domain(pool, make.at(seconds)) for seconds in (7 * 86_400, 7 * 86_400 + 7200))
    assert out.available_percent < 70 < later.available_percent
    assert (later.hours_seen, later.starts_seen) == (2, 1)
    assert 120 < later.start_seconds < 600


def test_a_pool_that_is_not_to_learn_has_its_declared_start() -> None:
    pool = decode.pool(values.raw_pool())
    assert pool.learns_waits
    assert replace(pool, launches=ANSWERS, learns_waits=False).likely_start_seconds == pool.start_seconds
