"""The store's objects of cluster-scoped kinds, found by name."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.cluster.store import ObjectKey
from charterer.domain.budget import Budget
from charterer.domain.ids import BudgetId, PoolId, PoolSetId, RentalId
from charterer.domain.nodes.pool_set import PoolSet
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.spending.amount_shares import with_shares


def budgets_by_id(budgets: Mapping[ObjectKey, Budget]) -> Mapping[BudgetId, Budget]:
    """The budgets, each with its share of its parent's amount."""
    return with_shares({budget.id: budget for budget in budgets.values()})


def rentals_by_id(rentals: Mapping[ObjectKey, Rental]) -> Mapping[RentalId, Rental]:
    """The rentals."""
    return {rental.id: rental for rental in rentals.values()}


def pools_by_id(pools: Mapping[ObjectKey, Pool]) -> Mapping[PoolId, Pool]:
    """The pools, as they were read."""
    return {pool.id: pool for pool in pools.values()}


def pool_sets_by_id(pool_sets: Mapping[ObjectKey, PoolSet]) -> Mapping[PoolSetId, PoolSet]:
    """The sets of pools."""
    return {pool_set.id: pool_set for pool_set in pool_sets.values()}
