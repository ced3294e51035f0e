"""What a cloud says of orders at once is recorded at once, and never for a machine that has a rental already."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from charterer.cluster import kinds
from charterer.cluster.errors import AlreadyExists
from charterer.cluster.store import ObjectKey
from charterer.controller.execute.context import DecidedObjects, ExecutionContext, Stale
from charterer.controller.execute.rental_steps import adopt, ask_cloud, record_orphan
from charterer.domain.ids import InstanceId, PoolId, RentalId
from charterer.domain.money import ZERO
from charterer.domain.order import Ask, Order, Reply
from charterer.domain.pool import Pool
from charterer.domain.rental import Gang, Rental, RentalPhase
from charterer.domain.steps import Adopt, AskCloud, RecordOrphan
from charterer.lifecycle.pool import order_token
from tests import factory as make

ASKED, LATER = make.rental("a100-1"), make.rental("a100-2")
ORPHAN = make.rental("a100-o-i2", make.instance("i2"))
TOKENS = [order_token(rental.uid) for rental in (ASKED, LATER)]
STEP = AskCloud(make.POOL, Ask((Order(TOKENS[0], ASKED.id), Order(TOKENS[1], LATER.id)), 2))
REPLY = Reply({TOKENS[0]: InstanceId("i1"), TOKENS[1]: InstanceId("i2")})


class Scene:
    """Rentals in a store, the snapshot that was decided on, and a cloud that launches both orders."""

    def __init__(self, *decided: Rental, now: tuple[Rental, ...] = (), pools: tuple[Pool, ...] = ()) -> None:
        stored = {(kinds.GPU_RENTALS, rental.id): rental for rental in now or decided}
        snapshot = make.snapshot(*decided, *pools)
        objects = {ObjectKey("", rental.id): rental for rental in now or decided}
        store = SimpleNamespace(
            get=lambda kind, name, namespace="": stored.get((kind, name), make.pool()),
            view=lambda kind: SimpleNamespace(objects=objects),
        )
        self.objects = objects
        self.name_taken = True
        self.created: list[object] = []
        self.asked: list[Ask] = []
        self.recorded: list[Rental] = []
        self.context = cast(
            ExecutionContext,
            SimpleNamespace(
                decided=DecidedObjects(cast(Any, store), lambda: snapshot),
                clouds=self,
                objects=self,
                now=lambda: make.at(7),
                matching=asyncio.Lock(),
            ),
        )

    async def ask(self, pool: Pool, ask: Ask) -> Reply:
        self.asked.append(ask)
        return REPLY

    async def create(self, kind: object, body: object) -> None:
        if self.name_taken:
            raise AlreadyExists("POST", "/gpurentals", 409, "AlreadyExists", "it is there")
        self.created.append(body)

    async def record_rental(self, rental: Rental) -> None:
        await asyncio.sleep(0)  # others go on meanwhile
        self.recorded.append(rental)
        self.objects[ObjectKey("", rental.id)] = rental


async def test_the_instances_of_a_reply_are_recorded() -> None:
    scene = Scene(ASKED, LATER)
    await ask_cloud(scene.context, STEP)
    assert scene.recorded == [
        replace(ASKED, instance=InstanceId("i1"), named=make.at(7)),
        replace(LATER, instance=InstanceId("i2"), named=make.at(7)),
    ]


async def test_an_instance_that_has_a_rental_closes_the_one_that_asked_for_it() -> None:
    scene = Scene(ASKED, LATER, ORPHAN)
    await ask_cloud(scene.context, STEP)
    first, second = scene.recorded
    assert (first.instance, second.instance) == ("i1", None)
    assert (second.phase, second.cost) == (RentalPhase.ENDED, ZERO)
    assert second.released_because == "instance i2 has GPURental a100-o-i2 already"


async def test_a_rental_of_another_pool_with_the_same_machines_closes_it_too() -> None:
    twin = replace(make.pool(), id=PoolId("twin"), taken_by=make.POOL)
    of_twin = replace(LATER, pool=twin.id)
    scene = Scene(ASKED, of_twin, ORPHAN, pools=(make.pool(), twin))
    await ask_cloud(scene.context, STEP)
    assert [(rental.id, rental.instance) for rental in scene.recorded] == [(ASKED.id, "i1"), (LATER.id, None)]


async def test_nothing_is_asked_for_a_rental_that_has_changed() -> None:
    scene = Scene(ASKED, LATER, now=(ASKED, replace(LATER, phase=RentalPhase.DRAINING)))
    with pytest.raises(Stale):
        await ask_cloud(scene.context, STEP)
    assert scene.asked == []


async def test_a_gang_is_not_asked_for_where_another_of_its_rentals_has_changed() -> None:
    gang = Gang("gang-1", make.job().id, "research/sft", 2)
    launched, waits = (replace(rental, gang=gang) for rental in (ORPHAN, LATER))
    scene = Scene(launched, waits, now=(replace(launched, phase=RentalPhase.DRAINING), waits))
    with pytest.raises(Stale):
        await ask_cloud(scene.context, AskCloud(make.POOL, Ask((Order(TOKENS[1], LATER.id),), 2, together=True)))
    assert scene.asked == []


async def test_an_instance_that_a_rental_has_named_since_is_not_adopted_by_another_and_gets_no_second_rental() -> None:
    scene = Scene(ASKED, now=(ASKED, ORPHAN))
    machine = make.instance("i2")
    with pytest.raises(Stale):
        await adopt(scene.context, Adopt(ASKED.id, machine))
    found = RecordOrphan(RentalId("other-o-i2"), make.POOL, ORPHAN.budget, machine, ORPHAN.worst)
    with pytest.raises(Stale):
        await record_orphan(scene.context, found)
    assert scene.recorded == []


async def test_an_orphan_that_another_pool_of_the_group_has_just_created_is_decided_anew() -> None:
    scene = Scene(ASKED)
    found = RecordOrphan(RentalId("other-o-i2"), make.POOL, ORPHAN.budget, make.instance("i2"), ORPHAN.worst)
    with pytest.raises(Stale):
        await record_orphan(scene.context, found)


async def test_a_machine_is_matched_once_where_two_pools_of_a_group_match_it_at_the_same_time() -> None:
    scene = Scene(ASKED)
    scene.name_taken = False
    machine = make.instance("i2")
    found = RecordOrphan(RentalId("other-o-i2"), make.POOL, ORPHAN.budget, machine, ORPHAN.worst)
    adopting = adopt(scene.context, Adopt(ASKED.id, machine))
    _, refused = await asyncio.gather(adopting, record_orphan(scene.context, found), return_exceptions=True)
    assert isinstance(refused, Stale)
    assert [(rental.id, rental.instance) for rental in scene.recorded] == [(ASKED.id, machine.id)]
    assert scene.created == []


@pytest.mark.parametrize("late", [{"instance": InstanceId("i1")}, {"phase": RentalPhase.ENDED, "cost": ZERO}])
async def test_a_rental_that_got_its_instance_or_was_closed_before_the_reply_stays_as_it_is(
    late: dict[str, Any],
) -> None:
    scene = Scene(replace(ASKED, **late))
    await ask_cloud(scene.context, AskCloud(make.POOL, Ask((Order(TOKENS[0], ASKED.id),), 1)))
    assert scene.recorded == []
