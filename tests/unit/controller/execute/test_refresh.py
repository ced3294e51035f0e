"""A cloud's list updates a rental's record. It erases neither costs nor what finds the rental's node."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from charterer.api.models.gpurental import GPURentalRecord
from charterer.controller.execute.context import ExecutionContext
from charterer.controller.execute.rental_steps import refresh
from charterer.domain.money import Price
from charterer.domain.pool import Instance, PriceSegment
from charterer.domain.rental import SEGMENTS_KEPT, Rental
from charterer.domain.steps import Refresh
from tests import factory as make

MACHINE = make.instance()
READY = make.rental(machine=MACHINE)
DEARER = replace(MACHINE, segments=(*MACHINE.segments, PriceSegment(make.at(60), Price.parse("40"))))


async def recorded(listed: Instance) -> Rental:
    """The rental after the list was recorded."""
    records: list[Rental] = []

    async def record(rental: Rental) -> None:
        records.append(rental)

    decided, objects = SimpleNamespace(rental=lambda name: READY), SimpleNamespace(record_rental=record)
    await refresh(cast(ExecutionContext, SimpleNamespace(decided=decided, objects=objects)), Refresh(READY.id, listed))
    return records[0]


async def test_new_prices_are_recorded() -> None:
    assert await recorded(DEARER) == replace(READY, segments=DEARER.segments)


async def test_more_prices_than_a_record_takes_do_not_keep_it_from_being_written() -> None:
    changes = tuple(PriceSegment(make.at(number), Price(number)) for number in range(SEGMENTS_KEPT + 1))
    assert GPURentalRecord.from_domain(await recorded(replace(MACHINE, segments=changes)))


async def test_a_later_launch_does_not_take_the_time_before_off_the_bill() -> None:
    restarted = replace(DEARER, launched=make.at(200))
    assert (await recorded(restarted)).launched == READY.launched


async def test_a_provider_id_is_not_taken_back() -> None:
    assert (await recorded(replace(DEARER, provider_id=""))).provider_id == READY.provider_id
