"""A released machine ends within a bounded time, whatever keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.job import Job
from charterer.domain.plan import ReasonCode
from charterer.domain.pod import PodPhase
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node, Snapshot
from charterer.domain.steps import AskCloud, RentalStep, Terminate, Wait
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.rental import may_terminate, rental_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import POOL, allocation, at, instance, job, node, pod, rental, run, snapshot, survey, with_uses

MACHINE = instance()
RELEASED = rental(machine=MACHINE, phase=RentalPhase.DRAINING, released=at(1000))
LIMITED = replace(RELEASED, released_because=ReasonCode.HARD_LIMIT.value)
CORDONED = node(unschedulable=True)
CROWDED = node(unschedulable=True, foreign_gpus=2)


def seen(now: float, *things: Node | Job, one: Rental = RELEASED) -> Snapshot:
    return snapshot(one, survey(MACHINE, asked=now), *things, now=at(now))


def step(now: float, *things: Node | Job, one: Rental = RELEASED) -> RentalStep | Wait | None:
    return rental_step(one.id, LifecycleView.of(with_uses(seen(now, *things, one=one))))


def test_pods_of_others_are_asked_to_leave_at_once_and_keep_a_machine_for_ten_minutes() -> None:
    done = step(1001, CORDONED)
    assert isinstance(done, Terminate)
    assert (done.evict_from, done.patience_until) == (at(1000), at(1600))


def test_pods_of_others_with_gpus_are_asked_to_leave_after_an_hour() -> None:
    done = step(1001, CROWDED)
    assert isinstance(done, Terminate)
    assert (done.evict_from, done.patience_until) == (at(4600), at(5200))


@pytest.mark.parametrize("place", [CORDONED, CROWDED])
def test_a_hard_limit_leaves_them_a_minute(place: Node) -> None:
    done = step(1001, place, one=LIMITED)
    assert isinstance(done, Terminate)
    assert (done.evict_from, done.patience_until) == (at(1000), at(1060))


@pytest.mark.parametrize(("one", "seconds"), [(RELEASED, 630), (LIMITED, 90)])
def test_pods_of_a_run_keep_a_machine_no_longer_than_their_grace_and_the_patience(one: Rental, seconds: int) -> None:
    endless = job(runs=(run(1, pod()),))
    waits = step(1000 + seconds - 1, CORDONED, endless, one=one)
    assert isinstance(waits, Wait)
    assert waits.until == at(1000 + seconds)
    done = step(1000 + seconds, CORDONED, endless, one=one)
    assert isinstance(done, Terminate)
    assert done.patience_until == at(1000 + seconds)


def test_a_run_whose_end_cannot_be_recorded_does_not_keep_a_machine_for_ever() -> None:
    proof = job(runs=(run(1, pod(phase=PodPhase.SUCCEEDED)),), replaced=(allocation(RELEASED.id),))
    assert isinstance(step(1629, CORDONED, proof), Wait)
    assert isinstance(step(1630, CORDONED, proof), Terminate)
    unrecorded = job(replaced=(allocation(RELEASED.id),))
    assert isinstance(step(1629, CORDONED, unrecorded), Wait)
    assert isinstance(step(1630, CORDONED, unrecorded), Terminate)


def test_a_machine_that_others_hold_counts_in_the_target_until_patience_has_ended() -> None:
    held = replace(RELEASED, held_by="evil/squatter")
    waiting = rental("a100-2")
    for now, one, place, target in [
        (1001, RELEASED, CORDONED, 1),
        (1001, held, CORDONED, 2),
        (1600, held, CORDONED, 1),
        (1001, RELEASED, CROWDED, 2),
    ]:
        before = snapshot(one, waiting, survey(MACHINE, asked=now, target=0), place, now=at(now))
        raised = pool_step(POOL, LifecycleView.of(before))
        assert isinstance(raised, AskCloud)
        assert raised.ask.at_least == target
        assert may_terminate(one, LifecycleView.of(before)) is (target == 1)
