"""The rule of the bill."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.tools.fakecloud.config import SECOND, BillSegment, billed_seconds, cost, decimal, millionths, scaled

DAY = 86_400 * SECOND
prices = st.integers(0, 500 * SECOND)


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[BillSegment], int, int, int]:
    """Segments, launch, end and billing minimum."""
    launched = draw(st.integers(0, DAY))
    starts = sorted(draw(st.lists(st.integers(0, DAY), max_size=4)))
    segments = [BillSegment(launched + start, draw(prices)) for start in [0, *starts]]
    until = segments[-1].since + draw(st.integers(0, DAY))
    return segments, launched, until, draw(st.sampled_from([0, 60, 3600]))


def test_a_started_second_is_billed_whole() -> None:
    assert billed_seconds(0, 1, 0) == 1
    assert billed_seconds(0, SECOND, 0) == 1
    assert billed_seconds(0, SECOND + 1, 0) == 2


def test_the_billing_minimum_is_billed_also_for_an_instant() -> None:
    assert billed_seconds(7, 7, 60) == 60
    assert cost([BillSegment(7, 3600)], 7, 7, 60) == 60


def test_half_a_micro_dollar_is_rounded_up() -> None:
    assert cost([BillSegment(0, 1800)], 0, SECOND, 0) == 1
    assert cost([BillSegment(0, 1799)], 0, SECOND, 0) == 0


def test_an_earlier_segment_is_rounded_down_and_the_last_takes_the_rest() -> None:
    segments = [BillSegment(0, 3600), BillSegment(2_900_000, 7200)]
    assert cost(segments, 0, 5 * SECOND, 0) == 2 * 1 + 3 * 2


def test_a_segment_that_has_not_begun_costs_nothing_yet() -> None:
    assert cost([BillSegment(0, 3600), BillSegment(10 * SECOND, 3600_000)], 0, 5 * SECOND, 0) == 5


@given(lives())
def test_the_bill_is_within_half_a_micro_dollar_a_segment_of_exact_arithmetic(
    life: tuple[list[BillSegment], int, int, int],
) -> None:
    segments, launched, until, minimum = life
    ends = [segment.since for segment in segments[1:]]
    lengths = [math.floor(Fraction(end - s.since, SECOND)) for s, end in zip(segments, ends, strict=False)]
    whole = max(math.ceil(Fraction(until - launched, SECOND)), minimum)
    lengths.append(whole - sum(lengths))
    exact = sum((Fraction(s.micros_per_hour * n, 3600) for s, n in zip(segments, lengths, strict=True)), Fraction(0))
    assert min(lengths) >= 0
    assert abs(cost(segments, launched, until, minimum) - exact) <= Fraction(len(segments), 2)


@given(lives(), st.integers(0, DAY))
def test_a_machine_never_gets_cheaper_by_living_on(life: tuple[list[BillSegment], int, int, int], longer: int) -> None:
    segments, launched, until, minimum = life
    assert cost(segments, launched, until + longer, minimum) >= cost(segments, launched, until, minimum)


@given(st.integers(0, 10**14))
def test_a_decimal_is_read_back_as_written(micros: int) -> None:
    assert millionths(decimal(micros)) == micros


def test_decimals_have_at_least_cents() -> None:
    assert [decimal(12_000_000), decimal(12_345_678), decimal(1)] == ["12.00", "12.345678", "0.000001"]


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1.2345678", ".5", "1,5", "12.80 "])
def test_what_is_no_plain_decimal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="decimal number"):
        millionths(text)


def test_a_factor_rounds_half_up_to_the_micro_dollar() -> None:
    assert scaled(12_800_000, millionths("0.35")) == 4_480_000
    assert scaled(1, millionths("0.5")) == 1
