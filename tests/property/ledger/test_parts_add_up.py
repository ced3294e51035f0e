"""Laws of the ledger: parts add up to their whole, bills only grow, periods lose nothing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.billing import accrued, accrued_in
from charterer.domain.budget import JobTime
from charterer.domain.cost_row import Payer, Use
from charterer.domain.money import ZERO, Money, Price, apportion, total
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.time import Instant
from charterer.ledger.attribution import by_purpose, divided
from tests.factory import T0, instance, rental

HOUR = 3_600_000_000
spans = st.integers(0, 3 * HOUR)


@st.composite
def rentals(draw: st.DrawFn, one_price: bool = False) -> Rental:
    """A rental launched at T0 that may have ended, with up to four prices."""
    offsets = sorted(draw(st.sets(st.integers(1, 3 * HOUR), max_size=0 if one_price else 3)))
    prices = draw(st.lists(st.integers(0, 99_999_999), min_size=4, max_size=4))
    since = [T0, *(Instant(T0 + offset) for offset in offsets)]
    segments = tuple(PriceSegment(when, Price(price)) for when, price in zip(since, prices, strict=False))
    minimum = draw(st.sampled_from([0, 60, 600]))
    machine = instance(segments=segments, billing_minimum_seconds=minimum)
    ready = draw(st.none() | spans.map(lambda span: Instant(T0 + span)))
    phase = draw(st.sampled_from([RentalPhase.STARTING, RentalPhase.READY, RentalPhase.DRAINING]))
    return rental(machine=machine, ready=ready, phase=phase)


@st.composite
def uses(draw: st.DrawFn) -> Use:
    start, run = T0 + draw(spans), draw(st.integers(1, 2))
    job = draw(st.sampled_from(["one", "two", "three"]))
    until = draw(st.none() | spans.map(lambda span: Instant(start + span)))
    return Use(Payer("a", job, f"uid-{job}", run, "", "", {}), draw(st.integers(1, 8)), Instant(start), until)


@given(rentals(), st.lists(uses(), max_size=5), st.integers(0, 8), spans, spans)
def test_a_rentals_parts_add_up_to_its_cost_in_the_period(
    rented: Rental, held: list[Use], gpus: int, begin: int, span: int
) -> None:
    start, now = Instant(T0 + begin - HOUR), Instant(T0 + begin - HOUR + span)
    used = replace(rented, uses=tuple(sorted(held, key=lambda use: use.since)))
    shared = by_purpose(used, gpus, start, now)
    assert total(share.cost for share in shared.values()) == accrued_in(rented, start, now)
    assert all(share.cost >= ZERO for share in shared.values())


@given(
    st.integers(0, 10**9),
    st.dictionaries(st.sampled_from(JobTime), st.integers(0, 10**12), max_size=4),
    st.integers(0, 10**13),
)
def test_what_is_known_of_an_amount_is_never_more_than_it_whatever_a_status_says(
    amount: int, known: dict[JobTime, int], whole: int
) -> None:
    parts = divided(Money(amount), known, whole)
    assert all(part > ZERO for part in parts.values())
    assert total(parts.values()) <= Money(amount)


@given(st.integers(0, 10**12), st.dictionaries(st.text(max_size=3), st.integers(0, 10**9), min_size=1))
def test_sharing_out_is_exact_and_fair_to_a_micro_dollar(amount: int, weights: dict[str, int]) -> None:
    whole = sum(weights.values())
    if whole == 0:
        return
    parts = apportion(Money(amount), weights)
    assert total(parts.values()) == Money(amount)
    for name, part in parts.items():
        assert abs(part.micros * whole - amount * weights[name]) < whole


@given(rentals(one_price=True), spans, spans)
def test_a_bill_at_one_price_never_falls_and_splits_at_any_boundary(rented: Rental, first: int, second: int) -> None:
    earlier, later = Instant(T0 + min(first, second)), Instant(T0 + max(first, second))
    assert accrued(rented, earlier) <= accrued(rented, later)
    split = accrued(rented, earlier) + accrued_in(rented, earlier, later)
    assert split == accrued(rented, later) or earlier == T0  # at the very launch all belongs to the later part
