"""Interactive jobs: a GPU is held while that is cheaper than to wait for the next one; nothing runs without an ask."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from charterer.domain.ids import JobId, RentalId
from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import ResizePolicy
from charterer.domain.money import Price
from charterer.domain.plan import Allocate, Plan, ReasonCode
from charterer.domain.profile import Amdahl
from charterer.domain.rental import RentalPhase
from charterer.domain.reports import Progress
from charterer.domain.time import Instant, after
from charterer.policy import plan
from charterer.policy.actions.running_jobs import hold_seconds
from tests.scenarios.policy.stories import placed, rents
from tests.worlds import World

NOTEBOOK = JobId("notebook")
TWENTY = Price.parse("20")


def test_a_gpu_is_held_until_that_has_cost_as_much_as_the_next_wait_would() -> None:
    held = hold_seconds(worth=20.0 / 3600, wait=30.0, billed=30.0, price=2.48 / 3600)
    assert held == pytest.approx(30.0 + 30.0 * 20.0 / 2.48)
    assert hold_seconds(worth=0.0, wait=30.0, billed=30.0, price=1.0) == 30.0
    assert hold_seconds(worth=1.0, wait=0.0, billed=0.0, price=1.0) == 0.0


def test_a_gpu_that_costs_nothing_is_never_given_back() -> None:
    assert hold_seconds(worth=1.0, wait=30.0, billed=30.0, price=0.0) == inf


def session(*, gpus: int = 1, beside: bool = True, interactive: Interactive | None = None) -> World:
    """A notebook on a GPU of a node of eight, for ask 1; ``beside``: a job has others of these."""
    world = World()
    world.budget()
    world.pool(price="19.84", start_seconds=150.0)
    world.profile("nb", Amdahl(0.9, 1.0), work_hours=1, restart_seconds=30.0)
    world.rental()
    told = interactive or Interactive(asks=1, served=1, hourly=TWENTY)
    world.job("notebook", gpus=gpus, profile="nb", interactive=told)
    world.runs_on("notebook", "a100-1", gpus=gpus)
    if beside:
        world.job("train", gpus=4, hours_left=100)
        world.runs_on("train", "a100-1", gpus=4)
    return world


def says(world: World, *, idle_since: Instant | None, start_seconds: float | None = None) -> None:
    """The worker of the notebook's run has reported."""
    job = world.jobs[NOTEBOOK]
    assert job.interactive is not None
    usage = Usage(job.interactive.asks, idle_since, 60.0, 0.0, start_seconds)
    progress = Progress(job.last_run, None, None, None, world.now, busy=idle_since is None, usage=usage)
    world.jobs[NOTEBOOK] = replace(job, progress=progress)


def given_back(world: World) -> bool:
    decided = plan(world.snapshot())
    return placed(decided).get(NOTEBOOK) == 0


def held_seconds(world: World) -> float:
    """Seconds without a cell after which the notebook's GPU is given back, to the second."""
    idle = world.now
    least, most = 0, 100_000
    while most - least > 1:
        middle = (least + most) // 2
        says(world, idle_since=after(idle, -middle))
        least, most = (least, middle) if given_back(world) else (middle, most)
    return most


def test_beside_others_only_the_restart_counts() -> None:
    assert held_seconds(session()) == pytest.approx(30.0 + 30.0 * 20.0 / 2.48, abs=1.0)


def test_alone_on_its_node_all_of_it_is_saved_and_must_be_started_again() -> None:
    assert held_seconds(session(beside=False)) == pytest.approx(180.0 + 180.0 * 20.0 / 19.84, abs=1.0)


def test_what_was_measured_of_the_jobs_own_starts_counts_instead_of_its_classs() -> None:
    world = session()
    says(world, idle_since=after(world.now, -89.0), start_seconds=10.0)
    assert not given_back(world)
    says(world, idle_since=after(world.now, -92.0), start_seconds=10.0)
    assert given_back(world)


def test_the_owner_may_say_after_how_many_seconds() -> None:
    assert held_seconds(session(interactive=Interactive(asks=1, served=1, idle_seconds=45.0))) == 45.0


@pytest.mark.parametrize("busy", [True, False])
def test_while_a_cell_runs_or_nothing_is_said_the_gpu_is_held(busy: bool) -> None:
    world = session()
    if busy:
        says(world, idle_since=None)
    world.passes(1_000_000.0)
    assert not given_back(world)


def test_the_plan_is_made_again_when_the_gpu_is_to_be_given_back_and_says_so() -> None:
    world = session(interactive=Interactive(asks=1, served=1, idle_seconds=300.0))
    says(world, idle_since=after(world.now, -100.0))
    decided = plan(world.snapshot())
    assert decided.again_at is not None
    assert decided.again_at <= after(world.now, 200.0)
    assert "no cell has run since 2026-06-15T23:58:20Z: its GPUs are given back at 2026-06-16T00:03:20Z" in (
        decided.jobs[NOTEBOOK].reason.message
    )


