"""Amounts in another currency than dollars."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import Currency
from charterer.domain.money import Money, Price
from charterer.domain.time import parse_instant

EURO = Currency("EUR", 920_000, date(2026, 11, 1))


def test_an_amount_is_divided_by_what_a_dollar_costs() -> None:
    assert EURO.dollars(Money.parse("18400")) == Money.parse("20000")
    assert EURO.dollars_hourly(Price.parse("9.20")) == Price.parse("10")
    assert EURO.amount(Money.parse("20000")) == "18,400.00 EUR"
    assert str(EURO) == "0.92 EUR a dollar, as of 2026-11-01"


def test_what_division_leaves_over_is_rounded_to_the_nearest_micro_dollar() -> None:
    assert EURO.dollars(Money(1)) == Money(1)
    assert EURO.dollars(Money(1_000_000)) == Money(1_086_957)
    assert EURO.units(Money(-500_000)) == Money(-460_000)


@given(st.integers(0, 10**15), st.integers(100_000, 10**12 - 1))
def test_dollars_and_back_differ_by_what_rounding_changes(micros: int, per_dollar: int) -> None:
    currency = Currency("XXX", per_dollar, date(2026, 1, 1))
    again = currency.units(currency.dollars(Money(micros))).micros
    assert abs(again - micros) <= per_dollar / 2 / 1_000_000 + 1


@pytest.mark.parametrize(
    ("now", "days"), [("2026-11-01T23:59:59Z", 0), ("2026-12-07T00:00:00Z", 36), ("2026-10-30T12:00:00Z", -2)]
)
def test_a_rate_is_so_many_days_old(now: str, days: int) -> None:
    assert EURO.days_old(parse_instant(now)) == days
