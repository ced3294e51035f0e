"""Amounts and times that are expected and lie beyond what can be written are cut to what can."""

from __future__ import annotations

import pytest

from charterer.domain.money import Money, Price
from charterer.domain.time import LAST, Instant, after, format_instant, format_minute, format_second


@pytest.mark.parametrize("dollars", [1e12, 1e40, float("inf")])
def test_an_expected_amount_is_at_most_a_trillion_dollars(dollars: float) -> None:
    assert Money.of(dollars).decimal() == "999999999999.999999"
    assert Money.of(-dollars).decimal() == "-999999999999.999999"
    assert Price.per_second(dollars).decimal() == "999999999999.999999"
    assert Money.parse(Money.of(dollars).decimal()) == Money.of(dollars)


def test_what_is_expected_after_the_last_day_is_expected_on_it() -> None:
    assert after(Instant(0), 1e30) == after(Instant(0), float("inf")) == after(LAST, 1.0) == LAST
    assert format_instant(LAST) == "9999-12-31T00:00:00.000000Z"
    assert after(Instant(5), 1.5) == 1_500_005


def test_a_sentence_has_the_minute_or_the_second_and_no_minute_after_the_last_day() -> None:
    assert format_minute(Instant(119_999_999)) == "1970-01-01T00:01Z"
    assert format_second(Instant(119_999_999)) == "1970-01-01T00:01:59Z"
    assert format_minute(Instant(LAST + 10**18)) == "9999-12-31T00:00Z"


def test_what_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="NaN"):
        Money.of(float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        after(Instant(0), float("nan"))
