"""The ways through a job's life as ``scarcity`` sees them: dollars, seconds, and GPU-seconds on each pool.

They are walked exactly as ``course`` charges them: entering, restarts and nodes that boot meanwhile included, so that
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
from charterer.policy.solve.phase_dp import key_of, work_of_phases
from charterer.policy.solve.scarcity import LpColumn, pareto_front


@dataclass(frozen=True, slots=True)
class PathUsage:
    """A path and what a new job on it takes."""

    path: Path
    way: LpColumn


def path_usages(menu: Menu, work: float, hull: Hull | None) -> Sequence[PathUsage]:
    """The paths of jobs of ``work`` that can win at some prices. ``hull``: theirs, where the menu has several phases.

    With a single phase, the corners of each pool's own hull: in one pool dollars and GPU-seconds go together. With
    several there are too many paths to look at. Those of the hull and of every option from beginning to end are there;
    better ones at the prices of the moment are added by who solves (``shared_pools``).
    """
    stages = menu.stages
    if hull is not None:
        paths = dict.fromkeys([*hull.paths, *zip(*stages, strict=True)])
        found = [PathUsage(path, lp_column(path, menu, work)) for path in paths]
        return [found[at] for at in pareto_front([one.way for one in found])]
    lanes: dict[PoolId, list[Option]] = {}
    for option in stages[0]:
        lanes.setdefault(option.pool, []).append(option)
    best = (
        lane[at]
        for lane in lanes.values()
        for at in corners([(dollars(option, work), seconds(option, work)) for option in lane])
    )
    return [PathUsage((option,), lp_column((option,), menu, work)) for option in best]


def lp_column(path: Path, menu: Menu, total: float) -> LpColumn:
    """What a new job of ``total`` work takes on a path of the menu."""
    ways = menu.ways
    first = path[0]
    money, time = first.entry_cost.dollars, first.entry_seconds
    use: dict[PoolId, float] = {first.pool: first.gpus * time}
    here = first
    for work, there in zip(work_of_phases(menu.until, total), path, strict=True):
        took = work / there.speed
        if key_of(there) != key_of(here):
            at = ways.places[key_of(there)]
            took += ways.change(ways.fleet(here), at)
            start = ways.starts[at]
            same = there.pool == here.pool
            more = there.price.dollars_per_second - (here.price.dollars_per_second if same else 0.0)
            money += max(more, 0.0) * start
            _add(use, there.pool, max(there.gpus - (here.gpus if same else 0), 0) * start)
        money += there.price.dollars_per_second * took
        time += took
        _add(use, there.pool, there.gpus * took)
        here = there
    return LpColumn(money, time, use)


def _add(use: dict[PoolId, float], pool: PoolId, much: float) -> None:
    use[pool] = use.get(pool, 0.0) + much


def use_of(path: Path, seconds: float, group: GroupDemand) -> Mapping[PoolId, float]:
    """GPU-seconds by pool of a new job of the group that takes ``seconds`` on a path."""
    if len(path) == 1:
        return {path[0].pool: path[0].gpus * seconds}
    return lp_column(path, group.menu, group.work).use


def expected_use(parts: Iterable[tuple[float, Mapping[PoolId, float]]], load: float) -> dict[PoolId, float]:
    """GPUs by pool that are held by ``load`` jobs a second of which such a part has each use."""
    total: dict[PoolId, float] = {}
    for part, use in parts:
        for pool, much in use.items():
            _add(total, pool, load * part * much)
    return total
