"""Budgets solved together, and what their jobs hold then."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.ids import PoolId
from charterer.incremental import Memo
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.budgets.pool_usage import expected_use, lp_column, sum_uses
from charterer.policy.budgets.solution import BudgetSolution, solve_budget
from charterer.policy.nodes.pool_size import PoolSize, pool_sizes
from charterer.policy.nodes.rental_index import rental_index
from charterer.policy.planner import solve_budgets
from tests.worlds import World


def stood(world: World) -> list[BudgetSolution]:
    """Every budget of the world, solved."""
    return solve_budgets(world.snapshot())


def stood_alone(world: World) -> list[BudgetSolution]:
    """Every budget of the world as it is with room for all, in the same order."""
    inputs = plan_inputs(world.snapshot(), Memo())
    alone = {budget.id: solve_budget(budget, inputs) for budget in world.budgets.values()}
    return [alone[solution.budget.id] for solution in stood(world)]


def rooms_of(world: World) -> Mapping[PoolId, PoolSize]:
    """The room of every pool."""
    snapshot = world.snapshot()
    return pool_sizes(snapshot, rental_index(snapshot.rentals, Memo()))


def held(found: list[BudgetSolution]) -> dict[PoolId, float]:
    """GPUs by pool in the long run, of all jobs."""
    return sum_uses(
        expected_use(
            [
                (taken.fraction, lp_column(taken.path, assignment.group.menu, assignment.group.work).use)
                for taken in assignment.assigned_paths
            ],
            assignment.group.held(assignment.mean_seconds, solution.calibration.of(key[0]).value),
        )
        for solution in found
        for key, assignment in solution.assignments.items()
    )
