"""Nodes that a job needs at once are rented as one gang, and what came of too few is used by others or given back."""

from __future__ import annotations

from dataclasses import replace

from charterer.domain.ids import JobId, PoolId, RentalId
from charterer.domain.plan import Plan, ReasonCode, Rent
from charterer.domain.profile import PowerLaw
from charterer.domain.rental import Gang, RentalPhase
from charterer.domain.time import after
from charterer.policy import plan
from tests.factory import cooled
from tests.scenarios.policy.stories import placed, releases, rents
from tests.worlds import World

POOL = PoolId("a100")


def world_with(*, gpus: int | tuple[int, int, int] = 32, profile: bool = False, max_nodes: int = 100) -> World:
    """A job of four nodes that waits."""
    world = World()
    world.budget()
    world.pool("a100", gpus=8, price="16", max_nodes=max_nodes)
    if profile:
        world.profile("sft", PowerLaw(0.9, 1.0), work_hours=40)
    world.job("wide", gpus=gpus, profile="sft" if profile else None)
    return world


def gangs(decided: Plan) -> list[Gang | None]:
    return [command.gang for command in decided.commands if isinstance(command, Rent)]


def one_node_short(*, age: float = 0.0, asked_again_in: float = 60.0) -> World:
    """Three of the four nodes came, ``age`` seconds ago; the fourth was refused, and the pool cools."""
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    del world.rentals[RentalId("a100-4")]
    for name in list(world.rentals):
        world.launches(name)
    world.passes(age)
    cool(world, asked_again_in)
    return world


def cool(world: World, seconds: float) -> None:
    world.pools[POOL] = replace(world.pools[POOL], cooled=cooled(after(world.now, seconds), 60.0))


def test_nodes_that_a_job_needs_at_once_are_one_gang() -> None:
    (gang, *others) = gangs(plan(world_with().snapshot()))
    assert gang == Gang("wide-1", JobId("wide"), "team/wide", 4)
    assert others == [gang, gang, gang]


def test_a_node_that_a_job_needs_alone_is_of_no_gang() -> None:
    assert gangs(plan(world_with(gpus=8).snapshot())) == [None]
    world = world_with()
    for _ in range(3):
        world.rental()
    assert gangs(plan(world.snapshot())) == [None]


def test_nodes_that_are_there_already_are_not_of_the_gang() -> None:
    world = world_with()
    world.rental()
    (gang, *others) = gangs(plan(world.snapshot()))
    assert gang is not None
    assert (gang.nodes, len(others)) == (3, 2)


def test_a_job_that_can_start_on_one_node_has_no_gang_and_one_that_needs_two_a_gang_of_two() -> None:
    narrow = gangs(plan(world_with(gpus=(8, 8, 64), profile=True).snapshot()))
    assert len(narrow) > 2
    assert set(narrow) == {None}
    wide = gangs(plan(world_with(gpus=(16, 16, 64), profile=True).snapshot()))
    assert len(wide) > 2
    assert [gang.nodes for gang in wide if gang is not None] == [2, 2]


def test_rentals_that_were_never_written_are_added_to_their_gang() -> None:
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    gang = world.rentals[RentalId("a100-1")].gang
    for name in ("a100-2", "a100-3", "a100-4"):
        del world.rentals[RentalId(name)]
    assert gangs(plan(world.snapshot())) == [gang, gang, gang]


def test_a_rental_that_a_person_deleted_is_made_again_in_its_gang() -> None:
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    first = world.rentals[RentalId("a100-1")]
    world.rentals[first.id] = replace(first, deleting=True)
    assert gangs(plan(world.snapshot())) == [first.gang]


