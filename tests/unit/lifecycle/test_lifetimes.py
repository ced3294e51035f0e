"""How long a node lived is counted once, and as what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.plan import ReasonCode
from charterer.domain.pool import EndedNode, NodeLifetimes
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import CountLifetimes
from charterer.lifecycle.pool import lifetimes_to_count
from tests.factory import at, pool, rental

LIVING = rental("a100-1", launched=at(0))
DEAD = rental(
    "a100-2", phase=RentalPhase.ENDED, launched=at(0), ended=at(3600), released_because=ReasonCode.INTERRUPTION.value
)


@pytest.mark.parametrize(
    ("because", "taken", "announced"),
    [
        ("Interruption", True, True),
        ("InstanceEnded", True, False),
        ("Vanished", True, False),
        ("LostNode", True, False),
        ("NotNeeded", False, False),
        ("Deleted", False, False),
        ("HardLimit", False, False),
    ],
)
def test_a_node_died_if_nobody_had_decided_to_give_it_back(because: str, taken: bool, announced: bool) -> None:
    step = lifetimes_to_count(pool(), [LIVING, replace(DEAD, released_because=because)])
    node = EndedNode(DEAD.uid, 1.0, at(3600), taken, 1, announced, ordinal=2)
    assert step == CountLifetimes(pool().id, (node,), tuple(sorted([LIVING.uid, DEAD.uid])))


@pytest.mark.parametrize(
    ("name", "ordinal"), [("a100-12", 12), ("a100-1-12", 0), ("6ca13d52ca-o-i-12", 0), ("a100-x", 0), ("a100", 0)]
)
def test_the_ordinal_of_a_rental_is_that_of_its_pools_own_names(name: str, ordinal: int) -> None:
    assert rental(name, pool=pool().id).ordinal == ordinal


def test_a_rental_is_counted_once() -> None:
    assert lifetimes_to_count(pool(lifetimes=NodeLifetimes(at=at(0), counted=(DEAD.uid,))), [LIVING, DEAD]) is None


def test_a_rental_that_never_got_a_machine_or_runs_is_not_counted() -> None:
    unfulfilled = rental("a100-3", phase=RentalPhase.ENDED)
    assert lifetimes_to_count(pool(), [LIVING, unfulfilled]) is None


def test_rentals_are_counted_in_the_order_in_which_they_ended_with_those_left_that_end_later() -> None:
    later = replace(DEAD, id=LIVING.id, uid="later", ended=at(3660))
    step = lifetimes_to_count(pool(), [later, DEAD])
    assert step is not None
    assert [(node.uid, node.others) for node in step.nodes] == [(DEAD.uid, 1), ("later", 0)]
    rest = lifetimes_to_count(pool(lifetimes=NodeLifetimes(at=at(0), counted=(DEAD.uid,))), [later, DEAD])
    assert rest is not None
    assert [(node.uid, node.others) for node in rest.nodes] == [("later", 0)]
