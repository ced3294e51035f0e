"""What goes wrong with machines, runs and templates, as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Job, PodPhase
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import Notice
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, rents, simple, why
from tests.worlds import World


def test_a_job_on_an_interrupted_instance_restarts_at_once_on_what_is_left() -> None:
    world = simple()
    for _ in range(2):
        world.rental()
    world.job("train", gpus=(4, 8, 8), profile="sft")
    world.runs_on("train", "a100-1", gpus=8)
    world.job("other", gpus=4)
    world.runs_on("other", "a100-2", gpus=4)
    instance = world.rentals[RentalId("a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 4}
    assert why(decided, "train") is ReasonCode.INTERRUPTION


def test_a_job_on_an_interrupted_instance_queues_when_nothing_is_left() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    instance = world.rentals[RentalId("a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert rents(decided) == ["a100-2"]


def stuck(world: World) -> Job:
    job = world.runs_on("train", "a100-1", gpus=8)
    run = job.runs[0]
    pods = tuple(replace(pod, phase=PodPhase.PENDING, ready=False) for pod in run.pods)
    world.jobs[job.id] = replace(job, runs=(replace(run, pods=pods),))
    return job


def test_a_run_that_does_not_get_ready_is_withdrawn() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    decided = plan(world.snapshot())
    assert placed(decided) == {}
    assert decided.again_at == after(world.now, job.ready_timeout_seconds)
    world.passes(job.ready_timeout_seconds)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is ReasonCode.NOT_STARTING


@pytest.mark.parametrize(("change", "expected"), [("suspend", ReasonCode.SUSPENDED), ("deleting", ReasonCode.DELETED)])
def test_a_job_that_is_no_longer_wanted_gives_up_its_gpus(change: str, expected: ReasonCode) -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, suspend=change == "suspend", deleting=change == "deleting")
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is expected


def test_a_run_goes_on_when_its_template_is_edited_to_an_invalid_one() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, invalid="spec.template: no")
    assert plan(world.snapshot()).commands == ()


def test_an_allocation_on_a_rental_that_is_gone_is_withdrawn_if_its_run_never_started() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    world.jobs[job.id] = replace(job, runs=())
    world.ends("a100-1")
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert rents(decided) == ["a100-2"]


def test_a_run_on_a_lost_node_is_left_to_the_life_cycle() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.ends("a100-1")
    assert plan(world.snapshot()).commands == ()
