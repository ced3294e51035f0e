"""Hardware and price of a pool's node, and the size of its group: the cloud's last answer, or what was recorded of it.

Prices come from places that are wrong at times. A price that moves by more than a factor of two is held: the one on
record keeps counting until a person confirms the new one, or another source gives it, too. A spot price moves by more
than that in earnest, so it is held only beyond the most that a node could cost, which is the on-demand price.

A first price has none before it. It is held where another pool's node with the same GPUs costs less than a third of it
or more than three times as much, for each GPU and for each processor, and no difference in size explains that.
"""

from __future__ import annotations

from dataclasses import replace

from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.money import Price
from charterer.domain.nodes.demands import NO_TRAITS, NodeTraits
from charterer.domain.pool import CapacityType, Offering, Pool, Quote
from charterer.domain.time import Instant, format_minute, seconds_between
from charterer.gpu_types import whole_type

_RECORDED_SECONDS = 3600.0
"""Seconds after which an unchanged quote is recorded again, for its time: one write of a pool an hour costs nothing."""
_HELD_FACTOR = 2
"""Factor by which a price may move without being held."""
_UNLIKE_FACTOR = 3
"""Factor between what two nodes with the same GPUs cost, for each GPU or processor, that is still believed."""
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
    offering = pool.offering if survey is None else survey.offering
    held = listed is not None and _is_held(pool, offering, listed, state)
    quote = pool.quote
    if listed is not None and held:
        quote = None if quote is None else replace(quote, as_of=listed.as_of)
    elif listed is not None:
        quote = _paid(pool, listed)
    if offering is not None and pool.partition is not None:
        offering = offering.cut(pool.partition)
    elif offering is not None and offering.resource != pool.device:
        offering = replace(offering, resource=pool.device)
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


def _is_held(pool: Pool, offering: Offering | None, listed: Quote, state: ClusterState) -> bool:
    """Whether the price on record keeps counting instead of this one; without one on record, none counts."""
    if pool.price_override is not None or pool.confirmed_price == listed.price:
        return False
    before = pool.quote
    doubtful = _unlike_others(pool, offering, listed, state) if before is None else _moved(pool, before, listed)
    return doubtful and not _seconded(pool, listed, state)


def _unlike_others(pool: Pool, offering: Offering | None, listed: Quote, state: ClusterState) -> bool:
    """Whether a pool whose price is on record contradicts this first one: same vendor, GPUs and way of selling."""
    return offering is not None and any(
        _alike(pool, offering, other)
        and other.quote is not None
        and other.offering is not None
        and not _explained(listed.price, offering, other.quote.list_price, other.offering)
        for other in state.pools.values()
    )


def _alike(pool: Pool, offering: Offering, other: Pool) -> bool:
    same = other.cloud.vendor == pool.cloud.vendor and other.capacity_type is pool.capacity_type
    return same and other.offering is not None and whole_type(other.offering.gpu_type) == whole_type(offering.gpu_type)


def _explained(one: Price, node: Offering, other: Price, its_node: Offering) -> bool:
    """Whether what one node has more of explains its price: it lies between those of its GPUs and its processors."""
    ratio = one.micros_per_hour / max(other.micros_per_hour, 1)
    of_gpus = node.machine_gpus / its_node.machine_gpus
    if not (_cpus(node) and _cpus(its_node)):
        return True  # nobody knows how large the rest of the machine is
    of_cpus = _cpus(node) / _cpus(its_node)
    return min(of_gpus, of_cpus) / _UNLIKE_FACTOR <= ratio <= max(of_gpus, of_cpus) * _UNLIKE_FACTOR


def _cpus(offering: Offering) -> int:
    """Thousandths of processors; 0 where nobody says it."""
    return dict(offering.traits.room).get("cpu", 0)


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
