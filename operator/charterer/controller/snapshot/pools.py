"""The offer of a pool, joined from its spec, its cloud's answers and the traits of its nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from charterer.api.decode import DecodedJob
from charterer.api.decode.core import lacking, refused_by_own_nodes
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.cluster_state import ClusterState
from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome
from charterer.domain.money import Price
from charterer.domain.node_demands import NO_TRAITS, Amounts, NodeTraits, shown_by_all
from charterer.domain.order import CoolDown, LaunchWay, Scope
from charterer.domain.pool import CapacityType, Hazard, NodeLifetimes, Offering, Pool, Quote
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.time import Instant, format_minute, seconds_between
from charterer.estimate.hazard import hazard
from charterer.estimate.waits import with_others
from charterer.gpu_types import whole_type
from charterer.incremental import Memo
from charterer.providers.accounts import Account, account_of

# Pools fail together if they are in one account and ask for the same instance types in the same zones.
#
# If one of these pools is refused a node, the other pools probably are too. So simultaneous requests in several of
# these pools count as one chance to get a node.


def with_correlated_launches(pools: Mapping[PoolId, Pool]) -> Mapping[PoolId, Pool]:
    """The pools, each with the launch counts of all pools that fail together with it."""
    if not any(any(pool.launches.refused) for pool in pools.values()):
        return pools
    groups: dict[tuple[Account, frozenset[str]], list[PoolId]] = defaultdict(list)
    for name, pool in pools.items():
        places = frozenset(way.within(Scope.ZONE) for way in pool.ways)
        if places and "" not in places:
            groups[account_of(pool), places].append(name)
    added = {
        name: with_others(pools[name].launches, [pools[other].launches for other in names if other != name])
        for names in groups.values()
        if len(names) > 1
        for name in names
    }
    return {
        name: pool
        if added.get(name, pool.launches) == pool.launches
        else replace(pool, correlated_launches=added[name])
        for name, pool in pools.items()
    }


# The hazard of each pool is the rate at which its nodes are taken back, estimated from its status and its living nodes.


_STEP_MICROS = 300_000_000
"""Microseconds between two estimates of the rate. The rate changes every second, as living nodes age. The end of a node
causes an estimate at once.
"""


def with_hazards(
    pools: Mapping[PoolId, Pool], rentals: Iterable[Rental], now: Instant, memo: Memo
) -> Mapping[PoolId, Pool]:
    """The pools with their hazard. Only spot pools, and on-demand pools that have lost a node, have a hazard."""
    dying = {
        name for name, pool in pools.items() if pool.capacity_type is CapacityType.SPOT or any(pool.lifetimes.deaths)
    }
    if not dying:
        return pools
    launched: dict[PoolId, list[Instant]] = defaultdict(list)
    for rental in rentals:
        if rental.pool in dying and rental.launched is not None and rental.ended is None:
            launched[rental.pool].append(rental.launched)
    at = Instant(now - now % _STEP_MICROS)
    return {
        name: pool
        if name not in dying
        else replace(pool, hazard=memo(_hazard, pool.lifetimes, tuple(sorted(launched[name])), at, pool.capacity_type))
        for name, pool in pools.items()
    }


def _hazard(lifetimes: NodeLifetimes, launched: Sequence[Instant], now: Instant, capacity_type: CapacityType) -> Hazard:
    ages = [max(seconds_between(since, now), 0.0) / 3600.0 for since in launched]
    return hazard(lifetimes, ages, now, capacity_type)


# The traits that a pool's nodes show to the scheduler. A trait counts only if all present nodes show it.


_SETTLED_SECONDS = 120.0
"""Seconds after a node is ready in which device plugins and feature discovery may still be starting there."""


def shown_by(node: Node) -> tuple[NodeName, NodeTraits] | None:
    """The name and the traits of a node that is ready, or None for any other node."""
    return (node.name, node.traits) if node.ready and not node.deleting else None


def refused_nodes(jobs: Mapping[ObjectKey, DecodedJob]) -> Mapping[RentalId, Amounts]:
    """The nodes of runs that never started because the scheduler put none of their pods there.

    If only this job used the node, the node has an upper limit for each resource that the scheduler called
    insufficient. The limit is one less than the request of the run's pods there, since pods of the system use some of
    the node. Other nodes have no limits.
    """
    never_started = [
        (decoded.job, record)
        for decoded in jobs.values()
        if decoded.job.start_failures
        for record in decoded.job.records
        if record.outcome is RunOutcome.NOT_STARTED
        and refused_by_own_nodes(record.message, [decoded.job.demands.resource])
    ]
    if not never_started:
        return {}
    users = Counter([rental for decoded in jobs.values() for rental in _used(decoded.job)])
    found: dict[RentalId, Amounts] = {}
    for job, record in never_started:
        asks, pods = dict(job.demands.asks), Counter([place.rental for place in record.placements])
        short = [name for name in lacking(record.message) if name in asks]
        for rental, count in pods.items():
            alone = users[rental] == 1
            found[rental] = tuple([(name, asks[name] * count - 1) for name in short]) if alone else ()
    return found


def _used(job: Job) -> frozenset[RentalId]:
    """The nodes that the job has had, as far as its record goes back."""
    given = [record.placements for record in job.records]
    given += [allocation.placements for allocation in (job.allocation, *job.replaced) if allocation is not None]
    return frozenset([place.rental for places in given for place in places])


def seen_traits(
    shown: Mapping[ObjectKey, tuple[NodeName, NodeTraits] | None],
    rentals: Mapping[ObjectKey, Rental],
    refused: Mapping[RentalId, Amounts],
    minute: int,
) -> Mapping[PoolId, NodeTraits]:
    """By pool, the traits that all its settled nodes show. A node in ``refused`` counts at once, even if it is not
    settled, and with its limits.

    ``minute``: the present time in minutes. A pool without a node that counts is not included.
    """
    by_name = dict(entry for entry in shown.values() if entry is not None)
    found: dict[PoolId, dict[NodeTraits, None]] = defaultdict(dict)
    for rental in rentals.values():
        if rental.node is None or rental.ready is None or rental.node not in by_name:
            continue
        age = seconds_between(rental.ready, Instant(minute * 60_000_000))
        if rental.phase is not RentalPhase.ENDED and (age >= _SETTLED_SECONDS or rental.id in refused):
            found[rental.pool][_at_most(by_name[rental.node], refused.get(rental.id, ()))] = None
    return {pool: shown_by_all(list(traits)) for pool, traits in found.items()}


def _at_most(traits: NodeTraits, limits: Amounts) -> NodeTraits:
    """The traits, with no more of each resource than its limit."""
    if not limits:
        return traits
    room = dict(traits.room)
    room |= {name: min(limit, room.get(name, limit)) for name, limit in limits}
    return replace(traits, room=tuple(sorted(room.items())))


# Hardware and price of a pool's node, and the size of the pool's group, from the cloud's last answer or from the
# status.
#
# Sources of prices are sometimes wrong. So a price that moves by more than a factor of two is held. The recorded price
# then stays valid until a person confirms the new one, or another source reports it too. Real spot prices do move by
# more than a factor of two. So a spot price is held only if it is also above the on-demand price, which is the most
# that the node could cost.
#
# A first price has no earlier price to compare it with. A first price is held if another pool's node with the same GPUs
# costs less than a third or more than three times as much. The comparison is made for each GPU and for each processor,
# and must fail for both.


_RECORDED_SECONDS = 3600.0
"""Seconds after which an unchanged quote is recorded again, to renew its time. One write of each pool an hour costs
little.
"""
_HELD_FACTOR = 2
"""Factor by which a price may move without being held."""
_UNLIKE_FACTOR = 3
"""Largest factor between the prices of two nodes with the same GPUs that is believed, for each GPU or each
processor.
"""
_AGREEMENT = 0.1
"""Fraction by which the prices of two sources that agree may differ."""


def at_terms_of(pool: Pool, now: Instant) -> Pool:
    """The pool without a price adjustment or a commitment that has ended."""
    if pool.price_adjusted_until is not None and now >= pool.price_adjusted_until:
        pool = replace(pool, price_adjustment=0, price_adjusted_until=None)
    if pool.committed is not None and pool.committed.until is not None and now >= pool.committed.until:
        pool = replace(pool, price_override=None, committed=None)
    return pool


def with_offer(pool: Pool, state: ClusterState, seen: NodeTraits | None = None) -> Pool:
    """The pool with its cloud's last offer, or else with the recorded offer. ``seen``: the traits of its nodes."""
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
    """The offering with the traits that the pool's nodes show. If no node shows any, the recorded traits stay as long
    as pool and machine are unchanged.
    """
    recorded = pool.offering
    if offering is None:
        return None
    if seen is not None:
        return replace(offering, traits=seen, traits_seen=pool.generation)
    if recorded is not None and recorded.traits_seen == pool.generation and _machine(recorded) == _machine(offering):
        return replace(offering, traits=recorded.traits, traits_seen=recorded.traits_seen)
    return replace(offering, traits=NO_TRAITS, traits_seen=0) if offering.traits_seen else offering


