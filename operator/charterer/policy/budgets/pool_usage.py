"""The GPUs that jobs hold in the pools in the long run, and whether the pools have as many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from charterer.domain.ids import PoolId
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.pool_size import pool_sizes
from charterer.policy.solve.hull import Path
from charterer.policy.solve.phase_dp import key_of, work_of_phases

_FITS = 1.0 + 1e-9
"""Factor by which uses may exceed a pool's room, because numbers are rounded."""


def use_of(path: Path, seconds: float, group: GroupDemand) -> Mapping[PoolId, float]:
    """GPU-seconds by pool of a new job of the group that takes ``seconds`` on a path, as ``phase_dp`` charges it.

    Entering, restarts, and nodes that boot meanwhile are included.
    """
    first = path[0]
    if len(path) == 1:
        return {first.pool: first.takes * seconds}
    table, use, here = group.menu.table, {first.pool: first.takes * first.entry_seconds}, first
    for work, there in zip(work_of_phases(group.menu.until, group.work), path, strict=True):
        took = work / there.speed
        if key_of(there) != key_of(here):
            at = table.index[key_of(there)]
            took += table.change_seconds(table.resizable_pool(here), at)
            more = max(there.takes - (here.takes if there.pool == here.pool else 0), 0)
            _add(use, there.pool, more * table.start_seconds[at])
        _add(use, there.pool, there.takes * took)
        here = there
    return use


def _add(use: dict[PoolId, float], pool: PoolId, amount: float) -> None:
    use[pool] = use.get(pool, 0.0) + amount


def sum_uses(uses: Iterable[Mapping[PoolId, float]]) -> dict[PoolId, float]:
    """GPUs by pool of all together."""
    total: dict[PoolId, float] = {}
    for use in uses:
        for pool, amount in use.items():
            _add(total, pool, amount)
    return total


def pools_hold(uses: Mapping[PoolId, float], solution: BudgetSolution) -> bool:
    """Whether the pools may have as many GPUs, all of them for the budget."""
    sizes = pool_sizes(solution.inputs.snapshot, solution.inputs.rentals)
    return all(amount <= sizes[pool].gpus * _FITS for pool, amount in uses.items() if pool in sizes)


def expected_use(uses: Iterable[tuple[float, Mapping[PoolId, float]]], load: float) -> dict[PoolId, float]:
    """GPUs by pool that are held by ``load`` jobs a second of which each fraction has its use."""
    total: dict[PoolId, float] = {}
    for fraction, use in uses:
        for pool, amount in use.items():
            _add(total, pool, load * fraction * amount)
    return total
