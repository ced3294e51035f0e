"""The conditions, Events and metrics of what holds a run up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.models.base import BOTTLENECKS, Condition
from charterer.controller.status.events import transitions
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.ids import JobId, RentalId
from charterer.domain.job import Finish, FinishKind, ResizePolicy
from charterer.domain.reports import Bottleneck, BottleneckKind, Progress
from charterer.policy.planner import plan
from tests.worlds import World

JOB = JobId("train")
SLOW = Bottleneck(BottleneckKind.SLOW_WORKER, 1, 1.43, 0.25, 0.25, 1, RentalId("a100-2"))


def world(*found: Bottleneck, **changes: object) -> World:
    """A job on two nodes of $16 an hour."""
    made = World()
    made.budget()
    made.pool(gpus=8, price="16")
    for _ in range(2):
        made.rental()
    made.job("train", gpus=16)
    job = made.runs_on("train", "a100-1", "a100-2", gpus=16)
    made.jobs[JOB] = replace(job, bottlenecks=found, **changes)  # type: ignore[arg-type]
    return made


def shown(made: World) -> dict[str, Condition]:
    snapshot = made.snapshot()
    (view,) = [
        viewed.make(snapshot)
        for viewed in viewed_objects(snapshot, plan(snapshot), {})
        if viewed.kind.name == "TrainingJob"
    ]
    return {str(found.type): found for found in view.conditions if found.type in BOTTLENECKS}


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (SLOW, "SlowerThanPeers", "pod 1 of run 1 on GPURental a100-2 computes 1.43 times as long as the others"),
        (replace(SLOW, kind=BottleneckKind.SLOW_NODE), "SlowerThanItsClass", "delete GPURental a100-2 to get another"),
        (replace(SLOW, kind=BottleneckKind.INPUT_STARVED, pod=None, rental=None, value=0.25), "WaitsForInput", "25%"),
        (replace(SLOW, kind=BottleneckKind.SYNC_BOUND, pod=None, rental=None, value=0.25), "WaitsForOthers", "25%"),
    ],
)
def test_each_has_a_condition_with_its_cost_an_hour_and_what_to_do(found: Bottleneck, reason: str, words: str) -> None:
    (condition,) = shown(world(found)).values()
    assert (condition.type, condition.status, condition.reason) == (found.kind, "True", reason)
    assert words in condition.message
    assert "25% of its time, $8.00 an hour. " in condition.message


def test_a_checkpoint_that_is_too_long_is_told_with_both_times() -> None:
    found = Bottleneck(BottleneckKind.CHECKPOINT_TOO_LONG, 1, 90.0, 0.0)
    condition = shown(world(found, grace_seconds=30))["CheckpointTooLong"]
    assert "takes 90 s and the grace period is 30 s: a stop loses what was done since" in condition.message
    assert "terminationGracePeriodSeconds" in condition.message


def test_what_becomes_of_a_slow_worker_depends_on_the_job() -> None:
    told = shown(world(SLOW, resize=ResizePolicy.RESTART))["SlowWorker"].message
    assert told.endswith("It gets another node once that pays")
    told = shown(world(SLOW, resize=ResizePolicy.NEVER))["SlowWorker"].message
    assert told.endswith("Delete GPURental a100-2 to start the job again with another node")
    told = shown(world(SLOW, resize=ResizePolicy.RESTART, nodes_replaced=1))["SlowWorker"].message
    assert told.endswith("so it is rather what this rank has to do")


def test_a_job_that_nothing_holds_up_or_that_has_ended_has_none() -> None:
    assert shown(world()) == {}
    made = world(SLOW)
    ended = Finish(FinishKind.COMPLETE, made.now, "Completed", "run 1 completed")
    made.jobs[JOB] = replace(made.jobs[JOB], finish=ended)
    assert shown(made) == {}


def test_a_silent_run_that_is_not_stopped_is_told_of() -> None:
    made = world(resize=ResizePolicy.NEVER)
    silent = Progress(1, 0.2, 100, None, made.now, advanced=made.now, advances=3)
    made.jobs[JOB] = replace(made.jobs[JOB], progress=silent)
    made.passes(1_799.0)
    assert shown(made) == {}
    made.passes(1.0)
    condition = shown(made)["NotAdvancing"]
    assert condition.reason == "NoStep"
    assert "while its pods live: $32.00 an hour" in condition.message


def test_an_event_is_told_when_one_begins_and_not_while_it_lasts() -> None:
    before: dict[str, list[str]] = {"conditions": []}
    after = {"conditions": [{"type": "SlowWorker", "status": "True", "reason": "SlowerThanPeers", "message": "pod 1"}]}
    (began,) = transitions(before, after)
    assert (began.reason, began.note, began.warning) == ("SlowerThanPeers", "pod 1", True)
    assert list(transitions(after, after)) == []
    assert list(transitions(after, before)) == []
