"""Runs of queued objects that Kueue stops for reasons of its own: nobody's failure, and no interruption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.domain.job import Job, ResizePolicy, RunOutcome, Widths
from charterer.domain.steps import CreateRun, EditJob, GiveBack, Wait
from charterer.domain.target import Target, TargetRef
from charterer.policy.jobs.job_facts import ready_by
from tests.factory import POOL, at, node, pod, rental, run
from tests.unit.lifecycle.test_run import LABELLED, MACHINES, ONE, mine, placed, recorded, step

REF = TargetRef("batch/v1", "Job", "sft", "object-1", queued=True)
STOPPED = run(1, name="sft", suspended=True, started=None)
PREEMPTED = "Preempted: to accommodate a workload"


def evicted(*runs: Any, **changes: Any) -> Job:
    """A TrainingJob whose first run Kueue has stopped that it was told to start."""
    fields: dict[str, Any] = {"suspended": True, "placeable": True, "workload": "job-sft-1"}
    fields |= {"evicted": True, "eviction": PREEMPTED}
    one = mine(*(runs or (STOPPED,)), target=REF)
    if one.allocation is not None:
        one = replace(one, allocation=replace(one.allocation, begun=True))
    fields["template"] = one.template
    target = Target(REF, one.namespace, "1", at(0), **(fields | changes))
    return replace(one, adopted=target)


def test_the_run_ends_as_stopped_in_kueues_words_and_counts_against_nothing() -> None:
    done = recorded(placed(evicted()))
    assert (done.record.number, done.record.outcome) == (1, RunOutcome.STOPPED)
    assert done.record.message == f"Kueue evicted it: {PREEMPTED}"
    assert not done.record.outcome.counts_as_restart
    assert (done.finish, done.warning) == (None, None)


def test_without_kueues_words_the_record_still_says_that_it_was_evicted() -> None:
    assert recorded(placed(evicted(eviction=""))).record.message == "Kueue evicted it"


def test_its_pods_end_before_it_is_recorded() -> None:
    ends = evicted(run(1, pod(), name="sft", suspended=True))
    assert step(placed(ends, nodes=(node(), node("i2")))) == Wait("1 pod of run 1 of Job sft to end (sft-r1-0)")


def test_it_is_no_run_that_never_started_however_long_ago_it_got_its_gpus() -> None:
    assert ready_by(evicted(), replace(ONE, begun=True)) is None
    assert ready_by(evicted(), ONE) == at(600)


def test_a_run_that_lost_its_machine_as_well_was_interrupted() -> None:
    gone = rental("a100-1", MACHINES[0], pool=POOL)
    done = recorded(placed(evicted(), replace(gone, phase=type(gone.phase).ENDED), nodes=LABELLED))
    assert done.record.outcome is RunOutcome.INTERRUPTED


def test_a_workload_that_waits_with_a_run_that_it_carries_is_not_evicted() -> None:
    waiting = evicted(run=1, job=mine().id)
    assert not isinstance(step(placed(waiting)), CreateRun)
    assert "RecordRun" not in type(step(placed(waiting))).__name__


def test_an_object_of_another_width_than_its_run_is_placed_anew_before_it_begins() -> None:
    wide = replace(evicted(run(1, name="sft", suspended=True, started=None, completions=3)), allocation=ONE)
    assert step(placed(wide)) == CreateRun(wide.id, 1)


def test_a_run_that_kueue_was_not_told_of_goes_on_waiting_for_it_while_charterer_itself_stopped_the_one_before() -> (
    None
):
    """Kueue asks again a moment later. A person who stops the queue may leave it so."""
    waits = replace(evicted(placeable=False, has_quota=False), allocation=ONE)
    assert step(placed(waits, nodes=LABELLED)) == Wait("Kueue to reserve quota for Job sft")
    held = replace(evicted(placeable=False, has_quota=False, withheld=True), allocation=ONE)
    done = recorded(placed(held, nodes=LABELLED))
    assert (done.record.outcome, done.record.message) == (RunOutcome.STOPPED, f"Kueue evicted it: {PREEMPTED}")


def test_a_run_that_got_no_quota_in_time_is_none_that_never_started() -> None:
    late = replace(ONE, withdrawn_because="run 1 was not fully running within 600 s")
    gave_up = replace(evicted(placeable=False, has_quota=False), allocation=None, replaced=(late,))
    done = recorded(placed(gave_up, nodes=LABELLED))
    assert done.record.outcome is RunOutcome.STOPPED
    assert done.record.message.startswith("Kueue did not let it start: ")


def test_an_author_who_changes_what_waits_changes_what_its_job_asks_for() -> None:
    other = replace(evicted(template="another"), allocation=None, runs=())
    assert step(placed(other)) == EditJob(other.id)
    narrow = replace(evicted(pods=2), allocation=None, runs=(), widths=Widths(4, 4, 4), resize=ResizePolicy.NEVER)
    assert step(placed(narrow)) == EditJob(narrow.id)
    assert not isinstance(step(placed(replace(narrow, target=REF._replace(sized=True)))), EditJob)
    ranged = replace(narrow, resize=ResizePolicy.RESTART)
    assert not isinstance(step(placed(ranged)), EditJob)


def test_an_object_without_a_workload_is_given_back_if_it_has_left_its_queue() -> None:
    """Kueue makes another one of an object that changes: whether it still waits is looked at."""
    gone = replace(evicted(workload="", has_quota=False, placeable=False), allocation=None, runs=())
    found = step(placed(gone))
    assert isinstance(found, GiveBack)
    assert found.record is None