def _machine(offering: Offering) -> tuple[str, str, str]:
    """The properties that determine a node's labels."""
    return offering.instance_type, offering.zone, offering.gpu_type


def trusted(pool: Pool, listed: Quote | None) -> Quote | None:
    """The cloud's own quote. If its price is held, the recorded price replaces it. ``pool``: with its offer."""
    if listed is None or pool.price_held is None or pool.quote is None:
        return listed
    return replace(listed, price=pool.quote.list_price, history=())


def _paid(pool: Pool, listed: Quote) -> Quote:
    """The quote at the price that the user pays."""
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
    """The source of a ``priced`` price. ``listed``: the source of the list price."""
    until = pool.price_adjusted_until if pool.committed is None else pool.committed.until
    ends = "" if until is None else f" until {format_minute(until)}"
    if pool.costs_nothing:
        return listed
    if pool.price_override is not None:
        return f"spec.price.hourly{ends}"
    return f"{listed}, {pool.price_adjustment / 100:+g}%{ends}" if pool.price_adjustment else listed


def _is_held(pool: Pool, offering: Offering | None, listed: Quote, state: ClusterState) -> bool:
    """Whether the recorded price stays valid instead of ``listed``. If ``listed`` is held and no price is recorded, no
    price is valid.
    """
    if pool.price_override is not None or pool.confirmed_price == listed.price:
        return False
    before = pool.quote
    doubtful = _unlike_others(pool, offering, listed, state) if before is None else _moved(pool, before, listed)
    return doubtful and not _seconded(pool, listed, state)


