"""How the run of an interactive job ended: its worker ends sessions, and never the job."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.domain.interactive import Interactive
from charterer.domain.job import Job, RunOutcome
from charterer.domain.pod import PodPhase
from charterer.domain.steps import RecordRun
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, pod, rental, run, snapshot, survey

HERE = allocation("a100-1")


def ended(**of_pod: Any) -> Job:
    finished = pod(finished=at(1000), **of_pod)
    end: dict[str, Any] = {"failed" if finished.phase is PodPhase.FAILED else "complete": at(1001)}
    over = run(1, finished, **end)
    return job(allocation=HERE, runs=(over,), last_run=1, interactive=Interactive(asks=1, served=1))


def recorded(of: Job) -> RecordRun:
    here = node(run_labels={of.run_label: "r1"})
    world = snapshot(of, rental("a100-1", instance()), here, survey(instance(), asked=2000), now=at(2000))
    step = run_step(of.id, LifecycleView.of(world))
    assert isinstance(step, RecordRun), step
    return step


@pytest.mark.parametrize(
    "of_pod",
    [{"phase": PodPhase.SUCCEEDED, "exit_code": 0}, {"phase": PodPhase.FAILED, "exit_code": 143}],
)
def test_a_worker_that_stops_ends_its_session(of_pod: dict[str, Any]) -> None:
    done = recorded(ended(**of_pod))
    assert (done.record.outcome, done.record.message) == (
        RunOutcome.STOPPED,
        "its worker ended, and with it the session",
    )
    assert (done.finish, done.warning) == (None, None)


def test_a_worker_that_fails_counts_as_any_failure() -> None:
    done = recorded(ended(phase=PodPhase.FAILED, exit_code=1))
    assert done.record.outcome is RunOutcome.FAILED
