"""What nodes cost before they took pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.rental import RentalPhase
from charterer.domain.time import after
from charterer.policy.nodes.rentals import StartUps, pool_rentals
from tests.worlds import World


@pytest.mark.parametrize(
    ("phase", "dollars"),
    [(RentalPhase.REQUESTED, 0.0), (RentalPhase.STARTING, 16 * 600 / 3600), (RentalPhase.READY, 16 * 180 / 3600)],
)
def test_a_start_costs_money_from_the_launch_until_the_node_takes_pods(phase: RentalPhase, dollars: float) -> None:
    world = started(phase)
    assert StartUps(pool_rentals([*world.rentals.values()])).paid(world.now).dollars == pytest.approx(dollars, abs=1e-5)


def test_a_node_that_has_ended_is_not_in_it_and_one_that_drains_is() -> None:
    world = started(RentalPhase.READY)
    (rental,) = world.rentals.values()
    world.rentals[rental.id] = replace(rental, phase=RentalPhase.DRAINING)
    assert StartUps(pool_rentals([*world.rentals.values()])).paid(world.now).dollars > 0.0
    world.ends("a100-1")
    assert StartUps(pool_rentals([*world.rentals.values()])).paid(world.now).dollars == 0.0


def started(phase: RentalPhase) -> World:
    """A node that was asked for ten minutes ago, and was ready after three of them if it is."""
    world = World()
    world.budget()
    world.pool("a100", gpus=8, price="16")
    world.rental(phase=RentalPhase.REQUESTED)
    if phase is not RentalPhase.REQUESTED:
        world.launches("a100-1")
    world.passes(180.0)
    if phase is RentalPhase.READY:
        world.becomes_ready("a100-1")
    world.now = after(world.now, 420.0)
    return world