def test_the_write_that_gives_back_says_why_and_the_job_waits_for_its_next_ask_at_no_cost() -> None:
    world = session(beside=False, interactive=Interactive(asks=1, served=1, idle_seconds=60.0))
    says(world, idle_since=after(world.now, -60.0))
    decided = plan(world.snapshot())
    (command,) = [command for command in decided.commands if isinstance(command, Allocate)]
    assert command.reason.code is ReasonCode.NO_GPU_WANTED
    world.carry_out(decided)
    world.everything_starts()
    world.passes(10_000.0)
    idle = plan(world.snapshot())
    assert rents(idle) == []
    assert placed(idle) == {}
    why = idle.jobs[NOTEBOOK].reason
    assert why.code is ReasonCode.NO_GPU_WANTED
    assert "ask 1 was answered at 2026-06-16T00:00:00Z; a GPU costs about $2.48 an hour" in why.message


def asked_again(world: World) -> Plan:
    job = world.jobs[NOTEBOOK]
    assert job.interactive is not None
    told = replace(job.interactive, asks=job.interactive.asks + 1)
    world.jobs[NOTEBOOK] = replace(job, interactive=told)
    return plan(world.snapshot())


def test_a_new_ask_gets_a_gpu() -> None:
    world = session(beside=True, interactive=Interactive(asks=1, served=1, idle_seconds=60.0))
    says(world, idle_since=after(world.now, -60.0))
    world.carry_out(plan(world.snapshot()))
    world.everything_starts()
    assert placed(asked_again(world)) == {"notebook": 1}


def test_an_ask_that_the_run_has_not_heard_of_is_not_answered_with_it() -> None:
    world = session(interactive=Interactive(asks=1, served=1, idle_seconds=60.0))
    says(world, idle_since=after(world.now, -60.0))
    world.carry_out(asked_again(world))
    told = world.jobs[NOTEBOOK].interactive
    assert told is not None
    assert (told.asks, told.answered, told.wants_gpus) == (2, 1, True)


def test_a_job_that_nobody_asked_for_is_no_work_in_sight_and_no_arrival() -> None:
    worlds = [session(), session()]
    worlds[1].job("other", gpus=1, profile="nb", interactive=Interactive())
    without, beside = [plan(world.snapshot()) for world in worlds]
    assert beside.budgets == without.budgets
    assert beside.jobs[JobId("other")].reason.message == (
        "it asks for no GPU: spec.interactive.asks is 0, and it costs nothing until that is raised"
    )


def test_a_session_is_not_moved_though_that_would_pay() -> None:
    worlds = []
    for told in (None, Interactive(asks=1, served=1)):
        world = World()
        world.budget()
        world.pool(price="16")
        world.pool("cheap", price="1")
        world.profile("nb", Amdahl(0.9, 1.0), work_hours=100)
        world.job("notebook", gpus=8, profile="nb", resize=ResizePolicy.RESTART, interactive=told)
        world.rental()
        world.rental("cheap")
        world.runs_on("notebook", "a100-1", gpus=8)
        world.job("large", gpus=8, gpu_types=("none",))
        worlds.append(world)
    for world in worlds:
        world.jobs[NOTEBOOK] = replace(world.jobs[NOTEBOOK], gpu_types=())
        pool = world.pools[world.rentals[RentalId("cheap-1")].pool]
        assert pool.offering is not None
        world.pools[pool.id] = replace(pool, offering=replace(pool.offering, gpu_type="a100"))
    moved, stays = (plan(world.snapshot()) for world in worlds)
    assert placed(moved) == {"notebook": 8}
    assert placed(stays) == {}
    assert "it is interactive, and its session would be lost" in stays.jobs[NOTEBOOK].reason.message


def test_an_idle_session_whose_node_goes_away_is_over_at_once() -> None:
    world = session(beside=False)
    says(world, idle_since=after(world.now, -1.0))
    rental = world.rentals[RentalId("a100-1")]
    world.rentals[rental.id] = replace(rental, phase=RentalPhase.DRAINING, released_because="test")
    (command,) = [each for each in plan(world.snapshot()).commands if isinstance(each, Allocate)]
    assert (command.allocation, command.reason.code) == (None, ReasonCode.NO_GPU_WANTED)


def test_what_an_owners_hour_is_worth_decides_who_is_first() -> None:
    world = World()
    world.budget()
    world.pool(max_nodes=1, gpus=1)
    world.rental()
    world.job("train", gpus=1, age_seconds=100.0)
    world.job("notebook", gpus=1, interactive=Interactive(asks=1, hourly=Price.parse("500")))
    assert placed(plan(world.snapshot())) == {"notebook": 1}


def test_at_the_instant_for_which_the_plan_is_to_be_made_again_the_gpu_is_given_back() -> None:
    world = session(beside=False)
    says(world, idle_since=world.now)
    again = plan(world.snapshot()).again_at
    assert again is not None
    world.now = again
    assert given_back(world)


def test_a_run_that_nobody_asks_for_any_more_is_given_back_at_once_and_the_next_ask_gets_another() -> None:
    world = session(interactive=Interactive(asks=0, served=1))
    says(world, idle_since=None)
    world.carry_out(plan(world.snapshot()))
    told = world.jobs[NOTEBOOK].interactive
    assert told is not None
    assert (world.jobs[NOTEBOOK].allocation, told.answered) == (None, 1)
    world.everything_starts()
    world.jobs[NOTEBOOK] = replace(world.jobs[NOTEBOOK], interactive=replace(told, asks=2))
    assert placed(plan(world.snapshot())) == {"notebook": 1}
