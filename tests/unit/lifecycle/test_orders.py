"""Clouds that know each order: what is asked for, adopted, given up and closed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import InstanceId
from charterer.domain.money import ZERO
from charterer.domain.order import Ask, Order, Traits
from charterer.domain.pool import Survey
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    MarkEnded,
    MarkMissing,
    PoolStep,
    RecordOrphan,
    SetFinalizer,
    Wait,
    Withdraw,
)
from charterer.lifecycle.next_steps import pool_guard
from charterer.lifecycle.pool import order_token, pool_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from tests import factory as make
from tests.factory import NAMED, POOL, REPLYING, at, cooled, instance, pool, refusal, rental, snapshot

ASKED = rental("a100-1")
LATER = rental("a100-2", created=at(5))
LEAVING = replace(ASKED, phase=RentalPhase.DRAINING, released_because="not needed")
CLOSED = CloseUnfulfilled(replace(LEAVING, phase=RentalPhase.ENDED, cost=ZERO))
COOLING = pool(cooled=cooled(at(700)))
TOKEN, NEXT = order_token(ASKED.uid), order_token(LATER.uid)
EITHER = pytest.mark.parametrize("traits", [NAMED, REPLYING])


def survey(*instances: Any, traits: Traits = NAMED, **changes: Any) -> Survey:
    return replace(make.survey(*instances, traits=traits, **changes), target=None)


def step(snapshot: Snapshot) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    return pool_step(POOL, LifecycleView.of(snapshot))


@EITHER
def test_all_orders_without_a_machine_are_asked_for(traits: Traits) -> None:
    serving = rental("a100-0", instance())
    asked = Ask((Order(TOKEN, ASKED.id), Order(NEXT, LATER.id)), at_least=3)
    assert step(snapshot(survey(instance(), traits=traits), serving, ASKED, LATER)) == AskCloud(POOL, asked)


def test_what_the_cloud_has_on_record_is_waited_for_and_what_it_lacks_is_asked_for() -> None:
    assert isinstance(step(snapshot(survey(ordered=frozenset({TOKEN})), ASKED)), Wait)
    done = step(snapshot(survey(ordered=frozenset({TOKEN})), ASKED, LATER))
    assert isinstance(done, AskCloud)
    assert [order.token for order in done.ask.orders] == [TOKEN, NEXT]


@EITHER
def test_a_machine_is_adopted_by_the_rental_that_it_was_ordered_for(traits: Traits) -> None:
    machine = instance(order=NEXT)
    assert step(snapshot(survey(machine, traits=traits), ASKED, LATER)) == Adopt(LATER.id, machine)


@EITHER
def test_a_machine_of_another_order_or_of_none_is_an_orphan_whoever_waits(traits: Traits) -> None:
    former = order_token("of a rental that had the name before")
    for order in (None, former):
        done = step(snapshot(survey(instance(order=order), traits=traits), ASKED))
        assert isinstance(done, RecordOrphan)


def test_an_order_that_nobody_wants_is_withdrawn_and_only_then_closed() -> None:
    assert step(snapshot(survey(ordered=frozenset({TOKEN})), LEAVING)) == Withdraw(POOL, (TOKEN,), 0)
    assert step(snapshot(survey(), LEAVING)) == CLOSED
    both = frozenset({TOKEN, NEXT})
    assert step(snapshot(survey(ordered=both), LEAVING, LATER)) == Withdraw(POOL, (TOKEN,), 1)


def test_an_order_of_a_rental_that_is_gone_is_withdrawn() -> None:
    assert step(snapshot(survey(ordered=frozenset({TOKEN})))) == Withdraw(POOL, (TOKEN,), 0)


def test_a_cloud_that_does_not_go_on_trying_has_nothing_to_withdraw() -> None:
    assert step(snapshot(survey(traits=REPLYING), LEAVING)) == CLOSED


@EITHER
def test_only_the_refusal_of_an_order_that_waits_cools_the_pool(traits: Traits) -> None:
    past = refusal(5, order=order_token("of another rental"))
    assert isinstance(step(snapshot(survey(traits=traits, refusals=(past,)), ASKED)), AskCloud)
    ours = replace(past, order=TOKEN)
    done = step(snapshot(survey(traits=traits, refusals=(past, ours)), ASKED))
    assert isinstance(done, Cool)
    closed = step(snapshot(survey(traits=traits, refusals=(ours,)), ASKED, COOLING))
    assert isinstance(closed, CloseUnfulfilled)


def test_an_instance_that_the_reply_named_is_not_asked_for_again_and_is_missed_when_it_never_comes() -> None:
    named = replace(ASKED, instance=InstanceId("i1"))
    assert step(snapshot(survey(traits=REPLYING, asked=2), named)) is None
    machine = instance(order=TOKEN)
    assert step(snapshot(survey(machine, traits=REPLYING), named)) == Adopt(ASKED.id, machine)
    lost = replace(named, missing_since=at(60))
    assert step(snapshot(survey(traits=REPLYING, asked=60), named, now=at(60))) == MarkMissing(lost)
    assert isinstance(step(snapshot(survey(traits=REPLYING, asked=120), lost)), MarkEnded)


def test_an_instance_that_the_reply_named_is_not_missed_because_of_a_list_from_before_the_reply() -> None:
    """Or its rental would be closed at no cost, and the machine paid for by nobody."""
    named = replace(ASKED, instance=InstanceId("i1"))
    missed = step(snapshot(survey(traits=REPLYING, asked=10), named, now=at(80)))
    assert missed == MarkMissing(replace(named, missing_since=at(80)))
    again = snapshot(survey(traits=REPLYING, asked=82), missed.after, now=at(82))
    assert not isinstance(step(again), CloseUnfulfilled)


def test_an_instance_that_is_listed_again_before_its_turn_to_be_adopted_is_missed_no_more() -> None:
    """A pool adopts one at a time; a second incomplete list, later, must not count as the second that lacks it."""
    missed = replace(LATER, instance=InstanceId("i2"), missing_since=at(60))
    first, second = instance(order=TOKEN), instance("i2", order=NEXT)
    seen = snapshot(survey(first, second, traits=REPLYING), replace(ASKED, instance=InstanceId("i1")), missed)
    assert step(seen) == Adopt(ASKED.id, first)
    assert rental_step(missed.id, LifecycleView.of(seen)) == MarkMissing(replace(missed, missing_since=None))


@pytest.mark.parametrize(
    ("asked", "now", "kept"),
    [(119, 130, True), (120, 130, False), (0, 599, True), (0, 600, False)],
)
def test_a_deleted_pool_is_kept_until_a_list_must_show_what_was_asked_for_last(
    asked: float, now: float, kept: bool
) -> None:
    """A machine whose answer was lost would be billed, and nobody would ask about that group any more."""
    listed = survey(traits=replace(REPLYING, lag_seconds=60.0), asked=asked)
    leaving = pool(deleting=True, deleted=at(0), guarded=True)
    guard = pool_guard(POOL, LifecycleView.of(snapshot(listed, leaving, now=at(now))))
    assert isinstance(guard, Wait if kept else SetFinalizer)


def test_a_pool_is_kept_while_the_cloud_has_orders_of_it() -> None:
    leaving = pool(deleting=True)
    kept = pool_guard(POOL, LifecycleView.of(snapshot(survey(ordered=frozenset({TOKEN})), leaving)))
    assert kept == Wait(f"1 order ({TOKEN}) to be gone")
