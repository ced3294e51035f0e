"""Machines whose numbers, names and addresses were those of others before: each is known by its own id."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import paid, recorded_segments
from charterer.domain.ids import BudgetId, InstanceId, PoolId
from charterer.domain.money import Price
from charterer.domain.pool import Instance, PriceSegment
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Node
from charterer.domain.steps import Adopt, DeleteNode, MarkReady, Uncordon
from charterer.incremental import Memo
from charterer.lifecycle.pool import pool_step
from charterer.lifecycle.rental import rental_step
from charterer.lifecycle.view import LifecycleView
from charterer.policy.nodes.rentals import rental_index
from tests.factory import POOL, at, fake_group, instance, node, pool, rental, snapshot, survey

FORMER, NEXT = "00112233-4455-6677-8899-aabbccddeeff", "ffeeddcc-bbaa-9988-7766-554433221100"
SWAPPED = "33221100-5544-7766-8899-aabbccddeeff"
"""The same machine as the former one, by firmware that tells its first half in the other order."""


def machine(uuid: str, **changes: Any) -> Instance:
    """The machine with number 0 in the cloud, which was another one before."""
    return replace(instance("0", **changes), id=InstanceId(uuid))


OLD, NEW = machine(FORMER), machine(NEXT, launched=at(500))
DRAINING = rental("a100-1", OLD, phase=RentalPhase.DRAINING, released=at(400))
OVER = replace(DRAINING, phase=RentalPhase.ENDED, ended=at(450))
STARTING = rental("a100-2", NEW, phase=RentalPhase.STARTING, created=at(490), ready=None)


def the_node(uuid: str, **changes: Any) -> Node:
    """The Node with number 0, for which the kubelet of that machine speaks."""
    return node("0", **{"machine": uuid, **changes})


def step(one: Rental, *things: Rental | Node) -> object:
    seen = snapshot(one, *things, survey(NEW, target=1), now=at(600))
    return rental_step(one.id, LifecycleView.of(seen))


@pytest.mark.parametrize("former", [DRAINING, OVER], ids=["draining", "ended"])
def test_a_new_machine_is_claimed_at_once_although_a_rental_names_its_provider_id(former: Rental) -> None:
    waiting = rental("a100-2")
    seen = snapshot(former, waiting, survey(NEW, target=1), now=at(600))
    assert pool_step(POOL, LifecycleView.of(seen)) == Adopt(waiting.id, NEW)


def test_one_that_another_pool_knows_by_another_id_is_not_claimed() -> None:
    elsewhere = replace(DRAINING, pool=PoolId("others"), cloud=replace(fake_group(pool()), group="others"))
    view = LifecycleView.of(snapshot(elsewhere, survey(NEW)))
    assert view.unclaimed(POOL) == []


def owner(there: Node, *rentals: Rental) -> list[str]:
    """The rentals whose Node it is."""
    view = LifecycleView.of(snapshot(*rentals, there))
    return [each.id for each in rentals if view.node(each) == there]


@pytest.mark.parametrize("former", [DRAINING, OVER], ids=["draining", "ended"])
@pytest.mark.parametrize("told", [FORMER, FORMER.upper(), SWAPPED])
def test_a_node_is_that_of_the_machine_whose_kubelet_speaks_for_it(told: str, former: Rental) -> None:
    assert owner(the_node(told), STARTING, former) == [former.id]
    assert owner(the_node(NEXT), STARTING, former) == [STARTING.id]


@pytest.mark.parametrize("told", ["", "4c4c4544-0000-1000-8000-000000000000"])
def test_where_that_is_not_known_it_is_the_newest_rentals(told: str) -> None:
    assert owner(the_node(told), STARTING, DRAINING) == [STARTING.id]
    assert owner(the_node(told), DRAINING) == [DRAINING.id]
    assert isinstance(step(STARTING, DRAINING, the_node(told)), MarkReady)


def test_a_node_of_a_machine_that_has_ended_is_deleted_only_as_long_as_it_is_its_own() -> None:
    assert isinstance(step(OVER, the_node(FORMER)), DeleteNode)
    assert isinstance(step(OVER, the_node("")), DeleteNode)
    for there in ((the_node(NEXT),), (the_node(NEXT), STARTING)):
        assert not isinstance(step(OVER, *there), DeleteNode)


def test_the_cordon_of_the_machine_before_is_taken_off_and_a_persons_stays() -> None:
    left = the_node(NEXT, unschedulable=True, cordoned_for=DRAINING.uid)
    assert step(STARTING, DRAINING, left) == Uncordon(STARTING.id, left.name, left.uid)
    assert step(STARTING, left) == Uncordon(STARTING.id, left.name, left.uid)
    for by in ("", STARTING.uid):
        assert isinstance(step(STARTING, the_node(NEXT, unschedulable=True, cordoned_for=by)), MarkReady)


def test_prices_on_record_are_those_of_the_machine_itself() -> None:
    raised = PriceSegment(at(20), Price.parse("99"))
    former = replace(OVER, segments=(*OVER.segments, raised))
    silent = replace(NEW, segments=())
    seen = paid(pool(), survey(silent), recorded_segments({ObjectKey("", former.id): former}), pool().quote)
    (listed,) = seen.instances
    assert [segment.since for segment in listed.segments] == [NEW.launched]


def test_pods_on_a_node_are_on_the_newest_machine_of_that_name_whoever_pays() -> None:
    budgets = [(BudgetId("a"), BudgetId("b")), (BudgetId("b"), BudgetId("a"))]
    for first, second in budgets:
        rentals = [replace(DRAINING, budget=first), replace(STARTING, budget=second)]
        assert rental_index({each.id: each for each in rentals}, Memo()).rental_of == {OLD.node: STARTING.id}


def test_both_orders_of_a_uuid_are_one_machine() -> None:
    assert str(UUID(bytes_le=UUID(FORMER).bytes)) == SWAPPED
