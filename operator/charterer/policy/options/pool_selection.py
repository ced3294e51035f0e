"""Sentences about the pools that a budget's ``spec.poolSelector`` leaves out."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.budget import EVERYTHING, Budget
from charterer.domain.ids import PoolId
from charterer.domain.pool import Pool
from charterer.sentences import names

_NAMED = 5
"""Pools, and labels of one pool, that are named at most."""


def no_pool(budget: Budget, pools: Mapping[PoolId, Pool]) -> str:
    """Why the budget's money can rent in no pool, with the pools and labels that there are; empty if it selects one."""
    if budget.pool_selector == EVERYTHING or len(_others(budget, pools)) < len(pools):
        return ""
    there = [f"{pool.id} ({_labels(pool)})" for pool in pools.values()]
    what = f"the GPUPools are {names(there, _NAMED)}" if there else "there is no GPUPool"
    return f"spec.poolSelector of GPUBudget {budget.id} selects no GPUPool: it asks for {budget.pool_selector}; {what}"


def left_out(budget: Budget, pools: Mapping[PoolId, Pool]) -> str:
    """Which pools the budget's money may not rent in; empty if it may rent in all."""
    others = _others(budget, pools)
    if not 0 < len(others) < len(pools):
        return no_pool(budget, pools)
    return (
        f"GPUBudget {budget.id} rents only in GPUPools with {budget.pool_selector} (spec.poolSelector), which leaves "
        f"out {names(others, _NAMED)}"
    )


def _others(budget: Budget, pools: Mapping[PoolId, Pool]) -> list[PoolId]:
    return [name for name, pool in pools.items() if not budget.pool_selector.matches(pool.labels)]


def _labels(pool: Pool) -> str:
    return names((f"{key}={value}" for key, value in pool.labels.items()), _NAMED) or "no labels"
