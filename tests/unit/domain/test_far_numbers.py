"""Amounts and times that are expected and lie beyond what can be written are cut to what can."""

from __future__ import annotations

import pytest

from charterer.domain.money import Money, Price
from charterer.domain.time import LAST, Instant, after, format_instant


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


def test_what_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="NaN"):
        Money.of(float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        after(Instant(0), float("nan"))
