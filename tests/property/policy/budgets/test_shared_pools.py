"""Laws of what budgets get where pools are too small, in random worlds, and against HiGHS."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from charterer.domain.profile import Amdahl, SpeedCurve
from charterer.policy.budgets.pool_program import PoolProgram
from charterer.policy.budgets.pool_usage import path_usages
from charterer.policy.planner import plan
from tests.contention import held, rooms_of, stood, stood_alone
from tests.worlds import World

POOLS = ("a", "b", "c")
CEILING = 0.02
"""Dollars that a second may cost: above some options here and below others."""


@st.composite
def worlds(draw: st.DrawFn, budgets: int = 2) -> World:
    """Declared loads of classes that run on some of three pools, whose nodes may be few."""
    world = World()
    names = [f"team-{number}" for number in range(draw(st.integers(1, budgets)))]
    for name in names:
        world.budget(name, amount=draw(st.sampled_from(["4000", "20000", "60000"])), ceiling=str(CEILING * 3600))
    for pool in POOLS:
        price = draw(st.sampled_from(["10", "16", "30"]))
        world.pool(pool, price=price, max_nodes=draw(st.sampled_from([1, 2, 4, 60])))
    for number in range(draw(st.integers(1, 4))):
        curves = [
            SpeedCurve(pool, Amdahl(draw(st.sampled_from([0.7, 0.95, 0.99])), draw(st.sampled_from([0.5, 1.0, 1.6]))))
            for pool in draw(st.lists(st.sampled_from(POOLS), min_size=1, max_size=3, unique=True))
        ]
        profile = world.profile(
            f"class-{number}",
            curves[0].form,
            gpu_type=curves[0].gpu_type,
            work_hours=draw(st.sampled_from([2.0, 10.0])),
            arrivals_per_hour=draw(st.sampled_from([0.2, 1.0, 3.0])),
            others=curves[1:],
        )
        budget = draw(st.sampled_from(names))
        world.job(f"j{number}", gpus=(1, 4, 32), profile=profile.id.name, budget=budget)
    return world


@settings(max_examples=60)
@given(worlds())
def test_no_pool_is_exceeded_and_only_full_ones_have_a_price(world: World) -> None:
    found = stood(world)
    if not all(solution.feasible for solution in found) or any(
        s.verdict.short for solution in found for s in solution.scarce.values()
    ):
        return  # who waits is not told by a solution; tests/property/test_scarcity.py has it
    room, uses = rooms_of(world), held(found)
    for pool, much in uses.items():
        assert much <= room[pool].gpus * (1.0 + 1e-7)
    for solution, alone in zip(found, stood_alone(world), strict=True):
        assert solution.planned <= max(solution.allowed, alone.planned) * (1.0 + 1e-7)
        for pool, scarce in solution.scarce.items():
            assert scarce.price > 0.0
            assert uses[pool] == pytest.approx(room[pool].gpus, rel=1e-6)


@st.composite
def crowded(draw: st.DrawFn) -> World:
    """Many jobs in sight of one or two budgets that may be poor, and few nodes."""
    world = World()
    names = [f"team-{number}" for number in range(draw(st.integers(1, 2)))]
    for name in names:
        world.budget(name, amount=draw(st.sampled_from(["300", "2000", "10000", "40000"])))
    for pool in POOLS[: draw(st.integers(1, 3))]:
        world.pool(pool, price=draw(st.sampled_from(["4", "10", "30"])), max_nodes=draw(st.sampled_from([1, 2, 8])))
    curves = [SpeedCurve(pool, Amdahl(0.95, 1.0)) for pool in world.pools]
    for number in range(draw(st.integers(1, 3))):
        hours, profile = draw(st.sampled_from([2.0, 20.0, 150.0, 1000.0])), f"class-{number}"
        arrivals = draw(st.sampled_from([None, None, 0.2]))
        world.profile(
            profile,
            curves[0].form,
            gpu_type=curves[0].gpu_type,
            work_hours=hours,
            arrivals_per_hour=arrivals,
            others=curves[1:],
        )
        for job in range(draw(st.sampled_from([1, 5, 20]))):
            world.job(f"j{number}-{job}", gpus=(1, 4, 16), profile=profile, budget=draw(st.sampled_from(names)))
    return world


@settings(max_examples=60)
@given(crowded())
def test_a_budget_that_cannot_pay_its_cheapest_options_pays_for_no_second_in_a_full_pool_either(world: World) -> None:
    alone = {solution.budget.id: solution for solution in stood_alone(world)}
    for solution in stood(world):
        if solution.assignments and not alone[solution.budget.id].rate:
            assert solution.rate == 0.0
            assert (solution.feasible, solution.surplus) == (alone[solution.budget.id].feasible, False)


@settings(max_examples=40)
@given(worlds())
def test_rooms_that_do_not_bind_change_nothing(world: World) -> None:
    world.pools = {name: replace(pool, max_nodes=10_000) for name, pool in world.pools.items()}
    assert not plan(world.snapshot()).pools
    assert all(
        taken.values.charge is None
        for solution in stood(world)
        for s in solution.assignments.values()
        for taken in s.assigned_paths
    )


@settings(max_examples=40)
@given(worlds(budgets=1))
def test_one_budget_gets_the_least_time_that_its_money_and_the_room_allow(world: World) -> None:
    (found,) = stood(world)
    if not found.feasible or not found.scarce or any(scarce.verdict.short for scarce in found.scarce.values()):
        return
    long_run = found.in_the_long_run()
    program = PoolProgram([long_run], {pool: float(each.gpus) for pool, each in rooms_of(world).items()})
    solution = program.read(long_run, rooms_of(world), world.now)
    if not solution.feasible or any(scarce.verdict.short for scarce in solution.scarce.values()):
        return
    assignments = list(solution.assignments.items())
    ways = [
        (number, usage.column)
        for number, (_, assignment) in enumerate(assignments)
        for usage in path_usages(assignment.group.menu, assignment.group.work, None)
    ]
    room = rooms_of(world)
    rows = [[assignments[number][1].arrivals * way.money for number, way in ways]]
    rows += [[assignments[number][1].arrivals * way.use.get(pool, 0.0) for number, way in ways] for pool in room]
    limits = [max(solution.allowed, long_run.planned), *(float(each.gpus) for each in room.values())]
    best = linprog(
        [assignments[number][1].arrivals * (way.seconds + way.money / CEILING) for number, way in ways],
        A_ub=rows,
        b_ub=limits,
        A_eq=[[float(number == of) for number, _ in ways] for of in range(len(assignments))],
        b_eq=[1.0] * len(assignments),
        method="highs",
    )
    got = sum(
        assignment.arrivals
        * sum(taken.fraction * (taken.seconds + taken.dollars / CEILING) for taken in assignment.assigned_paths)
        for _, assignment in assignments
    )
    assert got == pytest.approx(best.fun, rel=1e-7)
