"""A rented machine whose Node says that it goes away has a notice, whatever its cloud is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.observe import observe
from charterer.domain.ids import InstanceId
from charterer.domain.pool import Notice
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Departure, Node
from tests.factory import POOL, at, instance, node, notice, pool, rental, survey
from tests.unit.controller.snapshot.test_offers import STATE

LEAVING = Departure("taint ToBeDeletedByClusterAutoscaler")
TAINTED = node(departure=LEAVING)


def notices(of: Rental, *nodes: Node, told: tuple[Notice, ...] = ()) -> tuple[Notice, ...]:
    """The notices of the pool when the cloud itself gives those."""
    state = replace(
        STATE,
        pools={ObjectKey("", POOL): pool()},
        rentals={ObjectKey("", of.id): of},
        nodes={ObjectKey("", each.name): each for each in nodes},
        surveys={POOL: survey(instance(), notices=told)},
    )
    return observe(state, at(600)).surveys[POOL].notices


@pytest.mark.parametrize("certain", [True, False])
def test_a_node_that_leaves_is_a_notice_for_its_machine(certain: bool) -> None:
    departure = replace(LEAVING, certain=certain)
    why = "taint ToBeDeletedByClusterAutoscaler on Node n-i1"
    found = notices(rental("a100-1", instance()), node(departure=departure), node("i2"))
    assert found == (Notice(InstanceId("i1"), None, certain, why),)


def test_broken_gpus_are_a_notice_that_says_so() -> None:
    broken = Departure("condition GPUMissing", broken=True)
    found = notices(rental("a100-1", instance()), node(departure=broken))
    assert found == (Notice(InstanceId("i1"), None, True, "condition GPUMissing on Node n-i1", True),)


def test_what_the_cloud_says_of_the_same_machine_goes_first() -> None:
    told = (notice("i1", 700),)
    assert notices(rental("a100-1", instance()), TAINTED, told=told) == told
    risk = (Notice(InstanceId("i1"), None, certain=False),)
    assert [each.certain for each in notices(rental("a100-1", instance()), TAINTED, told=risk)] == [False, True]


def test_a_node_of_another_machine_says_nothing_even_if_it_has_the_name() -> None:
    other = replace(TAINTED, provider_id="fake://other")
    assert notices(rental("a100-1", instance()), other) == ()
    assert notices(rental("a100-1"), TAINTED) == ()
    assert notices(rental("a100-1", instance()), node()) == ()
