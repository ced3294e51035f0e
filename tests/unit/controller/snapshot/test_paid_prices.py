"""A price that a person changes counts from then on; what was paid before stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import Recorded, paid, recorded_segments
from charterer.domain.billing import cost
from charterer.domain.money import Price
from charterer.domain.pool import InstanceState, Pool, PriceSegment, Quote
from tests import factory as make

MACHINE = make.instance(segments=(PriceSegment(make.at(0), Price(1_000)),))
LIST = make.pool()
QUOTE = Quote(Price(1_000), Price(1_000), 0, "cloud", make.T0)
UNTOLD = replace(MACHINE, segments=())
"""Of a cloud that tells no machine's prices."""


def fixed(price: int) -> Pool:
    return make.pool(price_override=Price(price))


def on_record(recorded: tuple[PriceSegment, ...]) -> Recorded:
    rental = make.rental(machine=replace(MACHINE, segments=recorded))
    return recorded_segments({ObjectKey("", rental.id): rental})


def segments(
    pool: Pool, recorded: tuple[PriceSegment, ...], at: float, listed: tuple[PriceSegment, ...] = MACHINE.segments
) -> tuple[PriceSegment, ...]:
    """What is paid for the machine when the cloud lists these prices, ``at`` seconds after T0."""
    survey = make.survey(replace(MACHINE, segments=listed), asked=at)
    (instance,) = paid(pool, survey, on_record(recorded), QUOTE).instances
    return instance.segments


def hourly(found: tuple[PriceSegment, ...]) -> list[tuple[float, int]]:
    return [((one.since - make.T0) / 1e6, one.price.micros_per_hour) for one in found]


def test_without_a_price_of_the_pools_own_the_cloud_prices_count() -> None:
    survey = make.survey(MACHINE)
    assert paid(LIST, survey, on_record(MACHINE.segments), QUOTE) is survey


def test_a_changed_price_counts_from_when_it_was_changed() -> None:
    first = segments(fixed(12), (), 10)
    assert hourly(first) == [(0, 12)]
    assert segments(fixed(12), first, 20) == first
    dearer = segments(fixed(1200), first, 3600)
    assert hourly(dearer) == [(0, 12), (3600, 1200)]
    assert segments(fixed(1200), dearer, 7200) == dearer
    assert hourly(segments(LIST, dearer, 9000)) == [(0, 12), (3600, 1200), (9000, 1_000)]


def test_a_new_list_price_is_corrected_by_the_price_that_holds_now() -> None:
    tenth_off = make.pool(price_adjustment=-1_000)
    first = segments(tenth_off, (), 10)
    listed = (*MACHINE.segments, PriceSegment(make.at(100), Price(2_000)))
    assert hourly(segments(tenth_off, first, 200, listed)) == [(0, 900), (100, 1_800)]


def test_a_list_that_lags_changes_nothing() -> None:
    listed = (*MACHINE.segments, PriceSegment(make.at(100), Price(2_000)))
    newest = segments(fixed(12), segments(LIST, (), 110, listed), 200, listed)
    assert segments(fixed(12), newest, 210) == newest


def test_a_list_price_that_shows_late_is_not_lost_behind_an_edit() -> None:
    edited = segments(make.pool(price_adjustment=-1_000), segments(LIST, (), 1), 200)
    listed = (*MACHINE.segments, PriceSegment(make.at(100), Price(2_000)))
    found = segments(make.pool(price_adjustment=-1_000), edited, 300, listed)
    assert hourly(found) == [(0, 1_000), (100, 1_800), (200, 1_800)]


def test_what_is_left_of_a_pool_changes_no_price() -> None:
    first = segments(fixed(12), (), 10)
    assert segments(make.pool(gone=True), first, 100) == first


EDITS = st.lists(st.tuples(st.sampled_from(["edit", "cloud", "look", "lag"]), st.integers(1, 9)), max_size=12)


@given(EDITS)
def test_whatever_is_edited_the_past_never_costs_anything_else_afterwards(edits: list[tuple[str, int]]) -> None:
    pool, recorded, listed = LIST, segments(LIST, (), 1), MACHINE.segments
    unseen = False
    for turn, (kind, number) in enumerate(edits, 1):
        now = 100.0 * turn
        if kind == "edit":
            pool = fixed(number)
        elif kind == "cloud":
            listed = (*listed, PriceSegment(make.at(now - 1), Price(number * 100)))
        seen = listed[:1] if kind == "lag" else listed
        found = segments(pool, recorded, now, seen)
        known = recorded if found == recorded[: len(found)] else found  # a list that lags is not recorded
        past = make.at(now - 2)
        assert cost(known, 0, MACHINE.launched, past) == cost(recorded, 0, MACHINE.launched, past) or unseen
        again = segments(pool, known, now + 1, seen)
        assert again == known[: len(again)]
        unseen = kind == "lag" and len(listed) > 1
        recorded = known


def quoted(
    quote: Quote | None, recorded: tuple[PriceSegment, ...] = (), pool: Pool = LIST, **changes: Any
) -> list[tuple[float, int]]:
    """What is paid for a machine of which the cloud tells no prices."""
    survey = make.survey(replace(UNTOLD, **changes), asked=100)
    (instance,) = paid(pool, survey, on_record(recorded), quote).instances
    return hourly(instance.segments)


def test_where_the_cloud_tells_no_prices_the_quote_does_from_the_launch_on() -> None:
    assert quoted(QUOTE) == [(0, 1_000)]
    assert quoted(None) == []


def test_a_new_segment_begins_where_the_quote_changes_unless_the_machine_has_ended() -> None:
    known = (PriceSegment(make.T0, Price(1_000)),)
    dearer = replace(QUOTE, price=Price(3_000), as_of=make.at(60))
    assert quoted(dearer, known) == [(0, 1_000), (60, 3_000)]
    assert quoted(dearer, known, state=InstanceState.ENDED) == [(0, 1_000)]
    assert quoted(QUOTE, known) == [(0, 1_000)]


def test_the_history_of_a_quote_says_when_the_price_changed_since_the_launch() -> None:
    spot = tuple([PriceSegment(make.at(since), Price(price)) for since, price in ((-50, 7), (20, 8), (40, 9))])
    quote = replace(QUOTE, price=Price(9), as_of=make.at(90), history=spot)
    assert quoted(quote) == [(0, 7), (20, 8), (40, 9)]
    known = (PriceSegment(make.T0, Price(7)), PriceSegment(make.at(20), Price(8)))
    assert quoted(quote, known) == [(0, 7), (20, 8), (40, 9)]


def test_a_discount_holds_for_what_the_quotes_say_too() -> None:
    assert quoted(QUOTE, pool=make.pool(price_adjustment=-1_000)) == [(0, 900)]
