"""A run begins after all pods of those before it, ends with the last of its own, and any machine may be the cause."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.job import RunOutcome
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import Wait
from tests.factory import allocation, at, node, pod, run
from tests.unit.lifecycle.test_run import (
    BROKEN,
    DONE,
    KEY,
    LABELLED,
    RENTALS,
    WIDE,
    mine,
    placed,
    record,
    recorded,
    step,
)

BOTH_LABELLED = (LABELLED[0], node("i2", run_labels={KEY: "r1"}))


def test_a_run_has_ended_when_the_last_of_its_pods_has() -> None:
    late = replace(DONE, index=1, name="sft-r1-1", finished=at(150))
    for pods in ((DONE, late), (late, DONE)):
        complete = mine(run(1, *pods, complete=at(151)), intent=WIDE)
        assert recorded(placed(complete, nodes=BOTH_LABELLED)).record.until == at(150)


def test_a_machine_that_has_ended_is_the_cause_though_another_is_still_to_be_looked_at() -> None:
    failing = mine(run(1, BROKEN, failed=at(100)), intent=WIDE)
    over = replace(RENTALS[1], phase=RentalPhase.ENDED)
    done = recorded(placed(failing, RENTALS[0], over, nodes=BOTH_LABELLED, asked=50, now=110))
    assert done.record.outcome is RunOutcome.INTERRUPTED
    assert done.record.message == "instance i2, the machine of a100-2, has ended"


def test_the_next_run_waits_for_the_pods_of_every_run_before_it() -> None:
    lingering, recorded_too = run(1, pod(deleting=True), suspended=True, deleting=True), run(2, suspended=True)
    third = run(3, suspended=True, started=None)
    intent = allocation("a100-2", run=3)
    placed_anew = mine(lingering, recorded_too, third, intent=intent, records=(record(1), record(2)))
    waiting = step(placed(placed_anew, nodes=(node(), node("i2", run_labels={KEY: "r3"}))))
    assert waiting == Wait("the pods of sft-r1 to end")
