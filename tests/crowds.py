"""Budgets solved together, and what their jobs hold then."""

from __future__ import annotations

from collections.abc import Mapping

from charterer.domain.ids import PoolId
from charterer.policy.crowding import longer, sum_of
from charterer.policy.fleet import Fleet
from charterer.policy.planner import standings
from charterer.policy.room import Room, rooms
from charterer.policy.routes import expected_use, way_of
from charterer.policy.standing import Standing
from tests.worlds import World


def stood(world: World) -> list[Standing]:
    """Every budget of the world, solved."""
    return standings(world.snapshot())


def rooms_of(world: World) -> Mapping[PoolId, Room]:
    """The room of every pool."""
    snapshot = world.snapshot()
    return rooms(snapshot, Fleet(snapshot))


def held(found: list[Standing]) -> dict[PoolId, float]:
    """GPUs by pool in the long run, of all jobs."""
    return sum_of(
        expected_use(
            [(lot.part, way_of(lot.path, share.group).use) for lot in share.lots],
            share.arrivals * longer(one, key, share.group),
        )
        for one in found
        for key, share in one.shares.items()
    )
