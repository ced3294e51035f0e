"""What is said of one budget agrees with itself in random worlds: its verdict, its jobs, its state, its frontier."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import Mode
from charterer.domain.job import Job
from charterer.domain.money import Money
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.profile import Amdahl
from charterer.policy.planner import plan, solve_budgets
from charterer.policy.solve.hull import BudgetFit
from charterer.tools.commands.plan.document import budget_state
from charterer.tools.frontier import Frontier
from tests import lanes
from tests.worlds import World


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One or two budgets, young or old, rich or poor; classes with and without a known load; pools that may be full."""
    world = World()
    names = ["left", "right"][: draw(st.integers(1, 2))]
    for name in names:
        world.budget(
            name,
            amount=draw(st.sampled_from(["0", "100", "5000", "60000", "1000000"])),
            spent=draw(st.sampled_from(["0", "90", "20000"])),
            ceiling=draw(st.sampled_from([None, None, "5", "500"])),
        )
    for pool in ("near", "far"):
        world.pool(
            pool,
            gpus=draw(st.sampled_from([1, 4, 8])),
            price=draw(st.sampled_from(["3.2", "12.8", "40"])),
            max_nodes=draw(st.sampled_from([1, 3, 100])),
            start_seconds=draw(st.sampled_from([0.0, 120.0])),
        )
    for number in range(draw(st.integers(1, 6))):
        profile = f"class-{number}" if draw(st.booleans()) else None
        if profile is not None:
            world.profile(
                profile,
                Amdahl(draw(st.sampled_from([0.5, 0.9, 0.99])), 1.0),
                gpu_type=draw(st.sampled_from(["near", "far"])),
                work_hours=draw(st.sampled_from([0.5, 4.0, 100.0])),
                arrivals_per_hour=draw(st.sampled_from([None, 0.1, 3.0])),
            )
        gpus = draw(st.sampled_from([(1, 4, 16), (4, 4, 4), (1, 1, 1)]))
        world.job(f"j{number}", gpus=gpus, profile=profile, budget=draw(st.sampled_from(names)))
    if draw(st.booleans()):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(draw(st.sampled_from([60.0, 86_400.0])))
    return world


def waits_for_money(decided: Plan, job: Job) -> bool:
    verdict = decided.jobs.get(job.id)
    return verdict is not None and verdict.reason.code is ReasonCode.WAITING_FOR_BUDGET


@settings(max_examples=lanes.examples(50))
@given(worlds())
def test_nothing_that_is_said_of_a_budget_contradicts_anything_else(world: World) -> None:
    snapshot = world.snapshot()
    decided = plan(snapshot)
    for solution in solve_budgets(snapshot):
        budget, verdict = solution.budget, decided.budgets[solution.budget.id]
        frontier = Frontier(solution)
        state, _ = budget_state(solution, frontier)
        waiting = [job.id for job in world.jobs.values() if job.budget == budget.id and waits_for_money(decided, job)]
        assert verdict.feasible == solution.feasible
        assert verdict.rate in (None, solution.rate)
        assert budget.mode is Mode.OBSERVE or verdict.feasible or not verdict.rate
        if waiting:
            assert not verdict.feasible, f"{waiting} wait for money of a budget that has enough: {state}"
        if "too small" in state:
            assert not verdict.feasible
        if frontier.empty or not solution.allowed:
            continue
        now = frontier.at(Money.of(solution.allowed * frontier.period_seconds))
        if "more than can be used" in state:
            assert solution.planned <= solution.allowed
        if "keep coming" in state:  # the frontier is that of the long run, the rate is that of the present jobs
            assert now.fit is BudgetFit.INFEASIBLE or now.served < 1.0


def test_a_budget_with_enough_money_is_not_too_small_because_loads_in_sight_jump() -> None:
    world = World()
    world.budget("left", amount="5000")
    world.budget("right", amount="100")
    world.pool("near", gpus=1, price="3.2", max_nodes=1, start_seconds=0.0)
    world.pool("far", gpus=4, price="12.8", max_nodes=100, start_seconds=120.0)
    for name, parallel, gpu_type, hours, arrivals in (
        ("class-0", 0.5, "far", 0.5, None),
        ("class-2", 0.5, "far", 0.5, None),
        ("class-3", 0.5, "near", 0.5, 0.1),
        ("class-4", 0.99, "far", 4.0, None),
    ):
        world.profile(name, Amdahl(parallel, 1.0), gpu_type=gpu_type, work_hours=hours, arrivals_per_hour=arrivals)
    for number, budget in enumerate(("left", "right", "right", "left", "left")):
        world.job(f"j{number}", gpus=(1, 4, 16), profile=None if number == 1 else f"class-{number}", budget=budget)
    world.job("j5", gpus=(1, 1, 1), budget="right")
    left = next(solution for solution in solve_budgets(world.snapshot()) if solution.budget.id == "left")
    assert left.feasible
    assert left.planned < left.allowed
    assert "too small" not in budget_state(left, Frontier(left))[0]
