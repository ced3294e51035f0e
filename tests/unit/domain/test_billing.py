"""The bill of one rental, worked out by hand from the rule in docs/fakecloud.md."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.billing import abridged, accrued, accrued_in, cost, spent
from charterer.domain.money import ZERO, Money, Price
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import RentalPhase
from charterer.domain.time import Calendar, Instant, after, instant, month_bounds
from tests.factory import MARCH, PRICE, T0, at, balance, budget, instance, rental

DOLLAR_A_SECOND = Price.parse("3600")
"""So that seconds read as dollars."""
TWO_DOLLARS = Price.parse("7200")


def flat(price: Price = DOLLAR_A_SECOND) -> tuple[PriceSegment, ...]:
    return (PriceSegment(T0, price),)


def test_a_started_second_is_billed_whole() -> None:
    assert cost(flat(), 0, T0, at(100)) == Money.parse("100")
    assert cost(flat(), 0, T0, Instant(at(100) + 1)) == Money.parse("101")


def test_the_billing_minimum_is_billed_even_for_nothing() -> None:
    assert cost(flat(), 60, T0, T0) == Money.parse("60")
    assert cost(flat(), 60, T0, at(61)) == Money.parse("61")


def test_all_segments_but_the_last_are_rounded_down_and_the_last_takes_the_rest() -> None:
    segments = (*flat(), PriceSegment(at(10.6), TWO_DOLLARS))
    assert cost(segments, 0, T0, at(20.2)) == Money.parse("32")  # 10 s at $1, 11 s at $2


def test_the_minimum_is_billed_at_the_last_price() -> None:
    segments = (*flat(), PriceSegment(at(10), TWO_DOLLARS))
    assert cost(segments, 60, T0, at(20)) == Money.parse("110")


def test_a_price_that_came_after_the_end_is_not_charged() -> None:
    segments = (*flat(), PriceSegment(at(50), TWO_DOLLARS))
    assert cost(segments, 0, T0, at(20)) == Money.parse("20")


def test_every_segment_is_rounded_to_the_micro_dollar_by_itself() -> None:
    price = Price(1_801)  # half a micro-dollar and a bit in a second
    assert cost((PriceSegment(T0, price), PriceSegment(at(1), price)), 0, T0, at(2)) == Money(2)
    assert cost((PriceSegment(T0, price),), 0, T0, at(2)) == Money(1)


def test_a_bill_without_a_price_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one price segment"):
        cost((), 60, T0, at(1))


def test_nothing_accrues_before_the_launch_and_the_final_cost_after_the_end() -> None:
    running = rental(machine=instance(segments=flat(), billing_minimum_seconds=0))
    assert accrued(running, at(-1)) == ZERO
    assert accrued(running, at(30)) == Money.parse("30")
    over = rental(machine=instance(segments=flat()), phase=RentalPhase.ENDED, ended=at(90), cost=Money.parse("91"))
    assert accrued(over, at(1000)) == Money.parse("91")
    assert accrued(over, at(80)) == Money.parse("80")
    assert accrued(rental(), at(80)) == ZERO


def test_a_rental_whose_prices_are_not_told_accrues_at_its_worst() -> None:
    unknown = rental(machine=instance(segments=()), worst=TWO_DOLLARS)
    assert accrued(unknown, at(100)) == Money.parse("200")


def test_what_runs_across_a_boundary_is_split_without_loss() -> None:
    running = rental(machine=instance(segments=flat(), billing_minimum_seconds=0))
    assert accrued_in(running, at(40), at(100)) == Money.parse("60")
    assert accrued_in(running, at(40), at(40)) == ZERO
    assert accrued_in(running, at(200), at(100)) == ZERO


def test_what_is_launched_at_the_very_boundary_belongs_to_the_new_period() -> None:
    running = rental(machine=instance(segments=flat()))
    assert accrued_in(running, T0, T0) == Money.parse("60")


def test_spent_counts_each_rental_once_and_the_opening_spend_in_the_month_of_creation() -> None:
    folded = rental("a100-1", instance(segments=flat()), phase=RentalPhase.ENDED, ended=at(70), cost=Money.parse("70"))
    running = rental("a100-2", instance("i2", segments=flat()))
    foreign = rental("a100-3", instance("i3", segments=flat()), budget="other")
    books = balance(settled=Money.parse("70"), folded=frozenset({folded.uid}))
    mine = budget(balance=books, created=T0, opening_spend=Money.parse("1000"))
    assert spent(mine, [folded, running, foreign], at(100)) == Money.parse("1170")
    older = budget(balance=books, created=after(MARCH, -86_400), opening_spend=Money.parse("1000"))
    assert spent(older, [folded, running, foreign], at(100)) == Money.parse("170")


def test_a_budget_without_a_balance_counts_from_the_months_beginning() -> None:
    early = after(MARCH, -3600)
    crossing = rental(machine=instance(launched=early, segments=(PriceSegment(early, PRICE),)))
    assert spent(budget(balance=None), [crossing], after(MARCH, 3600)) == PRICE.cost(3600)


def moment(*when: int) -> Instant:
    return instant(datetime(*when, tzinfo=UTC))  # type: ignore[arg-type, misc]  # read as if one were a tzinfo


def test_months_begin_at_local_midnight_whatever_the_clocks_do() -> None:
    start, end = month_bounds("Europe/Berlin", moment(2026, 3, 15))
    assert (start, end) == (moment(2026, 2, 28, 23), moment(2026, 3, 31, 22))
    assert month_bounds("Europe/Berlin", Instant(start - 1))[1] == start
    assert month_bounds("Europe/Berlin", end)[0] == end


def test_december_is_followed_by_january() -> None:
    assert month_bounds("UTC", moment(2026, 12, 31, 23)) == (moment(2026, 12, 1), moment(2027, 1, 1))


def test_minutes_that_come_twice_across_a_months_midnight_are_in_the_month_that_had_begun() -> None:
    # Newfoundland set its clocks back from 00:01 to 23:01 on 1 November 2009: the month had begun a minute before.
    midnight = moment(2009, 11, 1, 2, 30)
    assert month_bounds("America/St_Johns", after(midnight, 600))[0] == midnight


def test_a_period_keeps_its_length_when_the_time_zone_is_changed() -> None:
    tokyo = month_bounds("Asia/Tokyo", moment(2026, 3, 10))[0]
    assert Calendar("UTC").end(tokyo) == moment(2026, 4, 1)
    assert Calendar("Asia/Tokyo").end(tokyo) == moment(2026, 3, 31, 15)


@given(
    gaps=st.lists(st.integers(0, 9_000_000_000), min_size=8, max_size=40),
    prices=st.lists(st.integers(0, 10**8), min_size=41, max_size=41),
    launched=st.integers(0, 10**10),
    later=st.integers(0, 10**11),
    minimum=st.integers(0, 10**5),
)
def test_price_segments_that_are_summed_up_cost_the_same(
    gaps: list[int], prices: list[int], launched: int, later: int, minimum: int
) -> None:
    """However many there are, before the launch too, of less than a second or of many hours."""
    starts = [*accumulate(gaps, initial=0)]
    segments = tuple(
        PriceSegment(Instant(T0 + since), Price(price)) for since, price in zip(starts, prices, strict=False)
    )
    born = Instant(T0 + min(launched, starts[-1]))
    few = abridged(segments, born, 6)
    assert len(few) <= 6
    assert few[-1] == segments[-1]
    ended = Instant(segments[-1].since + later)
    assert cost(few, 0, born, ended) == cost(segments, 0, born, ended)
    assert cost(few, minimum, born, ended) == cost(segments, minimum, born, ended)
    longer = (*segments, PriceSegment(ended, Price(1)))
    assert cost(abridged(longer, born, 6), 0, born, ended) == cost(longer, 0, born, ended)
