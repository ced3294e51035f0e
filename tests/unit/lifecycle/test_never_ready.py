"""A machine that never became a ready node makes its pool wait before it is asked for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.order import RefusalKind, cool_down
from charterer.domain.pool import CapacityType, Pool
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.steps import Cool, MarkEnded, MarkMissing, PoolStep, Wait
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.view import LifecycleView
from tests.factory import POOL, at, instance, pool, refusal, rental, snapshot, survey

_REGISTERED = 900.0
"""Seconds after which a machine without a Node is given up."""
COOLDOWN = 60.0


def given_up(number: int, created: float, because: str = "LostNode", **changes: Any) -> Rental:
    """A rental of a machine that was launched when it was asked for, and never ready."""
    machine = instance(f"i{number}", launched=at(created))
    fields = {"phase": RentalPhase.DRAINING, "created": at(created), "ready": None, "released_because": because}
    return rental(f"a100-{number}", machine, **(fields | changes))


def step(there: Pool, *rentals: Rental, now: float) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    machines = [
        instance(row.instance, launched=row.launched) for row in rentals if row.instance and row.launched is not None
    ]
    listed = survey(*machines, asked=now, target=len(machines))
    return pool_step(POOL, LifecycleView.of(snapshot(there, listed, *rentals, now=at(now))))


def test_a_machine_that_was_given_up_before_it_was_ready_cools_its_pool() -> None:
    done = step(pool(cooldown_seconds=COOLDOWN), given_up(1, 0), now=_REGISTERED)
    assert isinstance(done, Cool)
    assert (done.cool_down.kind, done.cool_down.code) == (RefusalKind.NEVER_READY, "LostNode")
    assert done.cool_down.until == at(_REGISTERED + COOLDOWN)
    assert "instance i1 ended, and its Node was never ready" in done.cool_down.message


def test_each_further_machine_that_is_never_ready_cools_the_pool_twice_as_long() -> None:
    """Or a wrong image would be paid for all day, a quarter of an hour at a time."""
    there, now, paid, lasts = pool(cooldown_seconds=COOLDOWN), 0.0, 0.0, []
    for number in range(10):
        machine = given_up(number, now)
        now, paid = now + _REGISTERED, paid + _REGISTERED
        done = step(there, machine, now=now)
        assert isinstance(done, Cool)
        there = replace(there, cooled=(done.cool_down,))
        lasts.append(done.cool_down.seconds)
        now += done.cool_down.seconds
        assert not isinstance(step(there, machine, now=now), Cool), "one machine cools the pool once"
    assert lasts == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600]


def test_machines_that_were_asked_for_before_the_pool_cooled_cool_it_no_more() -> None:
    first = step(pool(), given_up(1, 0), given_up(2, 1), now=_REGISTERED)
    assert isinstance(first, Cool)
    cooled = pool(cooled=(first.cool_down,))
    assert not isinstance(step(cooled, given_up(1, 0), given_up(2, 1), now=2 * _REGISTERED), Cool)


def test_a_machine_that_is_ready_shows_that_the_pool_is_well() -> None:
    ready = rental("a100-2", instance("i2", launched=at(100)), ready=at(200))
    assert not isinstance(step(pool(), given_up(1, 0), ready, now=_REGISTERED), Cool)
    again = given_up(3, 300)
    failed = refusal(50, kind=RefusalKind.NEVER_READY, where=POOL)
    before = cool_down((), failed, COOLDOWN, at(50), None)
    done = step(pool(cooldown_seconds=COOLDOWN, cooled=(before,)), ready, again, now=1_200)
    assert isinstance(done, Cool)
    assert done.cool_down.times == 1


@pytest.mark.parametrize("because", ["Idle", "Stopped", "Deleted"])
def test_a_machine_that_was_given_back_while_it_booted_says_nothing_of_the_pool(because: str) -> None:
    assert not isinstance(step(pool(), given_up(1, 0, because), now=30), Cool)


@pytest.mark.parametrize("because", ["InstanceEnded", "Vanished", "Interruption"])
@pytest.mark.parametrize(("sold", "cools"), [(CapacityType.ON_DEMAND, True), (CapacityType.SPOT, False)])
def test_only_a_spot_machine_may_be_taken_back_while_it_boots(sold: CapacityType, cools: bool, because: str) -> None:
    machine = given_up(1, 0, because, capacity_type=sold)
    assert isinstance(step(pool(capacity_type=sold), machine, now=30), Cool) == cools
