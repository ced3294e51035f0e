"""Which nodes are rented, shared and given back, as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import BudgetId, JobId, NodeName, Rate
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.rental import RentalPhase
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import STEEP, placed, releases, rents, settle, simple, why
from tests.worlds import World


def test_small_jobs_share_a_node_and_only_one_is_rented() -> None:
    world = simple()
    for number in range(4):
        world.job(f"j{number}", gpus=2)
    assert rents(plan(world.snapshot())) == ["a100-1"]
    settle(world)
    homes = {job.allocation.placements[0].rental for job in world.jobs.values() if job.allocation}
    assert homes == {"a100-1"}


def test_nothing_more_is_rented_while_enough_nodes_boot() -> None:
    world = simple()
    world.job("train", gpus=16)
    world.carry_out(plan(world.snapshot()))
    assert len(world.rentals) == 2
    assert plan(world.snapshot()).commands == ()
    world.launches("a100-1")
    assert plan(world.snapshot()).commands == ()


def test_a_waiting_job_takes_a_ready_node_that_was_rented_for_another() -> None:
    world = simple()
    world.job("first", gpus=8)
    world.carry_out(plan(world.snapshot()))
    world.job("heavier", gpus=8, weight=10.0)
    world.launches("a100-1")
    world.becomes_ready("a100-1")
    decided = plan(world.snapshot())
    assert placed(decided) == {"heavier": 8}
    assert rents(decided) == ["a100-2"]
    assert why(decided, "first") is ReasonCode.WAITING_FOR_NODE


def test_a_job_goes_into_the_fullest_node_that_fits() -> None:
    world = simple()
    for _ in range(2):
        world.rental()
    world.job("there", gpus=4, age_seconds=100)
    world.runs_on("there", "a100-2", gpus=4)
    world.job("new", gpus=2)
    decided = plan(world.snapshot())
    command = next(item for item in decided.commands if isinstance(item, Allocate))
    assert command.allocation is not None
    assert command.allocation.placements[0].rental == "a100-2"
    assert releases(decided) == {"a100-1": ReasonCode.IDLE}


def test_an_idle_node_is_released_at_once_but_not_before_its_paid_minimum_has_passed() -> None:
    world = simple()
    world.pool("a100", billing_minimum=3600)
    rental = world.rental(age=1800.0)
    assert rental.launched is not None
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at == after(rental.launched, 3600)
    world.passes(1800)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.IDLE}


def test_a_check_that_has_no_answer_keeps_an_idle_node_for_a_minute_only() -> None:
    world = simple()
    world.rental()
    name = world.job("new", gpus=8, age_seconds=59).id
    world.jobs[name] = replace(world.jobs[name], checking=True)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at == after(world.now, 1)
    world.passes(1)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.IDLE}


def test_a_booting_node_that_nobody_needs_any_more_is_released() -> None:
    world = simple()
    world.job("train", gpus=8)
    world.carry_out(plan(world.snapshot()))
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], suspend=True)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.NOT_NEEDED}


def test_a_node_is_not_idle_while_pods_of_a_stopping_run_are_on_it() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], suspend=True)
    world.carry_out(plan(world.snapshot()))
    assert plan(world.snapshot()).commands == ()
    world.stops("train")
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.IDLE}


@pytest.mark.parametrize("trouble", ["ready", "unschedulable", "deleting"])
def test_a_node_in_trouble_takes_no_new_pods(trouble: str) -> None:
    world = simple()
    world.rental()
    node = world.nodes[NodeName("n-a100-1")]
    world.nodes[node.name] = replace(
        node,
        ready=trouble != "ready",
        unschedulable=trouble == "unschedulable",
        deleting=trouble == "deleting",
    )
    world.job("train", gpus=8)
    assert rents(plan(world.snapshot())) == ["a100-2"]


def test_gpus_of_foreign_pods_are_not_given_away() -> None:
    world = simple()
    world.rental()
    node = world.nodes[NodeName("n-a100-1")]
    world.nodes[node.name] = replace(node, foreign_gpus=1)
    world.job("whole", gpus=8)
    world.job("part", gpus=4)
    decided = plan(world.snapshot())
    assert placed(decided) == {"part": 4}
    assert rents(decided) == ["a100-2"]


def test_names_of_rentals_that_still_exist_are_not_used_again() -> None:
    world = simple()
    world.rental(phase=RentalPhase.DRAINING)
    world.job("train", gpus=16)
    assert rents(plan(world.snapshot())) == ["a100-2", "a100-3"]


def at_a_fixed_rate() -> World:
    """A budget that pays $40 for each hour of a job's life, whatever is spent."""
    world = simple()
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(40.0 / 3600.0))
    return world


@pytest.mark.parametrize(("seconds", "width"), [(60.0, 16), (100.0, 16), (140.0, 16), (240.0, 8)])
def test_a_job_waits_for_the_last_of_its_nodes_while_it_is_about_to_come(seconds: float, width: int) -> None:
    world = at_a_fixed_rate()
    world.job("short", gpus=(8, 16, 16), profile="sft", hours_left=0.5)
    world.carry_out(plan(world.snapshot()))
    assert sorted(world.rentals) == ["a100-1", "a100-2"]
    for rental in ("a100-1", "a100-2"):
        world.launches(rental)
    world.passes(seconds)
    world.becomes_ready("a100-1")
    decided = plan(world.snapshot())
    option = decided.jobs[JobId("short")].option
    assert option is not None
    assert option.gpus == width
    assert list(releases(decided)) == ([] if width == 16 else ["a100-2"])


def test_a_job_that_has_a_node_to_itself_begins_as_wide_as_it_would_be_moved_at_once() -> None:
    world = simple()
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(4.0 / 3600.0))
    world.rental("a100")
    world.job("short", gpus=(1, 1, 8), profile="sft", hours_left=0.5)
    decided = plan(world.snapshot())
    assert placed(decided) == {"short": 8}
    world.carry_out(decided)
    world.everything_starts()
    assert plan(world.snapshot()).commands == ()


def test_a_job_takes_no_more_of_a_node_than_is_best_for_it_while_others_wait_for_the_rest() -> None:
    world = simple()
    budget = world.budgets[BudgetId("research")]
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(4.0 / 3600.0))
    world.rental("a100")
    for name in ("first", "second"):
        world.job(name, gpus=(1, 1, 8), profile="sft", hours_left=0.5)
    decided = plan(world.snapshot())
    assert placed(decided) == {"first": 4, "second": 4}
    assert rents(decided) == []


def test_of_nodes_that_boot_those_to_be_ready_first_are_counted_on() -> None:
    world = simple()
    world.rental(phase=RentalPhase.STARTING, age=5.0)
    world.rental(phase=RentalPhase.STARTING, age=100.0)
    world.job("waits", gpus=8)
    assert list(releases(plan(world.snapshot()))) == ["a100-1"]


def test_a_job_does_not_leave_nodes_that_boot_for_a_pool_that_is_a_little_cheaper() -> None:
    world = at_a_fixed_rate()
    world.pool("b100", gpus=8, price="15", gpu_type="a100")
    world.profile("sft", STEEP, work_hours=40)
    for _ in range(2):
        world.rental("a100", phase=RentalPhase.STARTING, age=80.0)
    world.job("short", gpus=16, profile="sft", hours_left=1.0)
    decided = plan(world.snapshot())
    assert rents(decided) == []
    assert releases(decided) == {}
