"""Who held a rental's GPUs is on the rental: when a run begins, when it leaves, and when its job is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.cost_row import USES_KEPT, CostRecording, Payer, RecordedCost, Use
from charterer.domain.errors import Problem
from charterer.domain.job import Allocation, Job, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import RecordUses
from charterer.domain.time import Instant
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, rental, snapshot, survey

NODE = rental(machine=instance(), ready=at(0))


def uses(rented: Rental, *jobs: Job, now: float = 600, seen: Snapshot | None = None) -> tuple[Use, ...]:
    """Those of the rental after its next step; they stay the same if there is none."""
    made = snapshot(rented, node(), survey(instance()), *jobs, now=at(now)) if seen is None else seen
    step = rental_step(rented.id, LifecycleView.of(made))
    if not isinstance(step, RecordUses):
        return rented.uses
    again = rental_step(rented.id, LifecycleView.of(replace(made, rentals={rented.id: step.after})))
    assert not isinstance(again, RecordUses), "once is enough"
    return step.after.uses


def spans(found: tuple[Use, ...]) -> list[tuple[int, int, Instant, Instant | None]]:
    return [(use.payer.run, use.gpus, use.since, use.until) for use in found]


def over(number: int, since: float, until: float, gpus: int = 4) -> RunRecord:
    held = allocation("a100-1", run=number, gpus=gpus, since=at(since))
    return RunRecord(number, RunOutcome.STOPPED, held.option, held.placements, at(since), at(until), "")


def running(since: float = 100, run: int = 1, gpus: int = 4) -> Allocation:
    return allocation("a100-1", run=run, gpus=gpus, since=at(since))


def test_a_run_that_gets_gpus_and_leaves_them_is_written_down_with_its_job() -> None:
    begun = uses(NODE, job(allocation=running()))
    assert spans(begun) == [(1, 4, at(100), None)]
    assert begun[0].payer == Payer("research", "sft", job().id, 1, "", "", {})
    assert uses(replace(NODE, uses=begun), job(allocation=running())) == begun
    left = uses(replace(NODE, uses=begun), job(records=(over(1, 100, 400),)))
    assert spans(left) == [(1, 4, at(100), at(400))]


def test_all_that_is_different_is_one_step() -> None:
    begun = uses(NODE, job(allocation=running()))
    other = job("other", id="other-uid", allocation=running(since=410, gpus=2))
    both = uses(replace(NODE, uses=begun), job(records=(over(1, 100, 400),)), other)
    assert spans(both) == [(1, 4, at(100), at(400)), (1, 2, at(410), None)]


def test_the_use_of_a_job_that_is_deleted_ends_then_and_stays() -> None:
    begun = uses(NODE, job(allocation=running()))
    gone = uses(replace(NODE, uses=begun), now=700)
    assert spans(gone) == [(1, 4, at(100), at(700))]
    assert uses(replace(NODE, uses=gone), now=800) == gone


def test_a_job_that_cannot_be_read_goes_on_holding_its_gpus() -> None:
    held = replace(NODE, uses=uses(NODE, job(allocation=running())))
    unread = Problem("TrainingJob", "research", "sft", "spec", "Invalid", "it cannot be read")
    seen = replace(snapshot(held, node(), survey(instance())), problems=(unread,))
    assert uses(held, seen=seen) == held.uses
    namesake = job(id="another-uid")
    later = replace(snapshot(held, node(), survey(instance()), namesake), problems=(unread,))
    assert spans(uses(held, seen=later)) == [(1, 4, at(100), at(600))]


def test_a_run_that_is_resized_in_place_had_the_width_before_until_then() -> None:
    begun = uses(NODE, job(allocation=running(gpus=2)))
    resized = uses(replace(NODE, uses=begun), job(allocation=running(since=300, gpus=4)))
    assert spans(resized) == [(1, 2, at(100), at(300)), (1, 4, at(300), None)]


def test_a_run_that_replaces_another_holds_nothing_until_that_has_ended() -> None:
    moved = job(allocation=running(since=200, run=2), replaced=(running(),), last_run=2)
    assert spans(uses(NODE, moved)) == [(1, 4, at(100), None)]


def test_a_job_whose_record_no_longer_has_the_run_before_does_not_hold_its_gpus_twice() -> None:
    before = uses(NODE, job(records=(over(1, 50, 180),), allocation=running(since=150, run=2)))
    assert spans(before) == [(1, 4, at(50), at(180)), (2, 4, at(180), None)]
    held = replace(NODE, uses=before)
    assert uses(held, job(allocation=running(since=150, run=2))) == before
    ended = uses(held, job(records=(over(2, 150, 300),)))
    assert spans(ended) == [(1, 4, at(50), at(180)), (2, 4, at(180), at(300))]


def test_the_payer_is_the_class_the_user_and_the_labels_that_are_recorded() -> None:
    made = job(allocation=running(), labels={"team": "vision", "other": "x"}, user="ann")
    for recording, labels, user in [
        (CostRecording(), {}, ""),
        (CostRecording(labels=("team", "absent"), users=True), {"team": "vision"}, "ann"),
    ]:
        seen = replace(snapshot(NODE, node(), survey(instance()), made), cost_recording=recording)
        (use,) = uses(NODE, seen=seen)
        assert (use.payer.labels, use.payer.user) == (labels, user)


def test_the_oldest_of_too_many_uses_are_dropped_and_since_when_is_said() -> None:
    payer = Payer("research", "short", "uid", 1, "", "", {})
    full = tuple(Use(replace(payer, run=n), 1, at(n), at(n + 1)) for n in range(USES_KEPT))
    seen = snapshot(replace(NODE, uses=full), node(), survey(instance()), job(allocation=running(since=500)))
    step = rental_step(NODE.id, LifecycleView.of(seen))
    assert isinstance(step, RecordUses)
    assert len(step.after.uses) == USES_KEPT
    assert step.after.uses[-1].payer.job == "sft"
    assert (step.after.uses_since, step.after.uses[0].since) == (at(1), at(1))


@pytest.mark.parametrize("until", [100.0, 200.0])
def test_what_was_before_the_record_is_not_added_any_more(until: float) -> None:
    recorded = replace(NODE, recorded=RecordedCost(at(150), Money(1), 1))
    found = uses(recorded, job(records=(over(1, 50, until),)))
    assert bool(found) is (until > 150)


def test_an_ended_machine_learns_how_its_last_run_ended() -> None:
    begun = uses(NODE, job(allocation=running()))
    ended = replace(NODE, phase=RentalPhase.ENDED, ended=at(500), cost=Money(1), uses=begun)
    assert spans(uses(ended, job(records=(over(1, 100, 499),)))) == [(1, 4, at(100), at(499))]
