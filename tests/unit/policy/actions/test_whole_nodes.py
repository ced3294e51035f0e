"""Few jobs in sight choose together by the whole bill of their nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import ClassId, JobId, Rate
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Money
from charterer.domain.plan import Allocate, Plan, ReasonCode, Rent
from charterer.domain.profile import PowerLaw, SpeedCurve
from charterer.policy import plan
from charterer.policy.explain.alternatives import Comparison, alternatives
from charterer.policy.outlook import whole_nodes
from charterer.policy.planner import solve_budgets
from tests.worlds import World


def world_of(**sizes: int) -> World:
    """Pools of a GPU type each, whose nodes have so many GPUs at $2 each, for jobs of a class that save their work. An
    hour of a job's life is worth half a dollar.
    """
    world = World()
    world.budget()
    world.budgets = {name: replace(each, fixed_rate=Rate(0.5 / 3600.0)) for name, each in world.budgets.items()}
    for name, size in sizes.items():
        world.pool(name, gpus=size, price=f"{2 * size}", gpu_type=name)
    first, *others = sizes
    curve = PowerLaw(0.8, 1.0)
    world.profile("sft", curve, gpu_type=first, work_hours=10, others=[SpeedCurve(name, curve) for name in others])
    return world


def option_of(decided: Plan, name: str) -> tuple[str, int] | None:
    option = decided.jobs[JobId(name)].option
    return None if option is None else (option.pool, option.gpus)


def settle(world: World) -> None:
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    world.passes(900.0)
    world.everything_trains(900.0)


def test_a_job_that_is_alone_on_its_node_takes_all_of_it_and_says_what_that_saves() -> None:
    world = world_of(a100=8)
    world.job("new", gpus=(1, 1, 8), profile="sft", hours_left=10.0)
    decided = plan(world.snapshot())
    assert option_of(decided, "new") == ("a100", 8)
    told = decided.jobs[JobId("new")].reason.message
    assert "nodes are paid for as a whole: with 1 GPU on a100 those of all jobs in sight would cost $129" in told
    assert told.endswith("more, and this job would end 8.1 h later")


def test_a_job_that_cannot_use_a_large_node_goes_to_a_small_one_though_its_gpus_are_as_dear() -> None:
    world = world_of(large=8, small=2)
    world.job("new", gpus=1, profile="sft", hours_left=10.0)
    assert option_of(plan(world.snapshot()), "new") == ("small", 1)


def test_a_job_goes_beside_others_rather_than_onto_a_node_whose_gpus_are_cheaper() -> None:
    world = world_of(a100=8, cheap=8)
    world.pool("cheap", gpus=8, price="12", gpu_type="cheap")
    world.job("there", gpus=4, profile="sft", hours_left=20.0, resize=ResizePolicy.NEVER)
    world.rental("a100")
    world.runs_on("there", "a100-1", gpus=4, speed=3.0)
    world.job("new", gpus=4, profile="sft", hours_left=10.0)
    assert option_of(plan(world.snapshot()), "new") == ("a100", 4)


def test_jobs_that_wait_choose_one_pool_together_where_each_alone_would_not() -> None:
    world = world_of(large=8, small=4)
    world.pool("small", gpus=4, price="9", gpu_type="small")
    for number in range(3):
        world.job(f"new-{number}", gpus=1, profile="sft", hours_left=10.0, age_seconds=float(number))
    rented = sorted(command.pool for command in plan(world.snapshot()).commands if isinstance(command, Rent))
    assert rented == ["small"]


def left_alone() -> World:
    """Two jobs shared a node, and one of them has gone."""
    world = world_of(a100=8)
    world.job("stays", gpus=(1, 4, 8), profile="sft", hours_left=40.0)
    world.rental("a100")
    world.runs_on("stays", "a100-1", gpus=4, speed=3.0)
    return world


def test_a_job_that_is_left_alone_takes_the_rest_of_its_node_and_stays_so() -> None:
    world = left_alone()
    decided = plan(world.snapshot())
    (command,) = decided.commands
    assert isinstance(command, Allocate)
    assert command.reason.code is ReasonCode.MOVE_PAYS
    assert option_of(decided, "stays") == ("a100", 8)
    for _ in range(20):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(900.0)
        world.everything_trains(900.0)
        assert plan(world.snapshot()).commands == ()


def test_where_money_is_short_a_job_is_on_what_makes_all_nodes_cheapest_and_stays_so() -> None:
    """By its share of the node the narrowest width is cheapest: a plan by that would take back what this one gives."""
    world = left_alone()
    world.budgets = {name: replace(each, fixed_rate=None, amount=Money(1)) for name, each in world.budgets.items()}
    decided = plan(world.snapshot())
    assert decided.jobs[JobId("stays")].option is not None
    for _ in range(20):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(900.0)
        world.everything_trains(900.0)
        assert option_of(plan(world.snapshot()), "stays") == ("a100", 8)


def test_a_job_that_never_showed_that_it_saves_stays_and_says_what_would_pay() -> None:
    world = left_alone()
    name = ClassId("team", "sft")
    world.profiles[name] = replace(world.profiles[name], checkpoint_seconds=None)
    world.jobs[JobId("stays")] = replace(world.jobs[JobId("stays")], progress=None)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert "a move to 8 GPUs on a100 would pay, but" in decided.jobs[JobId("stays")].reason.message


@pytest.mark.parametrize(("arrivals", "gpus"), [(1.0, 8), (10.0, 1)])
def test_where_jobs_come_often_others_use_the_rest_of_the_node(arrivals: float, gpus: int) -> None:
    world = world_of(a100=8)
    world.profile("sft", PowerLaw(0.5, 1.0), work_hours=10, arrivals_per_hour=arrivals)
    world.job("new", gpus=(1, 1, 8), profile="sft", hours_left=10.0)
    assert option_of(plan(world.snapshot()), "new") == ("a100", gpus)


@pytest.mark.parametrize(("minutes", "pool"), [(5.0, "large"), (120.0, "small")])
def test_how_often_jobs_come_is_seen_by_those_in_sight_in_a_budgets_first_hours(minutes: float, pool: str) -> None:
    world = world_of(large=8, small=1)
    world.pool("small", gpus=1, price="2.10", gpu_type="small")
    for number in range(4):
        name = f"there-{number}"
        world.job(name, gpus=8, profile="sft", hours_left=20.0, age_seconds=60.0 * minutes * (number + 1))
        rental = world.rental("large")
        world.runs_on(name, rental.id, gpus=8, speed=5.0)
    world.job("new", gpus=1, profile="sft", hours_left=10.0)
    assert option_of(plan(world.snapshot()), "new") == (pool, 1)


def test_where_many_jobs_are_in_sight_each_has_what_is_best_at_its_part_of_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of(large=8, small=2)
    world.pool("small", gpus=2, price="4.10", gpu_type="small")
    world.job("new", gpus=1, profile="sft", hours_left=10.0)
    assert option_of(plan(world.snapshot()), "new") == ("small", 1)
    monkeypatch.setattr(whole_nodes, "_MOST", 0)
    assert option_of(plan(world.snapshot()), "new") == ("large", 1)


def test_a_job_with_a_maximum_cost_chooses_by_what_it_is_charged_for() -> None:
    world = world_of(a100=8)
    world.job("new", gpus=(1, 1, 8), profile="sft", hours_left=10.0, max_cost="24")
    decided = option_of(plan(world.snapshot()), "new")
    assert decided is not None
    assert decided[1] < 8


def test_nodes_that_were_rented_for_what_was_chosen_do_not_change_it() -> None:
    world = world_of(large=8, small=4)
    for number in range(5):
        world.job(f"new-{number}", gpus=(1, 1, 4), profile="sft", hours_left=3.0 + number, age_seconds=float(number))
    first = plan(world.snapshot())
    chosen = {name: verdict.option for name, verdict in first.jobs.items()}
    world.carry_out(first)
    second = plan(world.snapshot())
    assert second.commands == ()
    assert {name: verdict.option for name, verdict in second.jobs.items()} == chosen


def test_explain_counts_what_of_the_node_stays_empty() -> None:
    world = world_of(a100=8)
    world.job("new", gpus=(1, 1, 8), profile="sft", hours_left=10.0)
    snapshot = world.snapshot()
    found = alternatives(
        snapshot.jobs[JobId("new")], plan(snapshot).jobs[JobId("new")], Comparison.of(solve_budgets(snapshot)[0])
    )
    assert found is not None
    rows = {row.option.gpus: row for row in found.rows}
    assert rows[8].empty == 0.0
    assert rows[1].empty == pytest.approx(7 * rows[1].dollars, rel=1e-4)
    assert found.chosen is rows[8]
