"""Refusals that reach other pools: what one pool was refused is absent from every pool of its account that asks for it.

A refusal of a pool or a subnet stays with its pool. A wider one closes another pool where it, or others with it, name
all that the pool could launch. A pool with a zone, type or family left is still offered: its cloud is told all of them
with each ask, and launches in what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from charterer.domain.ids import PoolId
from charterer.domain.order import CoolDown, LaunchWay, Scope
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import Instant
from charterer.providers.accounts import Account, account_of

_OWN: Final = (Scope.POOL, Scope.SUBNET)
_COUNTED: Final = (Scope.FAMILY, Scope.CAPACITY_TYPE)
"""Scopes of quotas, of which a smaller node may still find enough."""


def with_refusals_in_scope(pools: Mapping[PoolId, Pool], rentals: Iterable[Rental]) -> Mapping[PoolId, Pool]:
    """The pools, each with the cool-down of others that ``reached`` it.

    A cool-down reaches none once a node was launched in a pool that asks only for what was refused.
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
    """A pool, all that it could launch, and when it was given a node last."""

    pool: Pool
    ways: Sequence[LaunchWay]
    launched: Instant | None


@dataclass(frozen=True, slots=True)
class _Refused:
    """A cool-down, and what the node that was refused would have taken of a quota."""

    cooled: CoolDown
    units: int

    def reaches(self, asking: _Asking, way: LaunchWay) -> bool:
        """Whether what was refused includes that way of a pool of the account."""
        offering = asking.pool.offering
        if offering is None or (self.cooled.scope in _COUNTED and asking.pool.cloud.quota_units(offering) < self.units):
            return False
        return way.within(self.cooled.scope) == self.cooled.where

    def refuted_by(self, asking: _Asking) -> bool:
        """Whether a pool that asks for nothing else was given a node later."""
        if asking.launched is None or asking.launched <= self.cooled.since or not asking.ways:
            return False
        return all(self.reaches(asking, way) for way in asking.ways)


def _told(asking: _Asking) -> Iterable[_Refused]:
    """The refusals of the pool that concern other pools, too."""
    for cooled in asking.pool.cooled:
        if asking.pool.offering is not None and cooled.scope not in _OWN:
            units = asking.pool.cloud.quota_units(asking.pool.offering)
            told = _Refused(replace(cooled, by=asking.pool.id), units)
            if any(told.reaches(asking, way) for way in asking.ways):
                yield told


def _reached(asking: _Asking, refused: Sequence[_Refused]) -> Pool:
    """The pool with the cool-down that ends first of those that together leave it nothing to launch."""
    pool = asking.pool
    last: list[CoolDown] = []
    for way in asking.ways:
        told = [each.cooled for each in refused if each.cooled.by != pool.id and each.reaches(asking, way)]
        if not told:
            return pool
        last.append(max(told, key=lambda cooled: cooled.until))
    return replace(pool, reached=min(last, key=lambda cooled: cooled.until)) if last else pool


def _last_launches(rentals: Iterable[Rental]) -> Mapping[PoolId, Instant]:
    """When each pool was given a node last."""
    last: dict[PoolId, Instant] = {}
    for rental in rentals:
        if rental.launched is not None:
            last[rental.pool] = max(rental.launched, last.get(rental.pool, rental.launched))
    return last
