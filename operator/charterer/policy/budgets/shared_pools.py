"""Pools that are too small for what every budget would choose by itself: budgets are solved together there.

Every budget is solved alone first (``solution``), as if there were room for all. If the pools have room for what all of
that would hold in the long run, it is the answer, to the last bit. Otherwise the linear program of ``solve.scarcity``
allocates room and money together, and jobs choose by its exchange rates and with its prices on top of their bills.

Budgets that only observe share what the enforcing ones leave, as when the plan is carried out. Budgets that are being
deleted, or whose exchange rate is fixed, do not take part: what they would hold is subtracted from the room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.snapshot import Snapshot
from charterer.policy.budgets.pool_program import BudgetOutcome, PoolProgram
from charterer.policy.budgets.pool_usage import expected_use, fits_into, sum_uses, use_of
from charterer.policy.budgets.solution import BudgetSolution
from charterer.policy.nodes.pool_size import pool_sizes
from charterer.policy.nodes.rental_index import RentalIndex
from charterer.policy.solve.linear_program import SolverGaveUp


def solve_with_pool_limits(
    alone: Sequence[BudgetSolution], snapshot: Snapshot, rentals: RentalIndex
) -> list[BudgetSolution]:
    """The budgets, each solved alone, as they are with the room there is; in the same order.

    Where the solver gives up they stay as they are alone: pools have no price, and jobs wait for the full ones in turn.
    """
    if not any(_chooses(solution) for solution in alone):
        return [*alone]
    sizes = pool_sizes(snapshot, rentals)
    left = {pool: float(size.gpus) for pool, size in sizes.items()}
    held: dict[BudgetId, Mapping[PoolId, float]] = {solution.budget.id: _uses(solution) for solution in alone}
    solutions = {solution.budget.id: solution for solution in alone}
    _subtract(left, *(held[solution.budget.id] for solution in alone if not _chooses(solution)))
    for mode in (Mode.ENFORCE, Mode.OBSERVE):
        together = [solution.budget.id for solution in alone if _chooses(solution) and solution.budget.mode is mode]
        shared = dict(left)
        _subtract(left, *(held[name] for name in together))
        if not fits_into(sum_uses(held[name] for name in together), shared):
            try:
                program = PoolProgram([solutions[name] for name in together], shared)
            except SolverGaveUp:
                continue
            for name in together:
                solutions[name] = program.read(solutions[name], sizes, snapshot.now)
                held[name] = program.uses(name)
            left = dict(shared)
            _subtract(left, *(held[name] for name in together))
        for name in together:
            room = dict(shared)
            _subtract(room, *(held[other] for other in together if other != name))
            solutions[name] = replace(solutions[name], room=room)
    return [solutions[solution.budget.id] for solution in alone]


def budget_outcome(solution: BudgetSolution, allowed: float) -> BudgetOutcome:
    """The solution of a budget for ``allowed`` dollars a second in the room that the others leave it now.

    Where the solver gives up, as if there were room for all.
    """
    paid = replace(solution, allowed=allowed, planned=min(solution.planned, allowed))
    try:
        program = PoolProgram([paid], solution.room)
    except SolverGaveUp:
        program = PoolProgram([paid], {})
    return program.outcome(solution.budget.id)


def _chooses(solution: BudgetSolution) -> bool:
    """Whether the budget's exchange rate is to be solved for."""
    return solution.budget.fixed_rate is None and not solution.budget.deleting


def _subtract(room: dict[PoolId, float], *uses: Mapping[PoolId, float]) -> None:
    for pool in room:
        room[pool] = max(room[pool] - sum(use.get(pool, 0.0) for use in uses), 0.0)


def _uses(solution: BudgetSolution) -> dict[PoolId, float]:
    """GPUs by pool that the budget's jobs hold in the long run; where money is short, of those that are paid for."""
    paid = solution.feasible or not solution.planned
    served = 1.0 if paid else min(solution.allowed / solution.planned, 1.0)
    return sum_uses(
        expected_use(
            (
                (assigned.fraction, use_of(assigned.path, assigned.seconds, assignment.group))
                for assigned in assignment.assigned_paths
            ),
            assignment.group.held(assignment.mean_seconds, solution.calibration.of(key[0]).value) * served,
        )
        for key, assignment in solution.assignments.items()
    )
