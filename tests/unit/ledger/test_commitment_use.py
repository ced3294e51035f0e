"""What was used of a commitment this month, and what a node less or more would have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from charterer.domain.cost_row import Payer, Use
from charterer.domain.ids import RentalId
from charterer.domain.money import Money, Price
from charterer.domain.time import after
from charterer.ledger.attribution import CommitmentUse, commitment_uses
from tests.worlds import World

_JOB = Payer("team", "train", "uid-train", 1, "team/sft", "", {})


def _uses(world: World, spans: Sequence[tuple[float, float, int]]) -> tuple[Use, ...]:
    """``spans``: hours ago from when, until when, and GPUs."""
    return tuple(
        Use(replace(_JOB, run=run), gpus, after(world.now, -since * 3600.0), after(world.now, -until * 3600.0))
        for run, (since, until, gpus) in enumerate(spans)
    )


def _world(
    *committed: Sequence[tuple[float, float, int]], beside: Sequence[tuple[float, float, int]] = (), nodes: int = 2
) -> World:
    """Nodes of eight GPUs, committed at $12 for ten hours so far, beside one at the list price of $20."""
    world = World()
    world.budget()
    world.pool("a100", gpus=8, price="20")
    made = world.pool("reserved", gpus=8, price="12", gpu_type="a100", max_nodes=nodes, committed_hours=1000.0)
    assert made.quote is not None
    world.pools[made.id] = replace(made, quote=replace(made.quote, listed=Price.parse("20")))
    for spans in committed:
        rental = world.rental("reserved", age=36_000.0)
        world.rentals[rental.id] = replace(
            rental, uses=_uses(world, spans), ready=rental.launched, created=rental.created
        )
    if beside:
        rental = world.rental("a100", age=36_000.0)
        world.rentals[rental.id] = replace(rental, uses=_uses(world, beside), ready=rental.launched)
    return world


def _use(world: World) -> CommitmentUse:
    snapshot = world.snapshot()
    (found,) = commitment_uses(next(iter(snapshot.budgets.values())), snapshot)
    return found


def test_used_and_unused_add_up_to_what_the_commitment_cost() -> None:
    """Of two nodes for ten hours, one was used by half for four hours: 16 of 160 GPU-hours, at $1.50 each."""
    found = _use(_world([(5.0, 1.0, 4)], []))
    assert (found.used, found.unused) == (Money.parse("24"), Money.parse("216"))
    assert (found.used_gpu_hours, found.unused_gpu_hours) == pytest.approx((16.0, 144.0))


def test_a_node_less_would_have_been_rented_while_all_were_in_use() -> None:
    """Both were in use for two of ten hours: $120 less, and $40 for two hours at the list price."""
    found = _use(_world([(5.0, 1.0, 4)], [(3.0, 0.0, 8)]))
    assert found.node_less == Money.parse("80")
    assert _use(_world([(10.0, 0.0, 1)], [(10.0, 0.0, 1)])).node_less == Money.parse("-80")


def test_a_node_more_would_have_taken_the_place_of_another_node_with_the_same_gpus() -> None:
    """That was in use for seven hours of ten, once by two jobs at a time: $140 instead of $120."""
    busy = [(9.0, 4.0, 4), (8.0, 2.0, 4)]
    assert _use(_world([(1.0, 0.0, 8)], beside=busy, nodes=1)).node_more == Money.parse("20")
    other = _world([(1.0, 0.0, 8)], beside=busy, nodes=1)
    other.pool("a100", gpus=8, price="20", gpu_type="h100")
    assert _use(other).node_more == Money.parse("-120")


def test_nothing_is_said_of_a_pool_without_a_commitment_or_before_a_node_was_billed() -> None:
    world = _world()
    snapshot = world.snapshot()
    assert commitment_uses(next(iter(snapshot.budgets.values())), snapshot) == []


def test_what_happened_before_this_month_does_not_count() -> None:
    world = _world([(5.0, 1.0, 8)], nodes=1)
    rental = world.rentals[RentalId("reserved-1")]
    long_ago = after(world.now, -40 * 86_400.0)
    segments = tuple(replace(segment, since=long_ago) for segment in rental.segments)
    world.rentals[rental.id] = replace(rental, created=long_ago, launched=long_ago, ready=long_ago, segments=segments)
    found = _use(world)
    assert found.used_gpu_hours + found.unused_gpu_hours == pytest.approx(8 * 360.0)
