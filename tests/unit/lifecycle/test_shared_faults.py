"""Two jobs on one GPU fail together: under MPS nobody knows whose fault it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.pod import PodPhase
from charterer.domain.pool import Partition, Pool
from tests.factory import allocation, at, job, pod, pool, run
from tests.unit.lifecycle.test_run import ONE, mine, placed, recorded

FAILED: dict[str, Any] = {"phase": PodPhase.FAILED, "exit_code": 1}
MINE = mine(run(1, pod(**FAILED, finished=at(98)), failed=at(100)))


def shared(profile: str) -> Pool:
    return pool(partition=Partition(profile))


def beside(finished: float, rental: str = "a100-1") -> Job:
    failed = run(1, pod(**FAILED, job="other", finished=at(finished)), job="other", failed=at(finished + 2))
    return job("other", allocation=allocation(rental), runs=(failed,), last_run=1)


def test_runs_that_fail_together_on_gpus_of_both_are_interrupted() -> None:
    done = recorded(placed(MINE, beside(99), shared("mps-2")))
    assert done.record.outcome is RunOutcome.INTERRUPTED
    assert done.record.message == "research/other, with which it shares GPUs by MPS, failed in the same moment"


def test_so_is_one_whose_partners_end_is_on_record_already() -> None:
    past = RunRecord(1, RunOutcome.INTERRUPTED, ONE.option, ONE.placements, ONE.since, at(97), "")
    done = recorded(placed(MINE, job("other", records=(past,), last_run=1), shared("mps-2")))
    assert done.record.outcome is RunOutcome.INTERRUPTED


@pytest.mark.parametrize(
    "things",
    [
        (beside(99), shared("shared-2")),  # they take turns: a fault is its own
        (beside(99), pool()),
        (beside(95), shared("mps-2")),
        (beside(99, "a100-2"), shared("mps-2")),
        (shared("mps-2"),),
        (replace(beside(99), allocation=None, runs=()), shared("mps-2")),
    ],
)
def test_any_other_failure_is_the_jobs_own(things: tuple[Any, ...]) -> None:
    assert recorded(placed(MINE, *things)).record.outcome is RunOutcome.FAILED
