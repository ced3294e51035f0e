"""How long a node lived is counted once, and as what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.plan import ReasonCode
from charterer.domain.pool import NodeLifetimes
from charterer.domain.rental import RentalPhase
from charterer.domain.steps import CountLifetime
from charterer.lifecycle.pool import lifetime_to_count
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
    step = lifetime_to_count(pool(), [LIVING, replace(DEAD, released_because=because)])
    assert step == CountLifetime(
        pool().id, DEAD.uid, 1.0, at(3600), taken, announced, 1, tuple(sorted([LIVING.uid, DEAD.uid])), ordinal=2
    )


@pytest.mark.parametrize(
    ("name", "ordinal"), [("a100-12", 12), ("a100-1-12", 0), ("6ca13d52ca-o-i-12", 0), ("a100-x", 0), ("a100", 0)]
)
def test_the_ordinal_of_a_rental_is_that_of_its_pools_own_names(name: str, ordinal: int) -> None:
    assert rental(name, pool=pool().id).ordinal == ordinal


def test_a_rental_is_counted_once() -> None:
    assert lifetime_to_count(pool(lifetimes=NodeLifetimes(at=at(0), counted=(DEAD.uid,))), [LIVING, DEAD]) is None


def test_a_rental_that_never_got_a_machine_or_runs_is_not_counted() -> None:
    unfulfilled = rental("a100-3", phase=RentalPhase.ENDED)
    assert lifetime_to_count(pool(), [LIVING, unfulfilled]) is None


def test_rentals_are_counted_in_the_order_in_which_they_ended_with_those_left_that_end_later() -> None:
    later = replace(DEAD, id=LIVING.id, uid="later", ended=at(3660))
    first = lifetime_to_count(pool(), [later, DEAD])
    assert first is not None
    assert (first.uid, first.others) == (DEAD.uid, 1)
    second = lifetime_to_count(pool(lifetimes=NodeLifetimes(at=at(0), counted=(DEAD.uid,))), [later, DEAD])
    assert second is not None
    assert (second.uid, second.others) == ("later", 0)
