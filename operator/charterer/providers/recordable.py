"""What a cloud says of a machine, as far as it can be recorded.

A value out of bounds would be refused by the API server, or would spend a whole budget. It is left out, machine by
machine, and told: the others, and what the record already has, are not touched by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from charterer.domain.billing import abridged
from charterer.domain.money import MOST_HOURLY_DOLLARS, Price
from charterer.domain.pool import Instance, PriceSegment
from charterer.domain.rental import SEGMENTS_KEPT
from charterer.domain.time import Instant, after

_UNBELIEVABLE: Final = Price.parse(str(MOST_HOURLY_DOLLARS))
_PROVIDER_ID_LIMIT: Final = 512
_NAME_LIMIT: Final = 253
_LONGEST_MINIMUM_SECONDS: Final = 31 * 86_400
_LONGEST_LIFE_SECONDS: Final = 20 * 366 * 86_400.0


def recordable(instance: Instance, asked: Instant) -> tuple[Instance, Sequence[str]]:
    """The instance without what cannot be recorded of it, and a sentence about each such value.

    More price segments than a record takes become fewer that cost the same.

    Without a price the quotes say what it costs. ``asked``: the cloud's time of the list.
    """
    faults: list[str] = []
    within = instance
    if (segments := _believable(instance.segments)) != instance.segments:
        wrong = next(segment.price for segment in instance.segments if segment not in segments)
        faults.append(f"a price of {wrong}")
        within = replace(within, segments=segments)
    if (fewer := abridged(within.segments, within.launched, SEGMENTS_KEPT)) is not within.segments:
        within = replace(within, segments=fewer)
    if not 0 <= instance.billing_minimum_seconds <= _LONGEST_MINIMUM_SECONDS:
        faults.append(f"a billing minimum of {instance.billing_minimum_seconds} s")
        within = replace(within, billing_minimum_seconds=0)
    if len(instance.provider_id) > _PROVIDER_ID_LIMIT:
        faults.append(f"a providerId of {len(instance.provider_id)} characters")
        within = replace(within, provider_id="")
    if instance.node is not None and len(instance.node) > _NAME_LIMIT:
        faults.append(f"a node's name of {len(instance.node)} characters")
        within = replace(within, node=None)
    if instance.launched < after(asked, -_LONGEST_LIFE_SECONDS):
        faults.append("a launch more than 20 years ago")
        within = replace(within, launched=asked)
    return within, faults


def _believable(segments: tuple[PriceSegment, ...]) -> tuple[PriceSegment, ...]:
    return tuple([segment for segment in segments if Price(0) <= segment.price < _UNBELIEVABLE])
