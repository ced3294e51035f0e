"""Nodes whose end is known long before: no job begins there for a few minutes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import PoolId
from charterer.domain.plan import Allocate, Command, Release, Rent
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after
from charterer.policy.nodes.capacity import USEFUL_SECONDS
from charterer.policy.planner import plan
from tests.worlds import World

A100 = PoolId("a100")
HOUR = 3600.0


def ending(world: World, seconds: float) -> Snapshot:
    """The world, in which all machines end after so many seconds."""
    snapshot = world.snapshot()
    survey = snapshot.surveys[A100]
    instances = tuple(replace(instance, ends=after(world.now, seconds)) for instance in survey.instances)
    return replace(snapshot, surveys={A100: replace(survey, instances=instances)})


def one_node(lived: float = 10 * HOUR) -> World:
    """A job waits, and a free node has been ready for so many seconds."""
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.passes(lived)
    world.job("train", gpus=8)
    return world


def done(commands: tuple[Command, ...]) -> list[str]:
    """What is done, in words."""
    words = {Allocate: "begins", Release: "released", Rent: "rented"}
    return sorted(words[type(command)] for command in commands)


@pytest.mark.parametrize(
    ("lived", "left", "expected"),
    [
        (10 * HOUR, USEFUL_SECONDS + 1.0, ["begins"]),
        (10 * HOUR, USEFUL_SECONDS - 1.0, ["released", "rented"]),
        (0.0, 300.0, ["begins"]),
        (100.0, 110.0, ["begins"]),
        (100.0, 90.0, ["released", "rented"]),
        (10 * HOUR, -60.0, ["released", "rented"]),
    ],
)
def test_a_job_begins_on_a_node_that_ends_only_while_it_is_of_use(
    lived: float, left: float, expected: list[str]
) -> None:
    assert done(plan(ending(one_node(lived), left)).commands) == expected


def test_an_end_before_the_node_was_ready_is_not_believed_or_each_new_node_would_be_given_back() -> None:
    assert done(plan(ending(one_node(100.0), -200.0)).commands) == ["begins"]


def test_a_node_without_an_end_is_used() -> None:
    assert done(plan(one_node().snapshot()).commands) == ["begins"]


def test_a_job_runs_on_where_it_is_and_grows_onto_no_node_that_ends() -> None:
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.rental()
    world.passes(10 * HOUR)
    world.job("train", gpus=8)
    world.runs_on("train", "a100-1", gpus=8)
    decided = plan(ending(world, 600.0))
    assert [command.rental for command in decided.commands if isinstance(command, Release)] == ["a100-2"]
    assert not [command for command in decided.commands if isinstance(command, Allocate)]


def test_the_reason_for_which_an_unused_node_is_given_back_names_its_end() -> None:
    [release] = [command for command in plan(ending(one_node(), 600.0)).commands if isinstance(command, Release)]
    assert "no job uses a100-1, which ends at 20" in release.reason.message
