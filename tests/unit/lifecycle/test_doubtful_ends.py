"""Runs whose pods say that they are done, or that they stopped, although work may be lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import FinishKind, PodPhase, Progress, RunOutcome
from charterer.domain.steps import RecordRun
from charterer.domain.time import Instant
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, pod, rental, run, snapshot, survey

BEGUN = 1000.0
"""Seconds at which the reports here are made, after the run's start."""
LATER = allocation("a100-2", run=2)


def reported(fraction: float | None, seconds: float = BEGUN, number: int = 1) -> Progress:
    return Progress(run=number, fraction=fraction, step=None, throughput=None, at=at(seconds))


def recorded(progress: Progress | None, ended: float, since: Instant | None = None, **changes: Any) -> RecordRun:
    """The record of a run whose pod succeeded at ``ended``."""
    intent = allocation("a100-1") if since is None else replace(allocation("a100-1"), since=since)
    done = pod(phase=PodPhase.SUCCEEDED, exit_code=0, finished=at(ended))
    fields: dict[str, Any] = {"allocation": intent, "last_run": 1, "progress": progress} | changes
    machines = (instance(), instance("i2"))
    world = snapshot(
        job(runs=(run(1, done, complete=at(ended)),), **fields),
        rental("a100-1", machines[0]),
        rental("a100-2", machines[1]),
        node(run_labels={job().run_label: f"r{fields['last_run']}"}),
        node("i2", run_labels={job().run_label: f"r{fields['last_run']}"}),
        survey(*machines, asked=ended + 60),
        now=at(ended + 60),
    )
    found = run_step(next(iter(world.jobs)), LifecycleView.of(world))
    assert isinstance(found, RecordRun), found
    return found


@pytest.mark.parametrize(
    ("progress", "ended"),
    [
        (None, 50.0),
        (reported(None), BEGUN),
        (reported(0.1, number=7), BEGUN),
        (reported(1.0), BEGUN),
        (reported(0.9), BEGUN),
        (reported(0.85), BEGUN + 10),
        (reported(0.5), BEGUN + 900),
        (reported(0.05, seconds=10), 200.0),
    ],
    ids=[
        "it never reported",
        "it has no fraction",
        "another run reported",
        "it was done",
        "it was almost done",
        "the rest took less than a report comes late",
        "the rest took as long as before",
        "a short job ended before its second report",
    ],
)
def test_nobody_doubts_the_end_of_a_run_that_may_have_done_its_work(progress: Progress | None, ended: float) -> None:
    found = recorded(progress, ended)
    assert (found.record.outcome, found.record.message) == (RunOutcome.COMPLETE, "")
    assert found.finish is not None
    assert found.finish.reason == "Completed"


def test_a_run_that_ends_long_before_its_work_is_done_completes_with_a_doubt() -> None:
    found = recorded(reported(0.07), BEGUN + 30)
    assert found.finish is not None
    assert (found.finish.kind, found.finish.reason) == (FinishKind.COMPLETE, "CompletedInDoubt")
    assert "its last report says 7 % done" in found.finish.message
    assert "should report fraction=1" in found.record.message


def test_a_run_that_ends_while_it_is_being_resized_goes_on_from_its_checkpoint() -> None:
    found = recorded(reported(0.07), BEGUN + 312, since=at(BEGUN + 5))
    assert (found.record.outcome, found.finish) == (RunOutcome.INTERRUPTED, None)
    assert "it was being resized" in found.record.message


def test_a_run_that_reported_after_its_resize_ended_by_itself() -> None:
    found = recorded(reported(0.07), BEGUN + 312, since=at(BEGUN - 5))
    assert found.record.outcome is RunOutcome.COMPLETE


def test_a_run_that_ends_with_0_when_it_is_told_to_stop_was_stopped() -> None:
    former = allocation("a100-1")
    found = recorded(reported(0.07), BEGUN + 30, allocation=LATER, replaced=(former,), last_run=2)
    assert (found.record.number, found.record.outcome, found.finish) == (1, RunOutcome.STOPPED, None)
    assert "should have exited with 143" in found.record.message


def stopped(exit_code: int, finished: float) -> RecordRun:
    """The record of a run that was suspended, whose pod's grace period is over at 130."""
    shot = pod(phase=PodPhase.FAILED, exit_code=exit_code, finished=at(finished), deleting=True, must_end_by=at(130))
    machines = (instance(), instance("i2"))
    world = snapshot(
        job(
            allocation=LATER,
            replaced=(allocation("a100-1"),),
            last_run=2,
            runs=(run(1, shot, suspended=True), run(2, suspended=True, started=None)),
        ),
        rental("a100-1", machines[0]),
        rental("a100-2", machines[1]),
        node(run_labels={}),
        node("i2", run_labels={job().run_label: "r2"}),
        survey(*machines, asked=190),
        now=at(190),
    )
    found = run_step(next(iter(world.jobs)), LifecycleView.of(world))
    assert isinstance(found, RecordRun), found
    return found


def test_a_run_that_was_killed_at_the_end_of_its_grace_period_may_have_saved_nothing_and_says_so() -> None:
    record = stopped(137, 129.5).record
    assert record.outcome is RunOutcome.STOPPED
    assert record.message.startswith("sft-r1-0 had to be killed at the end of the grace period")
    assert "terminationGracePeriodSeconds" in record.message


@pytest.mark.parametrize(("exit_code", "finished"), [(143, 129.5), (1, 110.0), (137, 110.0)])
def test_any_other_end_of_a_stopped_run_is_a_stop(exit_code: int, finished: float) -> None:
    """Launchers change the code: torchrun ends with 1 whatever its workers said."""
    record = stopped(exit_code, finished).record
    assert (record.outcome, record.message) == (RunOutcome.STOPPED, "")
