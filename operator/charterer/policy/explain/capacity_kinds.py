"""The worth of each kind of capacity: the cost of the same jobs without it, if they were to be as fast.

The jobs are those that the budget pays for now: λ_i jobs a second of each group. Without a kind they are solved again,
with the pools of that kind left out, for the smallest spend at which the (weighted) mean completion time is the same.
Variants are a kind, too: without them, jobs train as their templates say. The mean completion time falls as the spend
grows, so that spend is found by halving (``exchange_rate.solve``). Where no spend is enough, they are solved for what
the budget would spend on them: its amount, or what it spends now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import PoolId
from charterer.domain.money import Money
from charterer.domain.pool import CapacityType, Offering, Pool
from charterer.gpu_types import is_shared, slice_profile
from charterer.policy.budgets.demand import GroupDemand, budget_load
from charterer.policy.budgets.pool_usage import pools_hold, sum_uses
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.explain.frontier import period_seconds, seconds_at, use_at
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.options.menu import Menus
from charterer.policy.solve.bisection import bisect
from charterer.policy.solve.exchange_rate import Demand, solve

SPOT = "spot"
"""The kind of all pools whose machines the cloud may take back."""
SLICES, SHARED = "slices", "shared GPUs"
"""The kinds of all pools whose GPUs are cut, and of those whose GPUs several jobs use at once."""
VARIANTS = "variants"
"""The kind of all options in which a job does not train as its template says. It has no pools of its own."""
_HALVINGS = 40
"""Halvings of the range of spends: exact to eleven digits."""
_EQUAL = 1.0 + 1e-9
"""Factor within which two mean completion times are equal."""


@dataclass(frozen=True, slots=True)
class WithoutKind:
    """A budget without ``pools``, all of a ``kind`` (spot, slices, shared GPUs, a GPU type); it has ``others`` more.

    Or without ``variants``: then there are no such pools.

    ``more``: dollars a period that the same jobs would cost beyond ``now``, what they cost with all kinds, if they were
    as fast; None where they could not be, at any cost or because the other pools lack ``room``. ``slower``: how many
    times as long they would take on average at the budget's amount, for ``more_then`` dollars a period beyond ``now``;
    1 where they could be as fast, and None where they would queue, because even the cheapest options left cost more.
    ``impossible``: jobs a second of groups that no other pool can run at all, or of whose template no speed is known.
    """

    kind: str
    pools: tuple[PoolId, ...]
    others: int
    now: Money
    more: Money | None
    slower: float | None
    more_then: Money
    room: bool
    impossible: float


@dataclass(frozen=True, slots=True)
class _Load:
    """A group's jobs: ``arrivals`` a second. ``factor``: dollars paid for each dollar predicted.

    ``held``: seconds for which they hold GPUs for each one predicted.
    """

    arrivals: float
    factor: float
    held: float


def without_each_kind(solution: BudgetSolution) -> tuple[WithoutKind, ...]:
    """The cost of the budget's jobs without each kind of capacity that it may rent, the dearest loss first.

    Only kinds that leave something: with a single kind there is nothing to compare. Empty while jobs queue.
    """
    solution = solution.in_the_long_run()
    assignments = solution.assignments
    if not assignments or not solution.feasible:
        return ()
    loads = {
        key: _Load(
            assignment.arrivals,
            solution.calibration.factor(key[0]),
            solution.calibration.of(key[0]).value,
        )
        for key, assignment in assignments.items()
    }
    menus, open_pools = solution.inputs.menus[solution.budget.id], _open_pools(solution)
    found = [
        _without(kind, pools, others, menus.without(pools), solution, loads)
        for kind, pools, others in _kinds(open_pools)
    ]
    if any(option.variant for assignment in assignments.values() for option in assignment.group.menu.options):
        found.append(_without(VARIANTS, (), len(open_pools), menus.without_variants(), solution, loads))
    return tuple(sorted(found, key=lambda lost: (lost.more is not None, -(lost.more or lost.now).micros, lost.kind)))


def _open_pools(solution: BudgetSolution) -> Mapping[PoolId, tuple[Pool, Offering]]:
    pools = solution.inputs.snapshot.pools_of(solution.budget).values()
    return {
        pool.id: (pool, pool.offering)
        for pool in pools
        if pool.offering is not None and pool.quote is not None and not pool.closed_because
    }


def _kinds(pools: Mapping[PoolId, tuple[Pool, Offering]]) -> list[tuple[str, tuple[PoolId, ...], int]]:
    """The kinds of the pools, each with its pools and the number of others; none that has no others."""
    of_kind: dict[str, list[PoolId]] = {}
    for pool, offering in pools.values():
        of_kind.setdefault(_kind_of_gpus(offering.gpu_type), []).append(pool.id)
        if pool.capacity_type is CapacityType.SPOT:
            of_kind.setdefault(SPOT, []).append(pool.id)
    number = len(pools)
    return [(kind, tuple(sorted(names)), number - len(names)) for kind, names in of_kind.items() if len(names) < number]


def _kind_of_gpus(gpu_type: str) -> str:
    profile = slice_profile(gpu_type)
    if not profile:
        return gpu_type
    return SHARED if is_shared(profile) else SLICES


def _without(
    kind: str,
    pools: tuple[PoolId, ...],
    others: int,
    menus: Menus,
    solution: BudgetSolution,
    loads: Mapping[GroupKey, _Load],
) -> WithoutKind:
    """``menus``: those without the kind."""
    snapshot, budget = solution.inputs.snapshot, solution.budget
    left = budget_load(solution.groups, snapshot.profiles, menus, budget, solution.pacing.horizon, solution.now)
    known = {key: assignment.group.menu.known for key, assignment in solution.assignments.items()}
    groups = {
        key: group.in_the_long_run()
        for key, group in left.groups.items()
        if key in loads and (kind != VARIANTS or group.menu.known or not known[key])
    }
    present = [(solution.assignments[key], loads[key]) for key in groups]
    now = sum(load.arrivals * load.factor * assignment.mean_dollars for assignment, load in present)
    life = sum(load.arrivals * assignment.group.weight * assignment.mean_seconds for assignment, load in present)
    remaining = _RemainingPools([(group, loads[key]) for key, group in groups.items()])
    period = period_seconds(solution)
    as_fast = remaining.life(remaining.most) <= life * _EQUAL
    slower: float | None = 1.0
    if as_fast:
        spend = remaining.least_spend(life * _EQUAL)
    else:
        spend = min(max(now, budget.amount.dollars / period), remaining.most)
        slower = remaining.life(spend) / life if spend >= remaining.least else None
    room = pools_hold(remaining.uses(spend), solution)
    return WithoutKind(
        kind=kind,
        pools=pools,
        others=others,
        now=Money.of(now * period),
        more=Money.of(max(spend - now, 0.0) * period) if as_fast and room else None,
        slower=slower,
        more_then=Money.of((spend - now) * period),
        room=room,
        impossible=sum(load.arrivals for key, load in loads.items() if key not in groups),
    )


class _RemainingPools:
    """The jobs that the pools left can run, solved for any spend: dollars a second, from ``least`` to ``most``."""

    def __init__(self, jobs: Sequence[tuple[GroupDemand, _Load]]) -> None:
        self._jobs = jobs
        self._demands = [
            Demand(group.hull.slopes, group.hull.money, load.arrivals * load.factor, group.weight, group.most)
            for group, load in jobs
        ]
        self.least = sum(demand.load * demand.spends[0] for demand in self._demands)
        self.most = sum(demand.load * demand.spends[-1] for demand in self._demands)

    def life(self, spend: float) -> float:
        """Weighted seconds of jobs' lives that begin in a second."""
        found = solve(self._demands, spend)
        return sum(
            load.arrivals * group.weight * seconds_at(found, at, group) for at, (group, load) in enumerate(self._jobs)
        )

    def least_spend(self, life: float) -> float:
        """The smallest spend at which no more weighted seconds begin in a second."""
        if self.life(self.least) <= life:
            return self.least
        return bisect(self.least, self.most, lambda spend: self.life(spend) <= life, _HALVINGS)[1]

    def uses(self, spend: float) -> Mapping[PoolId, float]:
        """GPUs by pool that the jobs hold."""
        found = solve(self._demands, spend)
        return sum_uses(
            use_at(found, at, group, load.arrivals * load.held) for at, (group, load) in enumerate(self._jobs)
        )
