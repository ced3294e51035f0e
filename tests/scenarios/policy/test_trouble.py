"""What goes wrong with machines, runs and templates, as short stories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.plan import Allocate, ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.pool import Notice
from charterer.domain.rental import RentalPhase
from charterer.domain.time import after
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, releases, rents, simple, why
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


def test_the_clouds_own_replacement_of_a_dead_machine_is_used_instead_of_another() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    world.rental()
    spare = world.rental()
    world.ends("a100-1")
    unrecorded = plan(world.snapshot())
    assert set(releases(unrecorded)) == {spare.id}
    assert rents(unrecorded) == []
    world.carry_out(unrecorded)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], allocation=None, runs=())
    recorded = plan(world.snapshot())
    assert placed(recorded) == {"train": 8}
    assert rents(recorded) == []
    assert releases(recorded) == {}


def test_an_idle_machine_that_the_cloud_takes_back_is_released_for_that_reason() -> None:
    world = simple()
    instance = world.rental().instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, after(world.now, 120)),)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.INTERRUPTION}


def test_a_machine_that_may_be_taken_back_keeps_its_job_and_gets_no_other() -> None:
    world = simple()
    for _ in range(2):
        world.rental()
    world.job("train", gpus=4)
    world.runs_on("train", "a100-1", gpus=4)
    world.job("other", gpus=4)
    instance = world.rentals[RentalId("a100-1")].instance
    assert instance is not None
    world.notices[PoolId("a100")] = (Notice(instance, None, certain=False),)
    decided = plan(world.snapshot())
    [allocated] = [c for c in decided.commands if isinstance(c, Allocate)]
    assert allocated.job == "other"
    assert allocated.allocation is not None
    assert [place.rental for place in allocated.allocation.placements] == ["a100-2"]


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


def unwell(world: World, **changes: Any) -> None:
    """The run of job ``train`` is like this."""
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, runs=(replace(job.runs[0], **changes),))


def test_a_withdrawn_run_is_told_in_its_pods_own_words() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    pods = world.jobs[job.id].runs[0].pods
    unwell(world, pods=[replace(one, trouble="Unschedulable: 0/3 nodes") for one in pods], warning="FailedMount: no")
    world.passes(job.ready_timeout_seconds)
    message = plan(world.snapshot()).jobs[job.id].reason.message
    assert message == "run 1 was not fully running within 600 s: pod train-r1-0: Unschedulable: 0/3 nodes"
    unwell(world, pods=(), missing="FailedCreate: exceeded quota")
    message = plan(world.snapshot()).jobs[job.id].reason.message
    assert message == "run 1 was not fully running within 600 s: FailedCreate: exceeded quota"


@pytest.mark.parametrize("whose", ["pod", "policy", "volume"])
def test_a_run_that_can_never_start_gives_its_machine_back_after_seconds(whose: str) -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    if whose == "pod":
        words = "container trainer: ErrImageNeverPull: no such image"
        pods = [replace(one, trouble=words, hopeless=True) for one in world.jobs[job.id].runs[0].pods]
        unwell(world, pods=pods)
        words = f"pod train-r1-0: {words}"
    elif whose == "volume":
        words = 'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found'
        unwell(world, warning=words)
    else:
        words = "FailedCreate: violates PodSecurity"
        unwell(world, pods=(), missing=words)
    assert not plan(world.snapshot()).commands  # the scheduler may have seen the node's label a moment late
    world.passes(20.0)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is ReasonCode.NOT_STARTING
    assert decided.jobs[job.id].reason.message == f"run 1 can never start: {words}"


@pytest.mark.parametrize("run", [{"suspended": True, "started": None}, {"started": None}, None])
def test_a_run_that_does_not_even_begin_holds_its_machine_no_longer_than_one_that_does_not_start(run: Any) -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    if run is None:
        world.jobs[job.id] = replace(world.jobs[job.id], runs=())
    else:
        unwell(world, pods=(), **run)
    world.passes(job.ready_timeout_seconds - 1.0)
    assert placed(plan(world.snapshot())) == {}
    world.passes(1.0)
    assert placed(plan(world.snapshot())) == {"train": 0}


def test_a_run_that_never_began_gives_its_machine_back_also_when_its_job_may_no_longer_run() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    unwell(world, pods=(), suspended=True)
    world.jobs[job.id] = replace(world.jobs[job.id], invalid="spec.template: no")
    decided = plan(world.snapshot())
    assert (placed(decided), decided.again_at) == ({}, after(world.now, job.ready_timeout_seconds))
    world.passes(job.ready_timeout_seconds)
    assert placed(plan(world.snapshot())) == {"train": 0}


def after_a_run(outcome: RunOutcome, **counts: Any) -> World:
    """A job whose run has just ended so, and its node, which has long been paid for."""
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    past = job.allocation
    assert past is not None
    record = RunRecord(past.run, outcome, past.option, past.placements, past.since, world.now, "")
    world.jobs[job.id] = replace(job, allocation=None, runs=(), records=(record,), **counts)
    return world


@pytest.mark.parametrize(("failures", "seconds"), [(1, 10.0), (2, 20.0), (3, 40.0), (7, 360.0), (400, 360.0)])
def test_a_job_rests_after_a_failure_for_twice_as_long_as_the_last_time(failures: int, seconds: float) -> None:
    world = after_a_run(RunOutcome.FAILED, failures=failures)
    decided = plan(world.snapshot())
    assert (placed(decided), rents(decided), why(decided, "train")) == ({}, [], ReasonCode.BACK_OFF)
    assert decided.again_at == after(world.now, seconds)
    world.passes(seconds - 1.0)
    assert placed(plan(world.snapshot())) == {}
    world.passes(1.0)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 8} or rents(decided) == ["a100-2"]


@pytest.mark.parametrize(("failures", "kept"), [(1, True), (7, False)])
def test_a_resting_job_keeps_its_machine_only_if_another_would_not_start_sooner(failures: int, kept: bool) -> None:
    world = after_a_run(RunOutcome.FAILED, failures=failures)
    assert releases(plan(world.snapshot())) == ({} if kept else {"a100-1": ReasonCode.IDLE})


@pytest.mark.parametrize(("failures", "seconds"), [(1, 30.0), (2, 120.0)])
def test_a_job_whose_run_never_started_holds_no_machine_while_it_rests(failures: int, seconds: float) -> None:
    world = after_a_run(RunOutcome.NOT_STARTED, start_failures=failures)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.IDLE}
    assert (placed(decided), why(decided, "train")) == ({}, ReasonCode.BACK_OFF)
    assert decided.again_at == after(world.now, seconds)


def test_a_job_has_no_next_run_until_the_end_of_the_one_that_never_started_is_on_record() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    former = job.allocation
    assert former is not None
    given_up = replace(former, withdrawn_because="late")
    world.jobs[job.id] = replace(job, allocation=None, replaced=(given_up,))
    for _ in range(3):
        decided = plan(world.snapshot())
        assert (placed(decided), rents(decided), why(decided, "train")) == ({}, [], ReasonCode.BACK_OFF)
        world.passes(600.0)


def test_a_run_that_waits_for_the_pods_of_its_predecessor_is_not_blamed_for_not_starting() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = stuck(world)
    former = job.allocation
    assert former is not None
    unwell(world, suspended=True, pods=())
    world.jobs[job.id] = replace(world.jobs[job.id], replaced=(replace(former, run=0),))
    world.passes(job.ready_timeout_seconds + job.grace_seconds)
    assert why(plan(world.snapshot()), "train") is ReasonCode.LOST_NODE


def test_a_machine_on_which_a_pod_hangs_is_given_up_ten_minutes_after_its_grace_period() -> None:
    world = simple()
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    end = after(world.now, job.grace_seconds)
    pods = tuple(replace(one, deleting=True, must_end_by=end) for one in job.runs[0].pods)
    world.jobs[job.id] = replace(job, allocation=None, replaced=(job.allocation,) if job.allocation else ())
    unwell(world, suspended=True, pods=pods)
    decided = plan(world.snapshot())
    assert releases(decided) == {}
    assert decided.again_at == after(end, 600.0)
    world.passes(job.grace_seconds + 600.0)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.LOST_NODE}


def test_a_machine_whose_node_does_not_come_is_given_up_a_quarter_of_an_hour_after_its_launch() -> None:
    world = simple()
    world.rental(phase=RentalPhase.STARTING, age=899.0)
    world.job("train", gpus=8)
    assert releases(plan(world.snapshot())) == {}
    world.passes(1.0)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.LOST_NODE}
    assert rents(decided) == ["a100-2"]


@pytest.mark.parametrize("behind", [900.0, -900.0])
def test_a_cloud_whose_clock_is_wrong_does_not_end_each_machine_at_once(behind: float) -> None:
    """Or each would be given up as soon as it is launched, and the next one rented, without end."""
    world = simple()
    world.job("train", gpus=8)
    made = world.rental(phase=RentalPhase.REQUESTED, age=0.0)
    world.launches(made.id, at=after(made.created, -behind))
    assert releases(plan(world.snapshot())) == {}
    world.passes(899.0)
    assert releases(plan(world.snapshot())) == {}
    world.passes(max(-behind, 0.0) + 1.0)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.LOST_NODE}


@pytest.mark.parametrize("outcome", [RunOutcome.INTERRUPTED, RunOutcome.STOPPED])
def test_a_job_whose_run_was_ended_by_others_does_not_rest(outcome: RunOutcome) -> None:
    assert placed(plan(after_a_run(outcome).snapshot())) == {"train": 8}


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


def test_a_rental_whose_node_was_deleted_is_given_up() -> None:
    world = simple()
    rental = world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    assert rental.node is not None
    del world.nodes[rental.node]
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.LOST_NODE}


def test_a_node_may_be_unready_for_half_a_minute() -> None:
    world = simple()
    rental = world.rental()
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    assert rental.node is not None
    world.nodes[rental.node] = replace(world.nodes[rental.node], not_ready_since=world.now)
    decided = plan(world.snapshot())
    assert releases(decided) == {}
    assert decided.again_at == after(world.now, 30.0)
    world.passes(30.0)
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.LOST_NODE}
