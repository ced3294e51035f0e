"""What a GPU-second of a pool is worth to the jobs that are expected to come there.

A job that waits for GPUs of a pool takes them from jobs that come later. Let jobs for which the pool is best come λ_i a
second, be there for a_i seconds with u_i GPU-seconds, and lose d_i dollars, time included, on the next best pool. With
room for c of them, places are in use for the fraction P of the time (Erlang's loss formula), and a GPU-second is worth

    P·Σ λ_i·d_i / Σ λ_i·u_i          P = A·(1 − B)/c      A = Σ λ_i·a_i      B = (A^c/c!) / Σ_{k≤c} A^k/k!

Without it all would wait until waiting is as bad as the next best pool, and nobody would gain by the good one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import PoolId
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.pool_size import pool_sizes
from charterer.policy.options.option_value import JobPosition

_NOBODY = 1e-9
"""A chance to find no place that is as good as none."""


@dataclass(slots=True)
class _Coming:
    """The sums over the jobs that come to a pool: Σ λ·d, Σ λ·u and Σ λ·a."""

    lost: float = 0.0
    gpus: float = 0.0
    jobs: float = 0.0


def room_prices(solution: BudgetSolution) -> Mapping[PoolId, float]:
    """Dollars, time included, of a GPU-second of the pools to which jobs are counted on to come."""
    coming: dict[PoolId, _Coming] = {}
    for assignment in solution.assignments.values():
        if assignment.group.foreseen:
            _add(assignment, coming)
    if not coming:
        return {}
    sizes = pool_sizes(solution.inputs.snapshot, solution.inputs.rentals)
    return {
        pool: used(sums.jobs, max(int(sizes[pool].gpus * sums.jobs / sums.gpus), 1)) * sums.lost / sums.gpus
        for pool, sums in coming.items()
        if pool in sizes and sums.gpus
    }


def used(offered: float, places: int) -> float:
    """The fraction of the time for which a place is in use, if who finds none goes elsewhere (Erlang's loss formula).

    ``offered``: how many would be in use if there were places for all.
    """
    turned_away = 1.0
    for place in range(1, places + 1):
        turned_away = offered * turned_away / (place + offered * turned_away)
        if turned_away < _NOBODY:
            break
    return offered * (1.0 - turned_away) / places


def _add(assignment: GroupAssignment, coming: dict[PoolId, _Coming]) -> None:
    """Add a group's jobs to come to the pool that is best for them.

    They lose no more than their life there, because where no other pool is as good they wait.
    """
    rate, values = assignment.group.foreseen, assignment.values
    ends = values.entering(JobPosition(assignment.group.work))
    best = ends[0]
    other = min([end.total_cost for end in ends if end.option.pool != best.option.pool], default=inf)
    sums = coming.setdefault(best.option.pool, _Coming())
    sums.lost += rate * min(other - best.total_cost, values.worth * best.seconds)
    sums.gpus += rate * best.option.takes * best.seconds
    sums.jobs += rate * best.seconds
