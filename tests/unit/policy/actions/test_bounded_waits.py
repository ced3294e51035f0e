"""A job rests after a run that failed until somebody changes it; a run whose end cannot be recorded holds no machine
for ever."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.plan import Allocate, Release
from charterer.domain.pod import PodPhase
from charterer.domain.time import after
from charterer.policy.planner import plan
from tests.worlds import World, one_job_runs


def ran(outcome: RunOutcome) -> World:
    """A job whose run has just ended so, beside its idle node."""
    world = one_job_runs()
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    gone = job.allocation
    record = RunRecord(1, outcome, gone.option, gone.placements, gone.since, world.now, "", None, job.generation)
    world.jobs[job.id] = replace(job, allocation=None, runs=(), records=(record,), failures=1)
    return world


def placed(world: World) -> bool:
    return any(isinstance(command, Allocate) and command.allocation for command in plan(world.snapshot()).commands)


def test_a_job_rests_after_a_run_that_failed() -> None:
    world = ran(RunOutcome.FAILED)
    assert not placed(world)
    world.passes(11.0)
    assert placed(world)


def test_a_job_that_was_changed_since_its_run_failed_does_not_rest() -> None:
    """A corrected template begins at once, as does a job that was suspended and resumed."""
    for outcome in (RunOutcome.FAILED, RunOutcome.NOT_STARTED):
        world = ran(outcome)
        job = world.jobs[JobId("train")]
        world.jobs[job.id] = replace(job, generation=job.generation + 1)
        assert placed(world)


def test_a_job_whose_record_does_not_name_a_generation_rests() -> None:
    world = ran(RunOutcome.FAILED)
    job = world.jobs[JobId("train")]
    world.jobs[job.id] = replace(job, records=(replace(job.records[0], generation=None),), generation=7)
    assert not placed(world)


def completed() -> World:
    """A run that has completed, and is not on record."""
    world = one_job_runs()
    job = world.jobs[JobId("train")]
    (run,) = job.runs
    pods = tuple(replace(pod, phase=PodPhase.SUCCEEDED, ready=False, finished=world.now) for pod in run.pods)
    world.jobs[job.id] = replace(job, runs=(replace(run, complete=world.now, pods=pods),))
    return world


def test_the_machine_of_a_run_whose_end_cannot_be_recorded_is_given_back_after_twenty_minutes() -> None:
    world = completed()
    world.passes(1199.0)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.again_at == after(world.now, 1.0)
    world.passes(1.0)
    (release,) = plan(world.snapshot()).commands
    assert isinstance(release, Release)
    assert (release.rental, release.reason.code) == ("a100-1", "NotRecorded")
    assert release.reason.message == "train-r1 in namespace team ended, and its end is not on record 20 minutes later"


def test_a_job_whose_run_has_ended_is_not_run_again_because_its_node_goes_away() -> None:
    world = completed()
    world.passes(1200.0)
    world.carry_out(plan(world.snapshot()))
    assert plan(world.snapshot()).commands == ()
