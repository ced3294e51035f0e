"""Interactive jobs with the real Job controller: a GPU is given when asked for, and given back when no cell runs."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.cluster.client import RawObject
from charterer.cluster.paths import TRAINING_JOBS
from tests.cluster.test_in_place import Pods
from tests.testbed.bed import Bed
from tests.testbed.operators import Killer, OperatorProcess

_IDLE_SECONDS = 1.0


def told(bed: Bed) -> RawObject:
    """What the status says of the notebook's sessions."""
    found: RawObject = bed.tj("nb").get("interactive") or {}
    return found


async def _asks(bed: Bed, asks: int) -> None:
    await bed.kube.merge_patch(TRAINING_JOBS.one("nb", bed.namespace), {"spec": {"interactive": {"asks": asks}}})


async def _ground(bed: Bed, **interactive: Any) -> None:
    """A notebook that nobody has asked for a GPU yet, and nothing rented for it."""
    await bed.pool()
    await bed.budget()
    await bed.job("nb", interactive={"idleSeconds": _IDLE_SECONDS, **interactive})
    await bed.until(lambda: bed.state("nb") == "Idle")
    assert bed.rentals() == []
    assert bed.tj("nb")["why"] == "NoGPUWanted"


async def _works(bed: Bed, worker: Pods, *, until_given_back: int) -> None:
    """A cell runs, then none, until the GPU has gone back and that ask is answered."""
    await worker.says(busy=True)
    await worker.says(busy=False)
    await bed.until(lambda: told(bed).get("answered") == until_given_back)


async def _two_sessions(bed: Bed, operator: OperatorProcess) -> None:
    worker = Pods(bed, "nb", operator)
    await _asks(bed, 1)
    await bed.running("nb", seconds=120)
    assert bed.run("nb") == 1
    await _works(bed, worker, until_given_back=1)
    await bed.until(lambda: bed.state("nb") == "Idle", 120)
    await _asks(bed, 2)
    await bed.running_again("nb", 1, seconds=120)
    await _works(bed, worker, until_given_back=2)
    await bed.until(lambda: bed.state("nb") == "Idle" and len(bed.tj("nb").get("runs", [])) == 2, 120)
    outcomes = [run["outcome"] for run in bed.tj("nb")["runs"]]
    assert outcomes == ["Stopped", "Stopped"]
    assert bed.tj("nb").get("failures", 0) == 0
    assert "finish" not in bed.tj("nb")


@pytest.mark.repeats  # as the next test, which kills the operator
async def test_a_gpu_is_given_when_asked_for_and_given_back_when_no_cell_runs(bed: Bed) -> None:
    operator = bed.operator()
    await _ground(bed)
    await _two_sessions(bed, operator)
    status = told(bed)
    assert status["busySeconds"] + status["idleSeconds"] > 0
    assert status["startSeconds"] > 0
    assert float(status.get("busyCost", "0")) + float(status.get("idleCost", "0")) <= float(bed.tj("nb")["cost"]) + 0.01
    await bed.until(lambda: not bed.rentals("Ready"))


async def test_killed_around_each_step_a_session_is_neither_lost_nor_given_twice(bed: Bed) -> None:
    steps = frozenset({"Allocate", "CreateRun", "Unsuspend", "StopRun", "RecordRun"})
    journal = bed.directory / "journal"
    operator = bed.operator(killer=Killer(journal, steps))
    async with operator.revived():
        await _ground(bed)
        await _two_sessions(bed, operator)
    assert set(journal.read_text().splitlines()) == {f"{when} {kind}" for when in ("before", "after") for kind in steps}


@pytest.mark.repeats  # tests/unit/lifecycle/test_session_ends.py
async def test_a_worker_that_ends_by_itself_ends_the_session_and_not_the_job(bed: Bed) -> None:
    bed.operator()
    await _ground(bed)
    await _asks(bed, 1)
    await bed.running("nb", seconds=120)
    await bed.finish("nb")
    await bed.until(lambda: bed.state("nb") == "Idle", 120)
    assert told(bed)["answered"] == 1
    await _asks(bed, 2)
    await bed.running_again("nb", 1, seconds=120)
    await bed.finish("nb", exit_code=1)
    await bed.until(lambda: bed.tj("nb").get("failures") == 1 and bed.tj("nb")["why"] == "BackOff", 120)
    assert told(bed)["answered"] == 1


async def test_an_ask_while_the_gpu_is_given_back_gets_the_next_one(bed: Bed) -> None:
    operator = bed.operator()
    await _ground(bed)
    await _asks(bed, 1)
    await bed.running("nb", seconds=120)
    worker = Pods(bed, "nb", operator)
    await worker.says(busy=False)
    await bed.until(lambda: told(bed).get("answered") == 1)
    await _asks(bed, 2)
    await bed.running_again("nb", 1, seconds=120)
    assert told(bed)["answered"] == 1
    assert [run["outcome"] for run in bed.tj("nb")["runs"]] == ["Stopped"]
