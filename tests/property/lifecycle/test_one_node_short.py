"""A cloud with one node fewer than a job needs at once, and what it costs until the machines are given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import Cause
from charterer.domain.job import Job, Widths
from charterer.domain.money import ZERO, Money
from charterer.domain.order import Traits
from charterer.domain.time import seconds_between
from tests import factory as make
from tests.property.lifecycle.planned_world import PlannedWorld
from tests.property.lifecycle.rented_cloud import MINIMUM, Cloud

NODES = 4
NODE_SECOND = 19_800_001 / 3600
"""Micro-dollars."""


def one_node_short(traits: Traits) -> PlannedWorld:
    """A job of four nodes, a cloud that has three."""
    world = PlannedWorld(Cloud(traits=traits, stock=NODES - 1, now=make.at(0)))
    world.pools[make.POOL] = make.pool(cooldown_seconds=60.0)
    wide = make.job("wide", widths=Widths(16, 16, 16), created=world.cloud.now)
    world.jobs[wide.id] = wide
    return world


def job(world: PlannedWorld) -> Job:
    (wide,) = world.jobs.values()
    return wide


def node_seconds(world: PlannedWorld) -> float:
    now = world.cloud.now
    return sum(seconds_between(machine.launched, machine.ends or now) for machine in world.cloud.machines)


@pytest.mark.parametrize("traits", [make.NAMED, make.REPLYING], ids=["named", "replying"])
def test_a_cloud_that_launches_all_or_none_bills_nothing(traits: Traits) -> None:
    world = one_node_short(traits)
    world.turns(300, pause=5)
    assert world.bill() == ZERO
    assert not world.cloud.machines
    world.cloud.stock = NODES
    world.turns(600, pause=5)
    assert job(world).allocation is not None
    assert len(world.cloud.machines) == NODES, "rented twice"


@pytest.mark.parametrize(
    "traits",
    [make.COUNTED, replace(make.NAMED, together=False), replace(make.REPLYING, together=False)],
    ids=["counted", "named", "replying"],
)
def test_machines_of_an_incomplete_gang_are_given_back_in_bounded_time_ever_more_seldom(traits: Traits) -> None:
    world = one_node_short(traits)
    world.turns(170, pause=10)
    assert world.cloud.alive() == 0
    start = world.pools[make.POOL].start_seconds
    assert node_seconds(world) <= (NODES - 1) * (start + MINIMUM)
    world.turns(700, pause=10)
    assert len(world.cloud.machines) <= 3 * (NODES - 1), "more than three tries in a quarter of an hour"
    assert world.cloud.alive() == 0
    world.cloud.stock = 0
    world.turns(130, pause=65)
    balance = world.budget.balance
    assert balance is not None
    assert {cause: amount for (_, cause), amount in balance.costs.by_pool.items()} == {
        Cause.INCOMPLETE_GANG: world.bill()
    }
    assert abs(world.bill().micros - node_seconds(world) * NODE_SECOND) <= len(world.cloud.machines) * NODE_SECOND


def test_the_node_that_was_missing_is_added_to_those_that_came() -> None:
    world = one_node_short(make.COUNTED)
    world.turns(30, pause=5)
    assert world.cloud.alive() == NODES - 1
    world.cloud.stock = NODES
    world.turns(180, pause=5)
    assert job(world).allocation is not None
    assert len(world.cloud.machines) == NODES
    assert world.bill() > Money(0)
