"""Pools that are too small: what their room is worth, who gets it, and that nobody pays for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import Mode
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import Money
from charterer.domain.plan import Allocate, Limit, Plan, Rent
from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.budgets.pool_program import PoolProgram
from charterer.policy.budgets.pool_usage import lp_column, sum_uses
from charterer.policy.explain.frontier import Frontier
from charterer.policy.options.option_value import JobPosition
from charterer.policy.planner import plan
from charterer.policy.solve.linear_program import SolverGaveUp
from charterer.policy.solve.phase_dp import key_of
from tests import factory
from tests.contention import held, rooms_of, stood
from tests.worlds import World

NEAR, FAR, TEAM = PoolId("near"), PoolId("far"), BudgetId("research")


def crowd(near: int = 3, jobs: int = 6, amount: str = "60000", *, arrivals: float | None = None) -> World:
    """A cheap pool of a few nodes and a dearer one of many; one class scales well, the other badly."""
    world = World()
    world.budget("research", amount=amount)
    world.pool("near", price="16", max_nodes=near)
    world.pool("far", price="24", max_nodes=50)
    for name, parallel in (("wide", 0.97), ("narrow", 0.9)):
        curve = SpeedCurve("far", Amdahl(parallel, 1.05))
        form = Amdahl(parallel, 1.0)
        world.profile(name, form, gpu_type="near", work_hours=20, arrivals_per_hour=arrivals, others=[curve])
    for number in range(jobs):
        world.job(f"j{number}", gpus=(1, 8, 32), profile="wide" if number % 2 else "narrow")
    return world


def pools_of(decided: Plan) -> dict[str, str]:
    return {name: verdict.option.pool for name, verdict in decided.jobs.items() if verdict.option is not None}


def settled(world: World, turns: int = 4) -> World:
    for _ in range(turns):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(1.0)
    return world


def test_where_the_solver_gives_up_budgets_stay_as_they_are_alone_and_all_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gives_up(*program: object) -> None:
        raise SolverGaveUp("status unknown")

    assert plan(crowd().snapshot()).pools
    monkeypatch.setattr("charterer.policy.solve.column_generation.minimise", gives_up)
    monkeypatch.setattr("charterer.policy.solve.allocation_program.minimise", gives_up)
    decided = plan(crowd().snapshot())
    assert not decided.pools
    assert any(isinstance(command, Rent) for command in decided.commands)
    assert set(decided.jobs) == set(crowd().jobs)


def test_where_there_is_room_for_all_no_pool_has_a_price_and_a_larger_one_changes_nothing() -> None:
    decided = plan(crowd(near=40).snapshot())
    assert decided.pools == {}
    assert decided == plan(crowd(near=80).snapshot())
    (found,) = stood(crowd(near=40))
    assert found.scarce == {}
    assert all(
        taken.values.charge is None for assignment in found.assignments.values() for taken in assignment.assigned_paths
    )


def test_a_full_pool_has_a_price_and_jobs_spill_into_the_dearer_one() -> None:
    decided = plan(crowd().snapshot())
    verdict = decided.pools[NEAR]
    assert (verdict.limit, verdict.nodes, verdict.short) == (Limit.MAX_NODES, 3, False)
    assert verdict.scarcity.micros_per_hour > 0
    assert verdict.node_scarcity.micros_per_hour == pytest.approx(8 * verdict.scarcity.micros_per_hour, abs=8)
    assert set(pools_of(decided).values()) == {"near", "far"}
    assert FAR not in decided.pools


def test_declared_load_fits_into_the_pool_in_the_long_run() -> None:
    found = stood(crowd(arrivals=1.0, amount="100000"))
    assert held(found)[NEAR] == pytest.approx(24.0)


def test_jobs_in_sight_fit_into_the_pool_at_what_they_are_given() -> None:
    found = stood(crowd(near=2, jobs=14, amount="200000"))
    (solution,) = found
    given = sum(
        assignment.group.active
        * sum(taken.fraction * taken.path[0].gpus for taken in assignment.assigned_paths if taken.path[0].pool == NEAR)
        for assignment in solution.assignments.values()
    )
    assert solution.scarce[NEAR].price > 0.0
    assert given <= 16.0 * 1.25


def test_scarcity_is_on_no_bill() -> None:
    world = crowd(near=2, amount="80000")
    decided = plan(world.snapshot())
    assert decided.pools
    for command in decided.commands:
        if isinstance(command, Rent):
            quote = world.pools[command.pool].quote
            assert quote is not None
            assert command.worst == quote.worst
    settled(world)
    bare = {"near": 2_000_000, "far": 3_000_000}
    for job in world.jobs.values():
        assert job.allocation is not None
        option = job.allocation.option
        assert option.price.micros_per_hour == option.gpus * bare[option.pool]
    (solution,) = stood(world)
    for assignment in solution.assignments.values():
        for taken in assignment.assigned_paths:
            assert taken.dollars == pytest.approx(
                lp_column(taken.path, assignment.group.menu, assignment.group.work).money
            )


def test_what_a_job_is_predicted_to_cost_is_its_bill() -> None:
    world = crowd(near=1, jobs=2, arrivals=2.0)
    world.carry_out(plan(world.snapshot()))
    for rental in world.rentals:
        world.becomes_ready(rental)
    decided = plan(world.snapshot())
    placed = [
        command for command in decided.commands if isinstance(command, Allocate) and command.allocation is not None
    ]
    assert placed
    (one,) = stood(world)
    for command in placed:
        job = world.jobs[command.job]
        assignment = one.assignment(job)
        assert assignment is not None
        assert command.predicted is not None
        assert command.allocation is not None
        projections = {
            key_of(projection.option): projection for projection in assignment.values.entering(assignment.position(job))
        }
        projection = projections[key_of(command.allocation.option)]
        assert command.predicted.dollars == pytest.approx(projection.dollars, abs=1e-6)
        assert projection.total_cost == pytest.approx(
            assignment.values.worth * projection.seconds + projection.dollars + projection.room_dollars
        )
    assert any(
        projection.room_dollars > 0.0
        for s in one.assignments.values()
        for projection in s.values.entering(JobPosition(s.group.work))
    )


def test_budgets_that_contest_a_pool_fill_it_at_one_price() -> None:
    world = World()
    for name, amount in (("poor", "9000"), ("rich", "30000")):
        world.budget(name, amount=amount)
        curve = SpeedCurve("far", Amdahl(0.97, 0.5))
        profile = f"{name}-wide"
        form = Amdahl(0.97, 1.0)
        world.profile(profile, form, gpu_type="near", work_hours=20, arrivals_per_hour=0.5, others=[curve], budget=name)
        for number in range(2):
            world.job(f"{name}-{number}", gpus=(1, 8, 32), profile=profile, budget=name)
    world.pool("near", price="16", max_nodes=3)
    world.pool("far", price="16", max_nodes=50)
    found = {solution.budget.id: solution for solution in stood(world)}
    parts = {name: sum_uses([held([solution])]).get(NEAR, 0.0) for name, solution in found.items()}
    assert found[BudgetId("rich")].rate > found[BudgetId("poor")].rate
    (price,) = {solution.scarce[NEAR].verdict.scarcity for solution in found.values()}
    assert price.micros_per_hour > 0
    assert sum(parts.values()) == pytest.approx(24.0)


def test_who_only_observes_takes_nothing_from_anybody() -> None:
    world = crowd(arrivals=1.0, amount="100000")
    alone = stood(world)[0]
    world.budget("watching", amount="900000", mode=Mode.OBSERVE)
    for number in range(6):
        world.job(f"w{number}", gpus=(1, 8, 32), profile="wide", budget="watching")
    found = {solution.budget.id: solution for solution in stood(world)}
    assert found[TEAM].rate == pytest.approx(alone.rate)
    assert found[TEAM].scarce[NEAR].price == pytest.approx(alone.scarce[NEAR].price)
    assert held([found[BudgetId("watching")]]).get(NEAR, 0.0) == pytest.approx(0.0, abs=1e-6)


def test_a_pool_that_had_no_node_to_give_is_as_large_as_what_it_has_until_it_gives_one_again() -> None:
    world = crowd(near=50)
    world.rental("near")
    assert rooms_of(world)[NEAR].nodes == 50
    pool = world.pools[NEAR]
    cooling = replace(pool, cooled=factory.cooled(after(world.now, 300.0), 600.0))
    world.pools[NEAR] = cooling
    world.rentals = {
        name: replace(rental, launched=after(world.now, -3600.0)) for name, rental in world.rentals.items()
    }
    room = rooms_of(world)[NEAR]
    assert (room.nodes, room.limit) == (1, Limit.STOCK)
    world.passes(700.0)
    assert rooms_of(world)[NEAR].nodes == 1
    given = {name: replace(rental, launched=world.now) for name, rental in world.rentals.items()}
    before, world.rentals = world.rentals, given
    assert rooms_of(world)[NEAR].nodes == 50
    world.rentals = before
    world.passes(600.0)
    assert rooms_of(world)[NEAR].nodes == 50


@pytest.mark.parametrize("near", [2, 3, 4])
def test_small_changes_move_nobody(near: int) -> None:
    world = settled(crowd(near=near, jobs=8, amount="80000"))
    assert plan(world.snapshot()).pools
    runs = {name: job.allocation for name, job in world.jobs.items()}
    for turn in range(12):
        world.passes(60.0)
        factor = 1.0 + 0.01 * (-1) ** turn
        budget = world.budgets[TEAM]
        world.budgets[TEAM] = replace(budget, amount=Money(round(budget.amount.micros * factor)))
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        assert {name: job.allocation for name, job in world.jobs.items()} == runs


def test_a_memo_makes_no_difference() -> None:
    memo = Memo()
    for near in (3, 2, 40, 1):
        snapshot = crowd(near=near).snapshot()
        assert plan(snapshot, memo) == plan(snapshot)


def test_more_money_buys_less_where_a_pool_is_full() -> None:
    small, large = (Frontier(stood(crowd(near=near, arrivals=1.0, amount="100000"))[0]) for near in (2, 80))
    amounts = [Money.parse("100000"), Money.parse("400000")]
    as_planned = small.at(Money.parse("200000"))  # half the month is over, and nothing of it is spent
    assert as_planned.rate == pytest.approx(stood(crowd(near=2, arrivals=1.0, amount="100000"))[0].rate)
    for amount in amounts:
        slow, fast = small.at(amount).mean_seconds, large.at(amount).mean_seconds
        assert slow is not None
        assert fast is not None
        assert slow >= fast
    one, other = (frontier.at(amounts[0]).mean_seconds for frontier in (small, large))
    assert one is not None
    assert other is not None
    assert one > other


@pytest.mark.parametrize("jobs", [5, 6, 7, 9])
def test_a_full_pools_room_is_what_the_budgets_are_counted_with(jobs: int) -> None:
    """Loads of jobs in sight follow from their options; what a budget leaves to others is of the loads solved with."""
    [solution] = stood(crowd(jobs=jobs))
    program = PoolProgram([solution], {NEAR: 24.0, FAR: 400.0})
    assert solution.scarce[NEAR].price > 0.0
    assert program.uses(TEAM)[NEAR] == pytest.approx(24.0, rel=1e-6)


def test_the_load_of_jobs_in_sight_is_littles_law_at_the_mean_of_their_paths() -> None:
    assignment = next(iter(stood(crowd())[0].assignments.values()))
    path = assignment.assigned_paths[0]
    mixed = replace(
        assignment,
        assigned_paths=(replace(path, fraction=0.25, seconds=100.0), replace(path, fraction=0.75, seconds=20.0)),
    )
    assert mixed.mean_seconds == pytest.approx(40.0)
    assert mixed.group.held(mixed.mean_seconds, kappa=1.0) == pytest.approx(assignment.group.active / 40.0)
