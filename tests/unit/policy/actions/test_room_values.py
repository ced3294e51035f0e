"""What an option of a full pool is worth to a job beside waiting: by what follows, for life or until it moves."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import PoolId
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.policy.actions.admission.room_waits import Charges, RoomCandidate, values_of_ways
from charterer.policy.options.option_value import Projection
from tests.factory import job

WORTH = 0.01
SECONDS = st.floats(10.0, 1e6)


def projection(seconds: float, dollars: float, gpus: int = 8, pool: str = "cheap") -> Projection:
    option = Option(PoolId(pool), gpus, 1.0, Price.per_second(dollars / seconds))
    return Projection(option, seconds, dollars, WORTH * seconds + dollars)


def values(projections: list[Projection], moves: list[float], wait: float) -> list[float]:
    candidate = RoomCandidate(job(), WORTH, projections, wait=wait)
    return [*values_of_ways(candidate, Charges([candidate], {PoolId("cheap"): 8}), moves, wanted_for=1.0)]


WIDE, NARROW, DEAR = projection(1000.0, 5.0), projection(4000.0, 4.0, gpus=2), projection(1000.0, 25.0, pool="dear")
"""Fifteen dollars in all with the time, 44 and 35."""


def test_a_job_that_is_never_resized_loses_for_life_what_an_option_costs_more() -> None:
    wide, narrow, dear = values([WIDE, NARROW, DEAR], [inf] * 3, wait=500.0)
    assert wide == pytest.approx(WORTH)
    assert narrow == pytest.approx(WORTH - 29.0 / 500.0)
    assert dear == pytest.approx(WORTH - 20.0 / 500.0)
    assert wide > dear > narrow


def test_a_job_that_moves_later_for_nothing_loses_it_second_by_second() -> None:
    wide, narrow, dear = values([WIDE, NARROW, DEAR], [0.0] * 3, wait=500.0)
    assert narrow == pytest.approx((15.0 - 4.0) / 4000.0)
    assert dear == pytest.approx((15.0 - 25.0) / 1000.0)
    assert wide > narrow > dear


@given(SECONDS, st.floats(0.0, 1e3), SECONDS, st.floats(0.0, 1e3), st.floats(0.0, 1e4))
def test_a_job_that_may_move_never_loses_more_than_one_that_stays(
    seconds: float, dollars: float, wait: float, move: float, more: float
) -> None:
    projections = [WIDE, projection(seconds, dollars + 0.01, gpus=2)]
    stays, moves, dearer = (values(projections, [0.0, each], wait)[1] for each in (inf, move, move + more))
    assert stays <= dearer <= moves <= WORTH + 1e-12


@given(SECONDS, SECONDS)
def test_who_waits_longer_for_the_best_option_takes_another_one_rather(wait: float, longer: float) -> None:
    for move in (inf, 1.0):
        sooner, later = (values([WIDE, NARROW], [0.0, move], wait + each)[1] for each in (0.0, longer))
        assert sooner <= later + 1e-12