def test_a_gang_that_lacks_a_rental_which_its_job_has_elsewhere_is_rented_anew() -> None:
    """Nobody would ask the cloud for the others, and the job would wait for them for ever."""
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    del world.rentals[RentalId("a100-4")]
    world.rental()  # of another job that has just ended
    decided = plan(world.snapshot())
    assert not rents(decided)
    assert releases(decided) == dict.fromkeys(["a100-1", "a100-2", "a100-3"], ReasonCode.NOT_NEEDED)
    world.carry_out(decided)
    (gang, *_) = gangs(plan(world.snapshot()))
    assert gang == Gang("wide-2", JobId("wide"), "team/wide", 3)


def test_a_gang_that_a_job_ran_on_is_not_added_to() -> None:
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    world.everything_starts()
    world.carry_out(plan(world.snapshot()))
    job = world.jobs[JobId("wide")]
    assert job.allocation is not None
    for name in ("a100-1", "a100-2"):
        world.ends(name)
    world.jobs[job.id] = replace(job, allocation=None, replaced=(job.allocation,), runs=())
    again = gangs(plan(world.snapshot()))
    assert [gang.name for gang in again if gang is not None] == ["wide-2", "wide-2"]


def test_machines_of_an_incomplete_gang_are_kept_while_the_rest_is_asked_for_again_soon() -> None:
    world = one_node_short(age=10.0)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.jobs[JobId("wide")].reason.code is ReasonCode.POOL_COOLING
    world.passes(61.0)
    decided = plan(world.snapshot())
    assert gangs(decided) == [world.rentals[RentalId("a100-1")].gang]


def test_machines_of_an_incomplete_gang_are_given_back_when_they_could_be_started_again_meanwhile() -> None:
    world = one_node_short(age=121.0)
    decided = plan(world.snapshot())
    assert releases(decided) == dict.fromkeys(["a100-1", "a100-2", "a100-3"], ReasonCode.INCOMPLETE_GANG)
    why = decided.commands[0].reason.message
    assert why == "team/wide needs 4 nodes at once, and 3 came: those that no other job uses are given back"


def test_machines_of_an_incomplete_gang_are_given_back_at_once_if_the_rest_is_not_asked_for_in_time() -> None:
    assert set(releases(plan(one_node_short(age=10.0, asked_again_in=111.0).snapshot())).values()) == {
        ReasonCode.INCOMPLETE_GANG
    }


def test_what_is_kept_is_looked_at_again_when_the_wait_is_over() -> None:
    world = one_node_short(age=100.0, asked_again_in=19.0)
    assert plan(world.snapshot()).again_at == after(world.now, 19.0)
    world.pools[POOL] = replace(world.pools[POOL], max_nodes=3)
    cool(world, -1.0)
    assert releases(plan(world.snapshot())), "nothing is asked of a pool that is full"


def test_another_job_uses_the_machines_of_an_incomplete_gang() -> None:
    world = one_node_short(age=121.0)
    for name in list(world.rentals):
        world.becomes_ready(name)
    world.job("narrow", gpus=16)
    decided = plan(world.snapshot())
    assert placed(decided) == {"narrow": 16}
    assert list(releases(decided).values()) == [ReasonCode.INCOMPLETE_GANG]


def test_machines_of_a_gang_whose_job_is_gone_or_needs_fewer_now_are_not_kept_for_it() -> None:
    world = one_node_short(age=10.0)
    del world.jobs[JobId("wide")]
    assert set(releases(plan(world.snapshot())).values()) == {ReasonCode.NOT_NEEDED}
    world = one_node_short(age=10.0)
    for name in list(world.rentals):
        world.becomes_ready(name)
    world.job("wide", gpus=16)
    decided = plan(world.snapshot())
    assert placed(decided) == {"wide": 16}
    assert list(releases(decided).values()) == [ReasonCode.INCOMPLETE_GANG]


def test_a_complete_gang_that_boots_is_left_alone() -> None:
    world = world_with()
    world.carry_out(plan(world.snapshot()))
    for name in list(world.rentals):
        world.launches(name)
    cool(world, 600.0)
    world.passes(300.0)
    assert plan(world.snapshot()).commands == ()
    assert {rental.phase for rental in world.rentals.values()} == {RentalPhase.STARTING}
