"""A cloud's list updates a rental's record. It erases neither costs nor what finds the rental's node."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.models.gpurental import GPURentalRecord
from charterer.domain.money import Price
from charterer.domain.pool import PriceSegment
from charterer.domain.rental import SEGMENTS_KEPT
from tests import factory as make

MACHINE = make.instance()
READY = make.rental(machine=MACHINE)
DEARER = replace(MACHINE, segments=(*MACHINE.segments, PriceSegment(make.at(60), Price.parse("40"))))


def test_new_prices_are_recorded() -> None:
    assert READY.as_listed(DEARER) == replace(READY, segments=DEARER.segments)


def test_more_prices_than_a_record_takes_do_not_keep_it_from_being_written() -> None:
    changes = tuple(PriceSegment(make.at(number), Price(number)) for number in range(SEGMENTS_KEPT + 1))
    assert GPURentalRecord.from_domain(READY.as_listed(replace(MACHINE, segments=changes)))


def test_a_later_launch_does_not_take_the_time_before_off_the_bill() -> None:
    restarted = replace(DEARER, launched=make.at(200))
    assert READY.as_listed(restarted).launched == READY.launched


def test_a_provider_id_is_not_taken_back() -> None:
    assert READY.as_listed(replace(DEARER, provider_id="")).provider_id == READY.provider_id
