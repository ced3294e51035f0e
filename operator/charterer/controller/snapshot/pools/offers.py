"""Hardware and price of a pool's node, and the size of its group: the cloud's last answer, or what was recorded of it.

Prices come from places that are wrong at times. A price that moves by more than a factor of two is held: the one on
record keeps counting until a person confirms the new one, or another source gives it, too. A spot price moves by more
than that in earnest, so it is held only beyond the most that a node could cost, which is the on-demand price.
"""

from __future__ import annotations

from dataclasses import replace

from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.money import Price
from charterer.domain.nodes.demands import NO_TRAITS, NodeTraits
from charterer.domain.pool import CapacityType, Offering, Pool, Quote
from charterer.domain.time import Instant, format_minute, seconds_between

_RECORDED_SECONDS = 3600.0
"""Seconds after which an unchanged quote is recorded again, for its time: one write of a pool an hour costs nothing."""
_HELD_FACTOR = 2
"""Factor by which a price may move without being held."""
_AGREEMENT = 0.1
"""Fraction by which the prices of two sources that agree may differ."""


def at_terms_of(pool: Pool, now: Instant) -> Pool:
    """The pool without an adjustment of its price or a commitment that has ended."""
    if pool.price_adjusted_until is not None and now >= pool.price_adjusted_until:
        pool = replace(pool, price_adjustment=0, price_adjusted_until=None)
    if pool.committed is not None and now >= pool.committed.until:
        pool = replace(pool, price_override=None, committed=None)
    return pool


def with_offer(pool: Pool, state: ClusterState, seen: NodeTraits | None = None) -> Pool:
    """The pool with what its cloud said last, or with what was recorded of that. ``seen``: of its nodes."""
    survey, listed = state.surveys.get(pool.id), state.quotes.get(pool.id)
    held = listed is not None and _is_held(pool, listed, state)
    quote = pool.quote
    if listed is not None and held and quote is not None:
        quote = replace(quote, as_of=listed.as_of)
    elif listed is not None:
        quote = _paid(pool, listed)
    offering = pool.offering if survey is None else survey.offering
    if offering is not None and pool.partition is not None:
        offering = offering.cut(pool.partition)
    offering = _with_traits(offering, seen, pool)
    recorded = offering == pool.offering and (listed is None or _quoted_alike(quote, pool.quote))
    group_size = None if offering is None else offering.group_size
    return replace(
        pool,
        max_nodes=pool.max_nodes if group_size is None else min(pool.max_nodes, group_size),
        offering=offering,
        quote=quote,
        quote_on_record=pool.quote,
        offer_recorded=recorded,
        price_held=listed.price if listed is not None and held else None,
    )


def _with_traits(offering: Offering | None, seen: NodeTraits | None, pool: Pool) -> Offering | None:
    """The offering with what nodes of the pool show, or showed as long as neither pool nor machines were others."""
    recorded = pool.offering
    if offering is None:
        return None
    if seen is not None:
        return replace(offering, traits=seen, traits_seen=pool.generation)
    if recorded is not None and recorded.traits_seen == pool.generation and _machine(recorded) == _machine(offering):
        return replace(offering, traits=recorded.traits, traits_seen=recorded.traits_seen)
    return replace(offering, traits=NO_TRAITS, traits_seen=0) if offering.traits_seen else offering


def _machine(offering: Offering) -> tuple[str, str, str]:
    """What nodes' labels follow from."""
    return offering.instance_type, offering.zone, offering.gpu_type


def trusted(pool: Pool, listed: Quote | None) -> Quote | None:
    """The cloud's own quote; where it is held, with the price on record. ``pool``: with its offer."""
    if listed is None or pool.price_held is None or pool.quote is None:
        return listed
    return replace(listed, price=pool.quote.list_price, history=())


def _paid(pool: Pool, listed: Quote) -> Quote:
    """The quote as the user pays it."""
    price = pool.priced(listed.price)
    return replace(
        listed,
        price=price,
        worst=pool.most_priced(listed.worst),
        source=price_source(pool, listed.source),
        listed=None if price == listed.price else listed.price,
        history=(),
    )


def price_source(pool: Pool, listed: str) -> str:
    """Where a price comes from that is ``priced``; ``listed`` says where the list price comes from."""
    until = pool.price_adjusted_until if pool.committed is None else pool.committed.until
    ends = "" if until is None else f" until {format_minute(until)}"
    if pool.price_override is not None:
        return f"spec.price.hourly{ends}"
    return f"{listed}, {pool.price_adjustment / 100:+g}%{ends}" if pool.price_adjustment else listed


def _is_held(pool: Pool, listed: Quote, state: ClusterState) -> bool:
    """Whether the price on record keeps counting instead of this one."""
    before = pool.quote
    if before is None or pool.price_override is not None or not _moved(pool, before, listed):
        return False
    return pool.confirmed_price != listed.price and not _seconded(pool, listed, state)


def _moved(pool: Pool, before: Quote, listed: Quote) -> bool:
    """Whether the cloud's price moved too far; a price that a person changed in the pool's spec did not."""
    moved = _far(before.list_price, listed.price)
    if pool.capacity_type is CapacityType.SPOT:
        moved = moved and pool.priced(listed.price) > before.worst
    same_terms = before.price == pool.priced(before.list_price)
    return moved or (same_terms and _far(before.worst, pool.most_priced(listed.worst)))


def _far(before: Price, now: Price) -> bool:
    low, high = sorted((before.micros_per_hour, now.micros_per_hour))
    return high > _HELD_FACTOR * low


def _seconded(pool: Pool, listed: Quote, state: ClusterState) -> bool:
    """Whether another source, asked for another pool, gives the same machine the same price."""
    for other in state.pools.values():
        quote = state.quotes.get(other.id)
        if quote is None or other.offering is None or pool.offering is None or quote.source == listed.source:
            continue
        same = other.offering.instance_type == pool.offering.instance_type
        apart = abs(quote.price.micros_per_hour - listed.price.micros_per_hour)
        if same and other.capacity_type is pool.capacity_type and apart <= _AGREEMENT * listed.price.micros_per_hour:
            return True
    return False


def _quoted_alike(quote: Quote | None, recorded: Quote | None) -> bool:
    """Whether the recorded quote is the same, and not so old that it looks like a price that nobody confirms."""
    if quote is None or recorded is None or seconds_between(recorded.as_of, quote.as_of) >= _RECORDED_SECONDS:
        return False
    return replace(quote, as_of=recorded.as_of) == recorded
