"""No object is given back while a machine that is about to be given back, too, takes pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import Mode
from charterer.domain.ids import JobId
from charterer.domain.job import Finish, FinishKind, Job, RunOutcome, RunRecord
from charterer.domain.pool import Commitment
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import AdoptionCandidate, Stop
from charterer.domain.steps import Cordon, EndTarget, GiveBack, LetGo, MarkDraining, RunStep, Wait
from charterer.domain.target import Target, TargetRef
from charterer.lifecycle.adopted import adopt_step
from charterer.lifecycle.run import run_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import TEAM, allocation, at, budget, instance, job, node, pool, rental, snapshot

REF = TargetRef("batch/v1", "Job", "sft", "object-1")
HELD = Target(REF, "research", "7", at(0), suspended=True, placeable=True, held=True)
OPEN, READY = node("i1"), rental("a100-1", instance("i1"))
MARKED = MarkDraining(READY.id, "NotAdopted")
CLOSED = Cordon(READY.id, OPEN.name, OPEN.uid, READY.uid)
ONE = allocation("a100-1")
RECORD = RunRecord(1, RunOutcome.STOPPED, ONE.option, ONE.placements, ONE.since, at(1), "")
GIVEN_UP = Finish(FinishKind.FAILED, at(100), "CannotStart", "3 runs in a row never started")


def left(carried: Target | None = None, **changes: Any) -> Job:
    """The job of an object that ran on the machine, and has not the label any more."""
    return job(target=REF, adopted=carried, records=(RECORD,), last_run=1, **changes)


def step(mine: Job, *things: Any, **world: Any) -> RunStep | Wait | None:
    view = LifecycleView.of(replace(snapshot(mine, *things), **world))
    return run_step(mine.id, replace(view, settled=dict.fromkeys(view.settled, True)))


def closes(*things: Any, **world: Any) -> object:
    done = step(left(), *things, **world)
    assert isinstance(done, GiveBack)
    return done.closes


def test_what_only_it_used_is_given_back_and_closed_before() -> None:
    assert closes(READY, OPEN) == (MARKED, CLOSED)
    assert closes(rental("a100-1", instance("i1"), phase=RentalPhase.STARTING)) == (MARKED,)  # its Node comes later
    drains = rental("a100-1", instance("i1"), phase=RentalPhase.DRAINING)
    assert closes(drains, OPEN) == (CLOSED,)
    assert closes(drains, node("i1", unschedulable=True)) == ()
    assert closes(rental("a100-1", instance("i1"), phase=RentalPhase.ENDED)) == ()
    assert closes() == ()


def test_what_others_use_is_paid_for_anyway_or_is_only_observed_stays_open() -> None:
    other = job("other", id=JobId("other"), allocation=allocation("a100-1"), last_run=1)
    assert closes(READY, OPEN, other) == ()
    left_by_it = replace(other, allocation=None, records=(RECORD,))
    assert closes(READY, OPEN, left_by_it) == (MARKED, CLOSED)
    assert closes(READY, OPEN, pool(committed=Commitment(at(9), TEAM))) == ()
    assert closes(READY, OPEN, budget(mode=Mode.OBSERVE)) == ()


def test_an_object_that_is_given_up_is_given_back_in_the_same_order() -> None:
    done = step(left(replace(HELD, job=job().id, run=1), finish=GIVEN_UP), READY, OPEN)
    assert done == EndTarget(job().id, (MARKED, CLOSED))


def let_go(*things: Any, **world: Any) -> object:
    view = LifecycleView.of(replace(snapshot(*things), stop=Stop.DRAIN, **world))
    return adopt_step(AdoptionCandidate(HELD, TEAM), view)


@pytest.mark.parametrize(
    ("things", "waits"),
    [
        ((READY, OPEN), True),
        ((replace(READY, phase=RentalPhase.DRAINING, released=at(0)), OPEN), True),
        ((replace(READY, phase=RentalPhase.DRAINING, released=at(0)), node("i1", unschedulable=True)), False),
        ((replace(READY, phase=RentalPhase.ENDED), OPEN), False),
        ((replace(READY, phase=RentalPhase.REQUESTED, instance=None, provider_id="", node=None),), False),
    ],
    ids=["not marked", "open", "closed", "ended", "no machine"],
)
def test_while_all_is_drained_nothing_is_given_back_before_all_nodes_are_closed(things: Any, waits: bool) -> None:
    assert isinstance(let_go(*things, now=at(10)), Wait) is waits
    assert isinstance(step(left(HELD), *things, stop=Stop.DRAIN, now=at(10)), Wait) is waits


def test_a_node_that_cannot_be_closed_holds_nothing_up_for_good() -> None:
    drains = replace(READY, phase=RentalPhase.DRAINING, released=at(0))
    waits = let_go(drains, OPEN, now=at(10))
    assert isinstance(waits, Wait)
    assert waits.until == at(60)
    assert let_go(drains, OPEN, now=at(60)) == LetGo(HELD)
