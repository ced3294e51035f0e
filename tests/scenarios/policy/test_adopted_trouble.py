"""Machines are paid for only so long while the pods of an adopted object, or what starts its work, cannot be made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import Job
from charterer.domain.plan import ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.target import Target, TargetRef, ToldReady
from charterer.domain.time import after
from charterer.policy import plan
from charterer.workloads.adopted.ray_job import SUBMITTER_REFUSED
from tests.scenarios.policy.stories import placed, simple, why
from tests.worlds import World

REF = TargetRef("ray.io/v1", "RayJob", "train", "object-1")
TIMEOUT, HOURS = 600.0, 7200.0
NO_ENTRYPOINT = "Ray has not heard of its entrypoint: the pod that submits it may not have begun"


def running(world: World, **run: Any) -> Job:
    """A job of an adopted object whose pod runs; ``run``: what is otherwise."""
    world.rental()
    world.job("train", gpus=8)
    job = world.runs_on("train", "a100-1", gpus=8)
    target = Target(REF, job.namespace, "1", job.created, suspended=False, job=job.id, run=1)
    return now(world, replace(job, target=REF, adopted=target), **run)


def now(world: World, job: Job, **run: Any) -> Job:
    runs = (replace(job.runs[0], **run),) if run else job.runs
    world.jobs[job.id] = replace(job, runs=runs)
    return world.jobs[job.id]


def told(world: World, job: Job, *, ready: bool, **run: Any) -> None:
    """Its status says this from now on."""
    now(world, replace(job, told_ready=ToldReady(ready, world.now)), **run)


def test_a_ray_job_whose_submitter_does_not_begin_is_stopped_and_told_why() -> None:
    world = simple()
    running(world, incomplete=NO_ENTRYPOINT)
    assert not plan(world.snapshot()).commands
    world.passes(TIMEOUT)
    decided = plan(world.snapshot())
    assert (placed(decided), why(decided, "train")) == ({"train": 0}, ReasonCode.NOT_STARTING)
    (verdict,) = decided.jobs.values()
    assert verdict.reason.message == f"run 1 was not fully running within 600 s: {NO_ENTRYPOINT}"


@pytest.mark.parametrize(
    ("warning", "seconds"),
    [("its submitter: FailedCreate: violates PodSecurity", 20.0), (f"{SUBMITTER_REFUSED}: exceeded quota", TIMEOUT)],
)
def test_a_submitter_that_is_refused_for_good_is_waited_for_shorter_than_one_that_a_quota_refuses(
    warning: str, seconds: float
) -> None:
    world = simple()
    running(world, incomplete="KubeRay says Initializing of it, not Running", missing=warning)
    decided = plan(world.snapshot())
    assert (decided.commands, decided.again_at) == ((), after(world.now, seconds))
    world.passes(seconds)
    (verdict,) = plan(world.snapshot()).jobs.values()
    assert verdict.reason.code is ReasonCode.NOT_STARTING
    assert verdict.reason.message.endswith(warning)


@pytest.mark.parametrize("pods", [(), (PodPhase.PENDING,), (PodPhase.FAILED,)], ids=["none", "pending", "failed"])
def test_pods_that_its_controller_makes_anew_have_their_time_from_when_they_were_lost(pods: Any) -> None:
    """Its run began hours ago."""
    world = simple()
    job = running(world)
    lost = tuple([replace(job.runs[0].pods[0], phase=phase, ready=False) for phase in pods])
    world.passes(HOURS)
    told(world, job, ready=True, pods=lost)
    assert not plan(world.snapshot()).commands  # its status says nothing of it yet
    told(world, job, ready=False, pods=lost)
    decided = plan(world.snapshot())
    assert (decided.commands, decided.again_at) == ((), after(world.now, TIMEOUT))
    world.passes(TIMEOUT)
    assert why(plan(world.snapshot()), "train") is ReasonCode.NOT_STARTING


def test_an_object_that_can_begin_no_run_any_more_gives_its_gpus_back() -> None:
    world = simple()
    job = running(world, suspended=True, started=None, pods=())
    assert job.adopted is not None
    stopped = replace(job.adopted, suspended=True, placeable=True)
    now(world, replace(job, adopted=replace(stopped, problem="2 groups")))
    decided = plan(world.snapshot())
    assert (placed(decided), why(decided, "train")) == ({"train": 0}, ReasonCode.NOT_ADOPTED)
    now(world, replace(job, adopted=stopped))
    assert not plan(world.snapshot()).commands
