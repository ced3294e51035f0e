"""Who held a rental's GPUs is on the rental: when a run begins, when it leaves, and when its job is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import JobTime
from charterer.domain.cost_row import SPELLS_KEPT, USES_KEPT, CostRecording, Parts, Payer, RecordedCost, Spell, Use
from charterer.domain.errors import Problem
from charterer.domain.job import Allocation, Job, RunOutcome, RunRecord
from charterer.domain.money import Money
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.reports import Bottleneck, BottleneckKind, Progress
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import RecordUses
from charterer.domain.time import Instant
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import allocation, at, instance, job, node, pod, rental, run, snapshot, survey

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


def reporting(lost: float = 0.0, kind: BottleneckKind = BottleneckKind.INPUT_STARVED) -> Job:
    found = (Bottleneck(kind, 1, lost, lost),) if lost else ()
    progress = Progress(1, 0.5, None, None, at(550))
    return job(allocation=running(), runs=(run(1, pod()),), progress=progress, bottlenecks=found)


def spells(found: tuple[Use, ...]) -> list[tuple[Instant, Parts]]:
    return [(spell.since, spell.parts) for use in found for spell in use.spells]


STARTS: Parts = ((JobTime.RUN_START, 1000),)
TRAINS: Parts = ((JobTime.TRAINED, 1000),)


def test_what_the_gpus_do_is_a_spell_from_when_it_is_seen() -> None:
    begun = uses(NODE, job(allocation=running()))
    assert spells(begun) == [(at(100), STARTS)]
    trains = uses(replace(NODE, uses=begun), reporting(), now=600)
    assert spells(trains) == [(at(100), STARTS), (at(600), TRAINS)]
    starved = uses(replace(NODE, uses=trains), reporting(0.25), now=900)
    assert spells(starved)[2:] == [(at(900), ((JobTime.STARVED, 250), (JobTime.TRAINED, 750)))]
    over_now = uses(replace(NODE, uses=starved), job(records=(over(1, 100, 950),)), now=960)
    assert spells(over_now) == spells(starved)


@pytest.mark.parametrize(("lost", "spell"), [(0.25, False), (0.34, False), (0.36, True), (0.15, True)])
def test_a_little_more_or_less_is_no_new_spell(lost: float, spell: bool) -> None:
    starved = uses(NODE, reporting(0.25), now=600)
    assert (uses(replace(NODE, uses=starved), reporting(lost), now=900) != starved) is spell


def test_the_last_of_too_many_spells_says_that_nothing_is_known() -> None:
    held = uses(NODE, reporting(), now=600)
    for number in range(SPELLS_KEPT + 3):
        held = uses(replace(NODE, uses=held), reporting(0.0 if number % 2 else 0.5), now=700 + number)
    assert len(held[0].spells) == SPELLS_KEPT
    assert held[0].spells[-1].parts == ()


def test_spells_that_are_on_record_make_room_for_new_ones() -> None:
    old = tuple(Spell(at(100 + number), TRAINS if number % 2 else STARTS) for number in range(SPELLS_KEPT - 1))
    use = replace(uses(NODE, reporting(), now=600)[0], spells=old)
    recorded = replace(NODE, uses=(use,), recorded=RecordedCost(at(120), Money(1), 1))
    later = uses(recorded, reporting(0.5), now=900)
    assert [since for since, _ in spells(later)] == [at(n) for n in range(120, 100 + SPELLS_KEPT - 1)] + [at(900)]
    assert later[0].did(at(120)) == use.did(at(120))


def test_the_next_width_of_a_run_in_place_has_spells_of_its_own() -> None:
    begun = uses(NODE, reporting(), now=600)
    wider = replace(reporting(), allocation=running(since=650, gpus=8))
    later = uses(replace(NODE, uses=begun), wider, now=700)
    assert [(use.gpus, use.spells[-1].parts) for use in later] == [(4, TRAINS), (8, TRAINS)]
