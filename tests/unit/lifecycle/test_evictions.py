"""Runs of queued objects that Kueue stops for reasons of its own: nobody's failure, and no interruption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from charterer.domain.job import Job, RunOutcome
from charterer.domain.jobs.target import Asked, Target, TargetRef
from charterer.domain.steps import CreateRun, Wait
from charterer.policy.jobs.predicates import ready_by
from tests.factory import POOL, allocation, at, node, pod, rental, run
from tests.unit.lifecycle.test_run import LABELLED, MACHINES, ONE, mine, placed, recorded, step

REF = TargetRef("kueue.x-k8s.io/v1beta2", "Workload", "job-sft-1", "w-uid")
STOPPED = run(1, name="job-sft-1", suspended=True, started=None)
PREEMPTED = "Preempted: to accommodate a workload"


def evicted(*runs: Any, **changes: Any) -> Job:
    """A TrainingJob whose first run Kueue has stopped, and forgotten."""
    fields: dict[str, Any] = {"suspended": True, "placeable": True, "queued_for": "sft"}
    fields |= {"evicted": at(500), "eviction": PREEMPTED}
    one = mine(*(runs or (STOPPED,)), target=REF)
    asked = Asked(4, 4, 16, one.resize, one.spot, None, None, "", suspend=False, template="")
    target = Target(REF, one.namespace, "1", at(0), asked=asked, **(fields | changes))
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
    ends = evicted(run(1, pod(), name="job-sft-1", suspended=True))
    assert step(placed(ends, nodes=(node(), node("i2")))) == Wait(
        "1 pod of run 1 of Workload job-sft-1 to end (sft-r1-0)"
    )


def test_it_is_no_run_that_never_started_however_long_ago_it_got_its_gpus() -> None:
    assert ready_by(evicted(), ONE) is None
    assert ready_by(evicted(run=1, job="u"), ONE) == at(600)


def test_a_run_that_lost_its_machine_as_well_was_interrupted() -> None:
    gone = rental("a100-1", MACHINES[0], pool=POOL)
    done = recorded(placed(evicted(), replace(gone, phase=type(gone.phase).ENDED), nodes=LABELLED))
    assert done.record.outcome is RunOutcome.INTERRUPTED


def test_a_workload_that_waits_with_a_run_that_it_carries_is_not_evicted() -> None:
    waiting = evicted(run=1, job=mine().id, evicted=None)
    assert not isinstance(step(placed(waiting)), CreateRun)
    assert "RecordRun" not in type(step(placed(waiting))).__name__


def test_an_allocation_that_waits_for_its_first_placement_is_placed() -> None:
    first = replace(evicted(evicted=None), runs=(), allocation=allocation("a100-1"))
    assert step(placed(first)) == CreateRun(first.id, 1)
