"""The pools to act for: those that are declared, those of which only rentals are left, and which of them is first.

Two GPUPools may mean the same machines. They would take each other's machines for ones that nobody asked for, and set
one target against each other; so only one acts, the first by ``precedence``. What tells them apart is what the cloud
says (its identifier of the group, and the machines it lists), and how the group is written only where it has said
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import chain

from charterer.cluster.store import ObjectKey
from charterer.domain.ids import PoolId
from charterer.domain.pool import Cloud, Pool, Survey
from charterer.domain.rental import Rental
from charterer.domain.time import Instant


def known_pools(
    declared: Mapping[ObjectKey, Pool], rentals: Mapping[ObjectKey, Rental], unread: Container[str] = ()
) -> Mapping[PoolId, Pool]:
    """The declared pools by name, and for rentals whose pool is gone what is left of that pool.

    ``unread``: names of pools that are there and cannot be read; nothing is done about their rentals.

    A pool that was torn out and made again for another group stays out of sight until the former group's rentals are
    gone: names of rentals and records of the one must not be taken for the other's.
    """
    pools = {pool.id: pool for pool in declared.values()}
    for rental in rentals.values():
        pool = pools.get(rental.pool)
        missing = pool is None and rental.pool not in unread
        if missing or (pool is not None and not pool.gone and _are_different(pool.cloud, rental.cloud)):
            pools[rental.pool] = _left_of(rental, pool)
    return pools


def machines_of(survey: Survey) -> frozenset[str]:
    """The provider ids of the machines that the cloud lists."""
    return frozenset([instance.provider_id for instance in survey.instances if instance.provider_id])


def listed_twice(machines: Mapping[PoolId, frozenset[str]]) -> Mapping[PoolId, frozenset[str]]:
    """The machines of each pool that another one has, too; ``machines``: of all pools."""
    everything = frozenset[str]().union(*machines.values())
    if len(everything) == sum(map(len, machines.values())):
        return {}
    number = Counter(chain.from_iterable(machines.values()))
    return {name: frozenset([each for each in here if number[each] > 1]) for name, here in machines.items()}


def first_come(pools: Mapping[PoolId, Pool], shared: Mapping[PoolId, frozenset[str]]) -> Mapping[PoolId, Pool]:
    """The pools with their offers, those marked ``taken_by`` that have the same machines as one before them.

    ``shared``: the machines that several have (``listed_twice``).
    """
    holders: dict[Hashable, PoolId] = {}
    found: dict[PoolId, Pool] = {}
    for pool in sorted(pools.values(), key=precedence):
        keys = list(_identities(pool, shared.get(pool.id, frozenset())))
        holder = next((holders[key] for key in keys if key in holders), None)
        for key in keys:
            holders.setdefault(key, holder or pool.id)
        found[pool.id] = pool if holder is None else replace(pool, taken_by=holder)
    return {name: found[name] for name in pools}


def precedence(pool: Pool) -> tuple[bool, bool, Instant, PoolId]:
    """By age, and by name among pools created in the same second; but first those for which a cloud has ever answered.

    A pool with a wrong capacity type, group or host must not keep another one from the machines that it cannot use.
    """
    return pool.gone, pool.offering is None, pool.created, pool.id


def _identities(pool: Pool, shared: frozenset[str]) -> Iterable[Hashable]:
    """All by which the pool's machines may be told to be another's."""
    if not pool.cloud.marks_machines:
        yield pool.cloud.identity
    if pool.offering is not None and pool.offering.group_id:
        yield "group", pool.offering.group_id
    yield from (("machine", machine) for machine in shared)


def _are_different(one: Cloud, other: Cloud) -> bool:
    """Whether they are different groups; nearly all are written alike, and to find out otherwise takes a while."""
    return one is not other and one != other and one.identity != other.identity


def _left_of(rental: Rental, namesake: Pool | None) -> Pool:
    """A rental's pool without its object: enough is known to look at its group and to end what is there."""
    return Pool(
        id=rental.pool,
        uid="" if namesake is None else namesake.uid,
        resource_version="",
        generation=0 if namesake is None else namesake.generation,
        created=rental.created,
        cloud=rental.cloud,
        max_nodes=1,
        capacity_type=rental.capacity_type,
        start_seconds=0.0,
        cooldown_seconds=0.0,
        price_override=None,
        offering=None,
        quote=None,
        deleting=True,
        guarded=True,
        gone=True,
    )
