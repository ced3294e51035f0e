"""The pools that a budget's ``spec.poolSelector`` leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.budget import Budget
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.domain.reasons.facts_of_waits import NoPoolSelected, PoolsLeftOut, SelectorFact
from charterer.domain.selector import EVERYTHING


def no_pool(budget: Budget, pools: Mapping[PoolId, Pool]) -> NoPoolSelected | None:
    """That the budget's money can rent in no pool, with the pools and labels that there are; None if it selects one."""
    if budget.pool_selector == EVERYTHING or len(_others(budget, pools)) < len(pools):
        return None
    there = [(pool.id, tuple([f"{key}={value}" for key, value in pool.labels.items()])) for pool in pools.values()]
    return NoPoolSelected(budget.id, budget.pool_selector, tuple(there))


def left_out(budget: Budget, pools: Mapping[PoolId, Pool]) -> SelectorFact | None:
    """Which pools the budget's money may not rent in; None if it may rent in all."""
    others = _others(budget, pools)
    if not 0 < len(others) < len(pools):
        return no_pool(budget, pools)
    return PoolsLeftOut(budget.id, budget.pool_selector, tuple(others))


def _others(budget: Budget, pools: Mapping[PoolId, Pool]) -> list[PoolId]:
    return [name for name, pool in pools.items() if not budget.pool_selector.matches(pool.labels)]
