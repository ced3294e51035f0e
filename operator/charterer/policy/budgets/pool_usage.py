"""Paths as ``scarcity`` sees them: the dollars, seconds, and GPU-seconds on each pool of a job that takes one.

They are walked exactly as ``phase_dp`` charges them: entering, restarts and nodes that boot meanwhile included, so that
a job that chooses by the prices found has the cost that they were found with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.option import Option
from charterer.policy.budgets.demand import GroupDemand
from charterer.policy.options.menu import Menu
from charterer.policy.solve.hull import Hull, Path, corners, dollars, seconds
from charterer.policy.solve.lp_columns import LpColumn, LpColumns, pareto_front
from charterer.policy.solve.phase_dp import key_of, work_of_phases

_FITS = 1.0 + 1e-9
"""Factor by which uses may exceed a pool's room, because numbers are rounded."""


@dataclass(frozen=True, slots=True)
class PathUsage:
    """A path and what a new job on it takes."""

    path: Path
    column: LpColumn


def path_usages(menu: Menu, work: float, hull: Hull | None) -> Sequence[PathUsage]:
    """The paths of jobs of ``work`` that can win at some prices. ``hull``: theirs, if the menu has several phases.

    With a single phase, the corners of each pool's own hull: in one pool dollars and GPU-seconds go together. With
    several there are too many paths to look at. Those of the hull and of every option from beginning to end are there;
    better ones at the prices of the moment are added by ``pool_program``.
    """
    stages = menu.stages
    if hull is not None:
        paths = dict.fromkeys([*hull.paths, *zip(*stages, strict=True)])
        usages = [PathUsage(path, lp_column(path, menu, work)) for path in paths]
        return [usages[at] for at in pareto_front([usage.column for usage in usages])]
    by_pool: dict[PoolId, list[Option]] = {}
    for option in stages[0]:
        by_pool.setdefault(option.pool, []).append(option)
    best = (
        options[at]
        for options in by_pool.values()
        for at in corners([(dollars(option, work), seconds(option, work)) for option in options])
    )
    return [PathUsage((option,), lp_column((option,), menu, work)) for option in best]


def lp_columns(usages: Sequence[PathUsage]) -> LpColumns:
    """The columns of paths, in the same order."""
    return LpColumns([usage.column for usage in usages])


def lp_column(path: Path, menu: Menu, total: float) -> LpColumn:
    """The column of a path of the menu: seconds, dollars and use of pools by a new job of ``total`` work."""
    table = menu.table
    first = path[0]
    money, time = first.entry_cost.dollars, first.entry_seconds
    use: dict[PoolId, float] = {first.pool: first.gpus * time}
    here = first
    for work, there in zip(work_of_phases(menu.until, total), path, strict=True):
        took = work / there.speed
        if key_of(there) != key_of(here):
            at = table.index[key_of(there)]
            took += table.change_seconds(table.resizable_pool(here), at)
            start = table.start_seconds[at]
            same = there.pool == here.pool
            more = there.price.dollars_per_second - (here.price.dollars_per_second if same else 0.0)
            money += max(more, 0.0) * start
            _add(use, there.pool, max(there.gpus - (here.gpus if same else 0), 0) * start)
        money += there.price.dollars_per_second * took
        time += took
        _add(use, there.pool, there.gpus * took)
        here = there
    return LpColumn(money, time, use)


def _add(use: dict[PoolId, float], pool: PoolId, amount: float) -> None:
    use[pool] = use.get(pool, 0.0) + amount


def use_of(path: Path, seconds: float, group: GroupDemand) -> Mapping[PoolId, float]:
    """GPU-seconds by pool of a new job of the group that takes ``seconds`` on a path."""
    if len(path) == 1:
        return {path[0].pool: path[0].gpus * seconds}
    return lp_column(path, group.menu, group.work).use


def sum_uses(uses: Iterable[Mapping[PoolId, float]]) -> dict[PoolId, float]:
    """GPUs by pool of all together."""
    total: dict[PoolId, float] = {}
    for use in uses:
        for pool, amount in use.items():
            _add(total, pool, amount)
    return total


def fits_into(uses: Mapping[PoolId, float], room: Mapping[PoolId, float]) -> bool:
    """Whether pools have room for the uses; a pool that is not named has room for all."""
    return all(amount <= room.get(pool, amount) * _FITS for pool, amount in uses.items())


def expected_use(uses: Iterable[tuple[float, Mapping[PoolId, float]]], load: float) -> dict[PoolId, float]:
    """GPUs by pool that are held by ``load`` jobs a second of which each fraction has its use."""
    total: dict[PoolId, float] = {}
    for fraction, use in uses:
        for pool, amount in use.items():
            _add(total, pool, load * fraction * amount)
    return total
