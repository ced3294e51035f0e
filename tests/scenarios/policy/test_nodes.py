"""Which nodes are rented, shared and given back, as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId, NodeName
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.rental import RentalPhase
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, settle, simple, why


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