def _unlike_others(pool: Pool, offering: Offering | None, listed: Quote, state: ClusterState) -> bool:
    """Whether a recorded price of a pool with the same vendor, GPUs and capacity type contradicts this first price."""
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
    """Whether the ratio of two nodes' prices is near that of their GPUs or of their processors, or between both."""
    ratio = one.micros_per_hour / max(other.micros_per_hour, 1)
    of_gpus = node.machine_gpus / its_node.machine_gpus
    if not (_cpus(node) and _cpus(its_node)):
        return True  # the size of the rest of the machine is not known
    of_cpus = _cpus(node) / _cpus(its_node)
    return min(of_gpus, of_cpus) / _UNLIKE_FACTOR <= ratio <= max(of_gpus, of_cpus) * _UNLIKE_FACTOR


def _cpus(offering: Offering) -> int:
    """Thousandths of processors, or 0 if unknown."""
    return dict(offering.traits.room).get("cpu", 0)


def _moved(pool: Pool, before: Quote, listed: Quote) -> bool:
    """Whether the cloud's price changed by more than ``_HELD_FACTOR``. A change of the pool's spec does not count."""
    moved = _far(before.list_price, listed.price)
    if pool.capacity_type is CapacityType.SPOT:
        moved = moved and pool.priced(listed.price) > before.worst
    same_terms = before.price == pool.priced(before.list_price)
    return moved or (same_terms and _far(before.worst, pool.most_priced(listed.worst)))


def _far(before: Price, now: Price) -> bool:
    low, high = sorted((before.micros_per_hour, now.micros_per_hour))
    return high > _HELD_FACTOR * low


def _seconded(pool: Pool, listed: Quote, state: ClusterState) -> bool:
    """Whether another source, through another pool, reports the same price for the same machine."""
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
    """Whether the recorded quote is equal, and not yet so old that it must be recorded again."""
    if quote is None or recorded is None or seconds_between(recorded.as_of, quote.as_of) >= _RECORDED_SECONDS:
        return False
    return replace(quote, as_of=recorded.as_of) == recorded


