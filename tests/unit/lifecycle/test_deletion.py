"""Jobs, runs and adopted objects that are being deleted, and that a finalizer of somebody's may keep for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import Allocation, Job, Run, RunOutcome
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import AdoptionCandidate, Orphan
from charterer.domain.steps import CreateRun, GiveBack, LetGo, RecordRun, RunStep, StopOrphan, StopRun, Unsuspend, Wait
from charterer.domain.target import Target, TargetRef
from charterer.lifecycle import next_steps
from charterer.lifecycle.adopted import adopt_step
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from charterer.policy.nodes.rentals import held_by
from tests.factory import TEAM, allocation, at, instance, job, node, pod, rental, run, snapshot, survey

ONE = allocation("a100-1")
NEXT = allocation("a100-1", run=2)
REF = TargetRef("batch/v1", "Job", "sft", "object-1")
CARRIED = Target(REF, "research", "7", at(0), suspended=False, deleting=True, job=job().id, run=1)
ENDING = pod(deleting=True)
DONE = pod(phase=PodPhase.SUCCEEDED, exit_code=0, finished=at(100), ready=False)
BROKE = pod(phase=PodPhase.FAILED, exit_code=1, finished=at(100), ready=False)


def step(mine: Job) -> RunStep | Wait | None:
    """On a node that has no label any more but of what is intended."""
    wanted = mine.allocation if not (mine.deleting or mine.target) else None
    labels = {} if wanted is None else {mine.run_label: wanted.label_value}
    seen = snapshot(mine, rental("a100-1", instance()), node(run_labels=labels), survey(instance()))
    view = LifecycleView.of(seen)
    return run_step(mine.id, replace(view, settled=dict.fromkeys(view.settled, True)))


def going(*pods: Any, **changes: Any) -> Run:
    """Run 1, whose Job somebody deletes."""
    return run(1, *pods, **{"deleting": True, **changes})


def has(*runs: Run, intent: Allocation | None = ONE, **changes: Any) -> Job:
    return job(allocation=intent, runs=runs, last_run=1, **changes)


def unwanted(*runs: Run, **changes: Any) -> Job:
    return has(*runs, intent=None, replaced=(ONE,), **changes)


def outcome(done: object) -> RunOutcome:
    assert isinstance(done, RecordRun), done
    return done.record.outcome


# --- jobs ---


def test_a_job_in_deletion_stops_its_run_and_records_it_before_and_after_a_plan() -> None:
    for mine in (has, unwanted):
        assert step(mine(run(1, pod()), deleting=True)) == StopRun(job().id, 1)
        assert isinstance(step(mine(run(1, ENDING, suspended=True), deleting=True)), Wait)
        assert outcome(step(mine(run(1, suspended=True), deleting=True))) is RunOutcome.STOPPED
    assert step(has(intent=None, deleting=True, ttl_seconds_after_finished=0)) is None


def test_only_live_pods_of_a_job_in_deletion_hold_gpus() -> None:
    rentals = {node().name: rental("a100-1").id}
    for mine in (has, unwanted):
        assert held_by(mine(run(1, pod()), deleting=True), rentals) == {"a100-1": 4}
        assert held_by(mine(run(1, DONE), deleting=True), rentals) == {}
        assert held_by(mine(run(1, DONE)), rentals) == {"a100-1": 4}


# --- runs ---


def test_a_run_in_deletion_is_stopped_by_its_pods_also_if_it_is_suspended_already() -> None:
    for suspended in (False, True):
        assert step(unwanted(going(pod(), suspended=suspended))) == StopRun(job().id, 1)
        assert isinstance(step(unwanted(going(ENDING, suspended=suspended))), Wait)


@pytest.mark.parametrize(
    ("pods", "stopped", "how"),
    [
        ((DONE,), False, RunOutcome.COMPLETE),
        ((DONE,), True, RunOutcome.COMPLETE),
        ((BROKE,), False, RunOutcome.FAILED),
        ((BROKE,), True, RunOutcome.STOPPED),
        ((), False, RunOutcome.INTERRUPTED),
        ((), True, RunOutcome.STOPPED),
    ],
)
def test_it_is_judged_by_its_pods_once_none_lives(pods: Any, stopped: bool, how: RunOutcome) -> None:
    mine = unwanted if stopped else has
    assert outcome(step(mine(going(*pods)))) is how


def test_pods_of_a_run_in_deletion_that_cannot_complete_any_more_are_ended() -> None:
    assert isinstance(step(has(going(pod()))), Wait)
    for others in ((), (replace(BROKE, index=1),)):
        assert step(has(going(pod(), *others, completions=2))) == StopRun(job().id, 1)


def test_one_that_has_not_begun_is_waited_for_until_it_is_late() -> None:
    waits = step(has(going(suspended=True, started=None)))
    assert waits == Wait("sft-r1, which somebody deletes, to be gone")


def test_a_recorded_run_that_a_finalizer_keeps_holds_up_no_other() -> None:
    record = step(has(going()))
    assert isinstance(record, RecordRun)
    after = has(going(), intent=NEXT, records=(record.record,))
    assert step(after) == CreateRun(job().id, 2)
    made = replace(after, runs=(going(), run(2, suspended=True, started=None)))
    assert step(made) == Unsuspend(made.id, 2)


def test_pods_of_a_stray_in_deletion_are_ended_and_waited_for() -> None:
    stray = replace(going(pod(run=3)), number=3, name="sft-r3")
    mine = has(run(1, pod()), stray)
    assert step(mine) == StopRun(job().id, 3)
    ending = replace(stray, pods=(pod(run=3, deleting=True),))
    assert isinstance(step(replace(mine, runs=(run(1, suspended=True, started=None), ending))), Wait)


def test_an_orphan_in_deletion_is_stopped_as_long_as_a_pod_was_not_told() -> None:
    left = Orphan(job().id, "research", TEAM, going(pod()))
    steps, _ = next_steps(replace(snapshot(), orphans=(left,)))
    assert list(steps.values()) == [StopOrphan(left)]


# --- adopted objects ---


def adopted(*pods: Any, target: Target = CARRIED, **changes: Any) -> Job:
    return has(run(1, *pods, deleting=True, suspended=target.suspended), target=REF, adopted=target, **changes)


def test_an_adopted_object_in_deletion_is_given_back_once_its_pods_have_ended_and_are_on_record() -> None:
    assert step(adopted(pod())) == StopRun(job().id, 1)
    assert isinstance(step(adopted(ENDING)), Wait)
    for ended in ((), (DONE,)):
        done = step(adopted(*ended))
        assert isinstance(done, RecordRun)
    assert isinstance(done, RecordRun)
    given = adopted(DONE, intent=None, records=(done.record,))
    assert isinstance(step(given), GiveBack)
    assert step(replace(given, deleting=True)) is None


def test_pods_of_an_object_in_deletion_that_lost_its_training_job_are_ended() -> None:
    view = LifecycleView.of(snapshot())
    left = AdoptionCandidate(CARRIED, TEAM, (pod(),))
    assert adopt_step(left, view) == LetGo(CARRIED, (pod(),))
    assert adopt_step(replace(left, pods=(ENDING, DONE)), view) is None
