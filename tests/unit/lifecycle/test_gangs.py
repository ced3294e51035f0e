"""Rentals of nodes that a job needs at once are asked for together, and not waited for without end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import InstanceId
from charterer.domain.order import Order, RefusalKind, Traits
from charterer.domain.pool import Survey
from charterer.domain.rental import Gang, Rental, RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.steps import (
    Adopt,
    AskCloud,
    CloseUnfulfilled,
    Cool,
    MarkEnded,
    MarkMissing,
    PoolStep,
    Wait,
    Withdraw,
)
from charterer.lifecycle.pool import order_token, pool_step
from charterer.lifecycle.view import LifecycleView
from tests import factory as make
from tests.factory import COUNTED, NAMED, POOL, REPLYING, at, cooled, instance, job, pool, refusal, rental, snapshot

GANG = Gang("sft-1", job().id, "research/sft", 3)
MEMBERS = tuple(rental(f"a100-{number}", gang=GANG) for number in (2, 3, 4))
ALONE = rental("a100-1")
LATER = rental("a100-9", created=at(1))
TOKENS = [order_token(member.uid) for member in MEMBERS]
LAUNCHES_ALL_OR_NONE = pytest.mark.parametrize("traits", [NAMED, REPLYING])


def survey(*instances: Any, traits: Traits = NAMED, **changes: Any) -> Survey:
    return replace(make.survey(*instances, traits=traits, **changes), target=None)


def step(snapshot: Snapshot) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
    return pool_step(POOL, LifecycleView.of(snapshot))


def orders(*rentals: Rental) -> tuple[Order, ...]:
    return tuple(Order(order_token(each.uid), each.id) for each in rentals)


def launched(member: Rental, name: str) -> Rental:
    return replace(member, phase=RentalPhase.STARTING, instance=InstanceId(name), launched=at(0))


@LAUNCHES_ALL_OR_NONE
def test_each_gang_is_asked_for_by_itself_and_together(traits: Traits) -> None:
    asked = step(snapshot(survey(traits=traits), ALONE, *MEMBERS, LATER))
    assert isinstance(asked, AskCloud)
    assert (asked.ask.orders, asked.ask.together) == (orders(ALONE, LATER), False)
    asked = step(snapshot(survey(traits=traits), *MEMBERS, LATER))
    assert isinstance(asked, AskCloud)
    assert (asked.ask.orders, asked.ask.together) == (orders(*MEMBERS), True)


def test_what_is_on_record_lets_the_next_gang_be_asked_for() -> None:
    other = Gang("sft-2", job().id, "research/sft", 2)
    pair = [replace(rental(f"a100-{number}"), gang=other, created=at(2)) for number in (5, 6)]
    asked = step(snapshot(survey(ordered=frozenset(TOKENS)), *MEMBERS, *pair))
    assert isinstance(asked, AskCloud)
    assert (asked.ask.orders, asked.ask.together) == (orders(*pair), True)


@pytest.mark.parametrize("traits", [COUNTED, replace(NAMED, together=False), replace(REPLYING, together=False)])
def test_a_cloud_that_cannot_is_asked_for_everything_at_once(traits: Traits) -> None:
    cloud = make.survey(traits=COUNTED) if traits == COUNTED else survey(traits=traits)
    asked = step(snapshot(cloud, ALONE, *MEMBERS))
    assert isinstance(asked, AskCloud)
    assert (asked.ask.orders, asked.ask.together, asked.ask.at_least) == (orders(ALONE, *MEMBERS), False, 4)


@pytest.mark.parametrize("traits", [NAMED, REPLYING, replace(NAMED, together=False)])
def test_a_gang_that_lacks_a_rental_is_not_asked_for(traits: Traits) -> None:
    waits = step(snapshot(survey(traits=traits), *MEMBERS[1:]))
    assert waits == Wait("all rentals of the 3 that research/sft needs at once")
    asked = step(snapshot(survey(traits=traits), *MEMBERS[1:], LATER))
    assert isinstance(asked, AskCloud)
    assert asked.ask.orders == orders(LATER)


def test_a_counting_cloud_is_not_asked_for_a_gang_that_lacks_a_rental() -> None:
    asked = step(snapshot(make.survey(traits=COUNTED), *MEMBERS[1:], LATER))
    assert isinstance(asked, AskCloud)
    assert asked.ask.at_least == 1


def test_when_one_of_a_gang_is_deleted_the_orders_of_all_are_withdrawn_before_the_gang_is_asked_for_anew() -> None:
    deleted, new = replace(MEMBERS[0], deleting=True), rental("a100-5", gang=GANG)
    cloud = survey(ordered=frozenset(TOKENS))
    assert step(snapshot(cloud, deleted, *MEMBERS[1:])) == Withdraw(POOL, tuple(sorted(TOKENS)), 0)
    assert step(snapshot(cloud, deleted, *MEMBERS[1:], new)) == Withdraw(POOL, tuple(sorted(TOKENS)), 0)
    asked = step(snapshot(survey(), *MEMBERS[1:], new))
    assert isinstance(asked, AskCloud)
    assert (asked.ask.orders, asked.ask.together) == (orders(*MEMBERS[1:], new), True)


def test_a_replacement_for_a_machine_of_a_gang_is_asked_for() -> None:
    there = [launched(member, f"i{number}") for number, member in enumerate(MEMBERS[1:])]
    machines = [instance(name, order=order_token(member.uid)) for name, member in zip(("i0", "i1"), there, strict=True)]
    asked = step(snapshot(survey(*machines), *there, replace(MEMBERS[0], created=at(590))))
    assert isinstance(asked, AskCloud)
    assert asked.ask.orders == orders(MEMBERS[0])


@LAUNCHES_ALL_OR_NONE
def test_a_refusal_of_one_is_a_refusal_of_all(traits: Traits) -> None:
    refused = tuple(refusal(5, order=token) for token in TOKENS)
    assert isinstance(step(snapshot(survey(traits=traits, refusals=refused), *MEMBERS)), Cool)
    closed = step(snapshot(survey(traits=traits, refusals=refused), *MEMBERS, pool(cooled=cooled(at(700)))))
    assert isinstance(closed, CloseUnfulfilled)


def test_machines_of_a_counting_cloud_complete_one_gang_before_the_next() -> None:
    """Names of rentals sort in their own way: a100-10 comes before a100-2."""
    other = Gang("sft-2", job().id, "research/sft", 2)
    first, last = rental("a100-1", gang=other), rental("a100-5", gang=other)
    adopted = replace(first, phase=RentalPhase.STARTING, instance=InstanceId("i1"), launched=at(0))
    cloud = make.survey(instance(), instance("i2"), target=5, traits=COUNTED)
    assert step(snapshot(cloud, first, *MEMBERS, last)) == Adopt(first.id, instance())
    waiting = [replace(member, created=at(1)) for member in MEMBERS]
    assert step(snapshot(cloud, adopted, *waiting, last)) == Adopt(last.id, instance("i2"))


@pytest.mark.parametrize("traits", [NAMED, REPLYING, COUNTED])
def test_the_rest_of_a_gang_is_not_waited_for_longer_than_a_start_takes(traits: Traits) -> None:
    there = launched(MEMBERS[0], "i1")
    machine = instance(order=TOKENS[0])

    def at_second(seconds: float) -> PoolStep | MarkMissing | MarkEnded | Wait | None:
        asked: dict[str, Any] = {"asked": seconds, "traits": traits, "ordered": frozenset(TOKENS[1:])}
        cloud = make.survey(machine, target=3, **asked) if traits is COUNTED else survey(machine, **asked)
        return step(snapshot(cloud, there, *MEMBERS[1:], now=at(seconds)))

    waits = at_second(119)
    assert isinstance(waits, Wait)
    assert waits.until == at(120)
    given_up = at_second(120)
    assert isinstance(given_up, Cool)
    assert (given_up.cool_down.kind, given_up.cool_down.code) == (RefusalKind.LAUNCH_FAILED, "IncompleteGang")
    assert given_up.cool_down.message == "1 of the 3 nodes that research/sft needs at once came in time"


def test_a_gang_without_any_machine_is_waited_for_because_it_costs_nothing() -> None:
    assert isinstance(step(snapshot(survey(ordered=frozenset(TOKENS), asked=9_000), *MEMBERS, now=at(9_000))), Wait)


def test_machines_of_an_incomplete_gang_do_not_show_that_the_offer_is_back() -> None:
    """Or a pool that is one node short would be asked for all of them every minute, for ever."""
    before = cooled(at(60), 60.0)
    refused = refusal(100, order=TOKENS[0])
    there = replace(launched(MEMBERS[1], "i1"), launched=at(90))
    machine = instance(launched=at(90), order=TOKENS[1])
    again = snapshot(
        survey(machine, refusals=(refused,), asked=100),
        there,
        *(replace(member, created=at(90)) for member in (MEMBERS[0], MEMBERS[2])),
        job(),
        pool(cooled=before),
        now=at(100),
    )
    cool = step(again)
    assert isinstance(cool, Cool)
    assert cool.cool_down.times == 2
    useful = replace(there, gang=None)
    alone = step(replace(again, rentals={**again.rentals, useful.id: useful}))
    assert isinstance(alone, Cool)
    assert alone.cool_down.times == 1


@pytest.mark.parametrize(("came", "seconds"), [(True, 1200.0), (False, 900.0)])
def test_a_stock_out_is_asked_for_less_often_where_machines_of_a_gang_came_in_vain(came: bool, seconds: float) -> None:
    there = launched(MEMBERS[1], "i1") if came else MEMBERS[1]
    machines = [instance(order=TOKENS[1])] if came else []
    refused = (refusal(700, order=TOKENS[0]),)
    members = (MEMBERS[0], there, MEMBERS[2])
    cloud = survey(*machines, refusals=refused, asked=700)
    cool = step(snapshot(cloud, *members, job(), pool(cooled=cooled(at(700), 600.0, times=2)), now=at(700)))
    assert isinstance(cool, Cool)
    assert cool.cool_down.seconds == seconds
