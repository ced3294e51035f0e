"""Nodes whose end is known long before: no job begins there for a few minutes, and jobs leave to save their work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import InstanceId, PoolId
from charterer.domain.plan import Allocate, Command, ReasonCode, Release, Rent
from charterer.domain.pool import Notice
from charterer.domain.profile import Amdahl
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import LAST, Instant, after
from charterer.policy.nodes.rentals import USEFUL_SECONDS
from charterer.policy.planner import plan
from tests.worlds import World

A100 = PoolId("a100")
HOUR = 3600.0


def ending(world: World, seconds: float) -> Snapshot:
    """The world, in which all machines end after so many seconds."""
    return ending_at(world, after(world.now, seconds))


def ending_at(world: World, end: Instant) -> Snapshot:
    """The world, in which all machines end at that time."""
    snapshot = world.snapshot()
    survey = snapshot.surveys[A100]
    instances = tuple(replace(instance, ends=end) for instance in survey.instances)
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


@pytest.mark.parametrize("end", [Instant(-(10**18)), Instant(0), LAST, Instant(LAST + 10**18)])
def test_an_absurd_end_stops_nothing_and_nobody_is_told_of_it(end: Instant) -> None:
    assert done(plan(ending_at(one_node(), end)).commands) == ["begins"]
    unused = one_node()
    unused.jobs.clear()
    (release,) = plan(ending_at(unused, end)).commands
    assert isinstance(release, Release)
    assert release.reason.message == "no job uses a100-1 and none waits for it"


@pytest.mark.parametrize("skew", [-5 * HOUR, -HOUR, HOUR, 5 * HOUR])
def test_a_new_node_is_used_whatever_the_clouds_clock_shows(skew: float) -> None:
    """The reservation ends in 30 minutes by the right clock; the cloud's, by which its end is told, is wrong."""
    world = one_node(0.0)
    assert done(plan(ending(world, 1800.0 + skew)).commands) == ["begins"]


def test_a_node_that_is_ready_only_later_by_our_clock_is_used() -> None:
    world = one_node(0.0)
    (rental,) = world.rentals.values()
    world.rentals[rental.id] = replace(rental, ready=after(world.now, HOUR))
    assert done(plan(ending(world, 300.0)).commands) == ["begins"]


@pytest.mark.parametrize(
    ("left", "notice", "kept"),
    [
        (USEFUL_SECONDS + 1.0, None, True),
        (USEFUL_SECONDS - 1.0, None, False),
        (-1.0, None, False),
        (-20 * HOUR, None, True),
        (10 * HOUR, True, False),
        (10 * HOUR, False, False),
    ],
)
def test_a_node_on_which_nothing_begins_is_not_kept_for_jobs_to_come(
    left: float, notice: bool | None, kept: bool
) -> None:
    world = World()
    world.budget(amount="10000000")
    world.pool()
    world.profile("sft", Amdahl(0.5, 1.0), work_hours=1, arrivals_per_hour=60)
    world.rental()
    world.rental()
    world.passes(10 * HOUR)
    world.job("train", gpus=8, profile="sft")
    world.runs_on("train", "a100-1", gpus=8)
    if notice is not None:
        world.notices[A100] = (Notice(InstanceId("i-a100-2"), None, certain=notice),)
    released = [command.rental for command in plan(ending(world, left)).commands if isinstance(command, Release)]
    assert released == ([] if kept else ["a100-2"])


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


def running(lived: float, grace: int, hours_left: float = 100.0) -> World:
    """A job runs on one of two nodes. ``lived``: seconds since they were ready. ``grace``: seconds to save its work."""
    world = World()
    world.budget()
    world.pool()
    world.rental()
    world.rental()
    world.passes(lived)
    world.job("train", gpus=8, grace_seconds=grace, hours_left=hours_left)
    world.runs_on("train", "a100-1", gpus=8)
    return world


@pytest.mark.parametrize(
    ("lived", "grace", "left", "leaves"),
    [
        (10 * HOUR, 30, 91.0, False),
        (10 * HOUR, 30, 89.0, True),
        (10 * HOUR, 300, 361.0, False),
        (10 * HOUR, 300, 359.0, True),
        (10 * HOUR, 3600, 601.0, False),
        (10 * HOUR, 3600, 599.0, True),
        (300.0, 300, 101.0, False),
        (300.0, 300, 99.0, True),
        (10 * HOUR, 30, -30.0, True),
        (10 * HOUR, 30, -11 * HOUR, False),
    ],
)
def test_a_job_leaves_a_node_that_ends_in_time_to_save_its_work(
    lived: float, grace: int, left: float, leaves: bool
) -> None:
    decided = plan(ending(running(lived, grace), left))
    stopped = [command for command in decided.commands if isinstance(command, Allocate)]
    assert bool(stopped) is leaves
    if leaves:
        assert "a100-1 ends at 20" in stopped[0].reason.message
        assert stopped[0].reason.code is ReasonCode.INTERRUPTION


@pytest.mark.parametrize(("left", "again"), [(500.0, 140.0), (USEFUL_SECONDS + 100.0, 100.0)])
def test_the_plan_is_made_again_when_the_node_closes_and_when_the_job_has_to_leave(left: float, again: float) -> None:
    world = running(10 * HOUR, 300)
    assert plan(ending(world, left)).again_at == after(world.now, again)


@pytest.mark.parametrize(("seconds_left", "leaves"), [(50.0, False), (70.0, True)])
def test_a_job_that_is_done_before_the_end_stays(seconds_left: float, leaves: bool) -> None:
    snapshot = ending(running(10 * HOUR, 30, hours_left=seconds_left / HOUR), 60.0)
    assert any(isinstance(command, Allocate) for command in plan(snapshot).commands) is leaves


def test_the_reason_for_which_an_unused_node_is_given_back_names_its_end() -> None:
    [release] = [command for command in plan(ending(one_node(), 600.0)).commands if isinstance(command, Release)]
    assert "no job uses a100-1, which ends at 20" in release.reason.message
