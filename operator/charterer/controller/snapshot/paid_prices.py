"""Paid prices of machines: the cloud's list prices as ``spec.price`` of the pool corrects them, each since when.

A changed ``spec.price`` counts from when it was changed: what was paid before is on the rental's record and stays.
Where the cloud does not tell a machine's prices, the quotes do: a new segment begins where the quote changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from charterer.cluster.store import ObjectKey
from charterer.domain.ids import InstanceId
from charterer.domain.money import Price
from charterer.domain.pool import Instance, InstanceState, Pool, PriceSegment, Quote, Survey
from charterer.domain.rental import Rental
from charterer.domain.time import Instant


class Recorded(NamedTuple):
    """The segments on record, by the machine: its provider id may be that of one before it, and other clouds may have
    its id. ``corrected``: whether any is not at the list price."""

    segments: Mapping[tuple[str, InstanceId | None], Sequence[PriceSegment]]
    corrected: bool


def recorded_segments(rentals: Mapping[ObjectKey, Rental]) -> Recorded:
    """The price segments of all rentals that have any."""
    known = (rental for rental in rentals.values() if rental.segments and rental.provider_id)
    segments = {(rental.provider_id, rental.instance): rental.segments for rental in known}
    return Recorded(segments, any(segment.listed is not None for own in segments.values() for segment in own))


def paid(pool: Pool, survey: Survey, recorded: Recorded, quote: Quote | None) -> Survey:
    """The survey with the bill's segments at what the user really pays; ``quote``: the cloud's own."""
    as_listed = pool.price_override is None and not pool.price_adjustment and not recorded.corrected
    if as_listed and all(instance.segments for instance in survey.instances):
        return survey

    def as_paid(instance: Instance) -> Instance:
        known = recorded.segments.get((instance.provider_id, instance.id), ())
        listed = instance.segments or _quoted_segments(known, instance, quote)
        segments = _paid_segments(known, listed, pool, survey.asked)
        return instance if segments == instance.segments else replace(instance, segments=segments)

    instances = tuple(as_paid(instance) for instance in survey.instances)
    return survey if instances == survey.instances else replace(survey, instances=instances)


def _quoted_segments(
    recorded: Sequence[PriceSegment], instance: Instance, quote: Quote | None
) -> Sequence[PriceSegment]:
    """The list prices of a machine of which the cloud tells none: those on record, then what the quote says."""
    found = [PriceSegment(segment.since, segment.list_price) for segment in recorded]
    if quote is None or (found and instance.state is InstanceState.ENDED):
        return found
    quoted = [*quote.history, PriceSegment(quote.as_of, quote.price)]
    if not found:
        found = [PriceSegment(instance.launched, _at(quoted, instance.launched).price)]
    for segment in quoted:
        if segment.since > found[-1].since and segment.price != found[-1].price:
            found.append(PriceSegment(segment.since, segment.price))
    return found


def _paid_segments(
    recorded: Sequence[PriceSegment], listed: Sequence[PriceSegment], pool: Pool, now: Instant
) -> tuple[PriceSegment, ...]:
    """``listed`` as paid. Prices on record stay for as long as the cloud says of their time what it said then.

    ``now``: the cloud's time of the list, from which another correction of the list price counts.
    """
    if not listed:
        return tuple(recorded)
    if not recorded:
        return tuple(_segment(segment.since, segment.price, pool.priced(segment.price)) for segment in listed)
    known = [*listed, *_later_changes(recorded, listed[-1].since)]
    times = sorted({segment.since for segment in (*listed, *recorded)})
    found: list[PriceSegment] = []
    for since in times:
        list_price = _at(known, since).list_price
        before = _at(recorded, since)
        price = before.price if before.list_price == list_price else pool.priced(list_price)
        found.append(_segment(since, list_price, price))
    newest = found[-1].list_price
    if not pool.gone and pool.priced(newest) != found[-1].price and now > found[-1].since:
        found.append(_segment(now, newest, pool.priced(newest)))
    return tuple(found)


def _later_changes(recorded: Sequence[PriceSegment], since: Instant) -> Sequence[PriceSegment]:
    """Changes of the list price that are on record and later than a list that lags."""
    changes = (two for one, two in pairwise(recorded) if one.list_price != two.list_price)
    return [change for change in changes if change.since > since]


def _at(segments: Sequence[PriceSegment], when: Instant) -> PriceSegment:
    """The segment that holds at an instant; the first one before any does."""
    return next((segment for segment in reversed(segments) if segment.since <= when), segments[0])


def _segment(since: Instant, list_price: Price, price: Price) -> PriceSegment:
    return PriceSegment(since, price, None if list_price == price else list_price)