# Refusals can reach other pools. A node that the cloud refused to one pool is not available to any pool of the same
# account.
#
# A refusal for a pool or a subnet stays with its pool. A refusal with a wider scope closes another pool if the refusals
# together name everything that this pool could launch. If a zone, type or family is left, the pool is still offered.
# Each request names all zones, types and families to the cloud, which launches a node in one that is left.


_OWN: Final = (Scope.POOL, Scope.SUBNET)
_COUNTED: Final = (Scope.FAMILY, Scope.CAPACITY_TYPE)
"""Scopes of quotas. A quota that is too small for one node may still have room for a smaller node."""


def with_refusals_in_scope(pools: Mapping[PoolId, Pool], rentals: Iterable[Rental]) -> Mapping[PoolId, Pool]:
    """The pools. Each pool has in ``reached`` the cool-down of other pools that leaves it nothing to launch.

    If a pool that asks only for what was refused launches a node later, the cool-down no longer reaches other pools.
    """
    if not any(cooled.scope not in _OWN for pool in pools.values() for cooled in pool.cooled):
        return pools
    launches = _last_launches(rentals)
    asking = {name: _Asking(pool, pool.ways, launches.get(name)) for name, pool in pools.items()}
    by_account: dict[Account, list[_Asking]] = {}
    for here in asking.values():
        by_account.setdefault(account_of(here.pool), []).append(here)
    refused = {
        account: [told for here in members for told in _told(here) if not any(map(told.refuted_by, members))]
        for account, members in by_account.items()
    }
    return {name: _reached(here, refused[account_of(here.pool)]) for name, here in asking.items()}


@dataclass(frozen=True, slots=True)
class _Asking:
    """A pool, all ways in which it could launch a node, and the time of its last launch."""

    pool: Pool
    ways: Sequence[LaunchWay]
    launched: Instant | None


@dataclass(frozen=True, slots=True)
class _Refused:
    """A cool-down, and the units of a quota that the refused node would have used."""

    cooled: CoolDown
    units: int

    def reaches(self, asking: _Asking, way: LaunchWay) -> bool:
        """Whether the refusal includes that way of a pool of the account."""
        offering = asking.pool.offering
        if offering is None or (self.cooled.scope in _COUNTED and asking.pool.cloud.quota_units(offering) < self.units):
            return False
        return way.within(self.cooled.scope) == self.cooled.where

    def refuted_by(self, asking: _Asking) -> bool:
        """Whether a pool that asks only for what was refused got a node after the refusal."""
        if asking.launched is None or asking.launched <= self.cooled.since or not asking.ways:
            return False
        return all(self.reaches(asking, way) for way in asking.ways)


def _told(asking: _Asking) -> Iterable[_Refused]:
    """The refusals of the pool that also concern other pools."""
    for cooled in asking.pool.cooled:
        if asking.pool.offering is not None and cooled.scope not in _OWN:
            units = asking.pool.cloud.quota_units(asking.pool.offering)
            told = _Refused(replace(cooled, by=asking.pool.id), units)
            if any(told.reaches(asking, way) for way in asking.ways):
                yield told


def _reached(asking: _Asking, refused: Sequence[_Refused]) -> Pool:
    """The pool. If cool-downs of other pools together leave it nothing to launch, ``reached`` is the cool-down whose
    end first leaves it something.
    """
    pool = asking.pool
    last: list[CoolDown] = []
    for way in asking.ways:
        told = [each.cooled for each in refused if each.cooled.by != pool.id and each.reaches(asking, way)]
        if not told:
            return pool
        last.append(max(told, key=lambda cooled: cooled.until))
    return replace(pool, reached=min(last, key=lambda cooled: cooled.until)) if last else pool


def _last_launches(rentals: Iterable[Rental]) -> Mapping[PoolId, Instant]:
    """When each pool last got a node."""
    last: dict[PoolId, Instant] = {}
    for rental in rentals:
        if rental.launched is not None:
            last[rental.pool] = max(rental.launched, last.get(rental.pool, rental.launched))
    return last
