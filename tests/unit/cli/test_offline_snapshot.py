"""A look without clouds: surveys made of the rentals give the plan that the operator itself makes."""

from __future__ import annotations

from dataclasses import replace

from charterer.controller.snapshot.offline import snapshot_of
from charterer.domain.ids import JobId, PoolId
from charterer.domain.pool import InstanceState
from charterer.domain.profile import Amdahl
from charterer.domain.rental import RentalPhase
from charterer.policy.planner import plan
from tests.unit.cli.worlds import seen_of
from tests.worlds import World


def busy() -> World:
    world = World()
    world.budget(amount="30000")
    world.pool(gpus=8, price="16")
    world.profile("sft", Amdahl(0.95, 1.0), work_hours=40, arrivals_per_hour=0.5)
    for number in range(4):
        world.job(f"j{number}", gpus=(1, 8, 64), profile="sft", age_seconds=60.0 * number)
    return world


def test_at_every_step_the_plan_is_the_operators_own() -> None:
    world = busy()
    for _ in range(4):
        assert plan(snapshot_of(seen_of(world), world.now)).commands == plan(world.snapshot()).commands
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
        world.passes(600)


def test_nodes_that_boot_are_not_rented_twice() -> None:
    world = busy()
    world.carry_out(plan(world.snapshot()))
    for rental in list(world.rentals):
        world.launches(rental)
    snapshot = snapshot_of(seen_of(world), world.now)
    assert plan(snapshot).commands == ()
    assert {instance.state for instance in snapshot.surveys[PoolId("a100")].instances} == {InstanceState.PENDING}


def test_a_node_that_has_ended_takes_nothing_any_more() -> None:
    world = busy()
    rental = world.rental()
    world.rentals[rental.id] = replace(rental, phase=RentalPhase.ENDED, ended=world.now)
    (instance,) = snapshot_of(seen_of(world), world.now).surveys[PoolId("a100")].instances
    assert instance.state is InstanceState.ENDED


def test_a_pool_that_no_operator_has_looked_at_rents_nothing() -> None:
    world = busy()
    world.pools = {name: replace(pool, offering=None, quote=None) for name, pool in world.pools.items()}
    snapshot = snapshot_of(seen_of(world), world.now)
    assert snapshot.surveys == {}
    assert plan(snapshot).commands == ()
    assert plan(snapshot).jobs[JobId("j0")].option is None
