"""Whom jobs share a GPU with, where a node is one GPU for two jobs: as short stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.ids import JobId
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.job_records import told_of
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.outlook.partners import Partners
from charterer.policy.outlook.placer import Placer, SharedNodes
from charterer.policy.planner import solve_budgets
from tests.scenarios.policy.pairs import KEPT, come, world_of_pairs
from tests.scenarios.policy.stories import rents
from tests.worlds import World


def beside(world: World) -> list[set[str]]:
    """The jobs of each node, most first."""
    found: dict[str, set[str]] = {}
    for job in world.jobs.values():
        assert job.allocation is not None
        found.setdefault(job.allocation.placements[0].rental, set()).add(job.name)
    return sorted(found.values(), key=lambda jobs: (-len(jobs), sorted(jobs)))


def test_of_two_partners_the_job_joins_the_one_with_which_more_is_saved() -> None:
    apart = {(own, other): 0.3 for own in ("good", "fair") for other in ("good", "fair")}
    both = {("new", "good"): 0.9, ("good", "new"): 0.9, ("new", "fair"): 0.7, ("fair", "new"): 0.7}
    for hosts in (("good", "fair"), ("fair", "good")):
        world = world_of_pairs(apart | both)
        come(world, *[(f"{host}1", host) for host in hosts], ("new1", "new"))
        assert beside(world) == [{"good1", "new1"}, {"fair1"}]


def test_a_job_joins_whom_it_does_not_lose_beside() -> None:
    world = world_of_pairs()
    come(world, ("heavy1", "heavy"), ("heavy2", "heavy"), ("light1", "light"))
    assert [len(jobs) for jobs in beside(world)] == [2, 1]
    world = world_of_pairs({**KEPT, ("light", "light"): 0.2})
    come(world, ("light1", "light"), ("light2", "light"), ("heavy1", "heavy"))
    assert {"heavy1"} not in beside(world)


def test_two_jobs_that_would_lose_have_a_gpu_each() -> None:
    world = world_of_pairs()
    come(world, ("heavy1", "heavy"), ("heavy2", "heavy"))
    assert beside(world) == [{"heavy1"}, {"heavy2"}]


def test_two_jobs_that_come_at_once_and_would_lose_do_not_wait_for_one_node() -> None:
    world = world_of_pairs()
    for name in ("heavy1", "heavy2"):
        world.job(name, gpus=1, profile="heavy", shared_mib=1024)
    assert rents(plan(world.snapshot())) == ["shared-1", "shared-2"]


def test_nobody_is_moved_to_be_beside_another_one() -> None:
    world = world_of_pairs({key: 0.4 for key in KEPT})
    come(world, ("light1", "light"), ("light2", "light"))
    for name, profile in list(world.profiles.items()):
        pairs = [replace(pair, kept=0.95) for pair in profile.pairs]
        world.profiles[name] = replace(profile, pairs=tuple(pairs))
    for _ in range(3):
        world.carry_out(plan(world.snapshot()))
        world.everything_starts()
    assert beside(world) == [{"light1"}, {"light2"}]


@pytest.mark.parametrize(("least", "nodes"), [(0.9, 1), (0.96, 2)])
def test_a_job_keeps_as_much_as_its_owner_says(least: float, nodes: int) -> None:
    world = world_of_pairs()
    come(world, ("light1", "light"), ("light2", "light"), least=least)
    assert len(beside(world)) == nodes


def test_a_pair_of_which_nobody_knows_is_tried_and_one_that_lost_is_not_tried_again() -> None:
    world = world_of_pairs({})
    come(world, ("light1", "light"), ("heavy1", "heavy"))
    assert beside(world) == [{"light1", "heavy1"}]
    world = world_of_pairs({("light", "heavy"): 0.4, ("heavy", "light"): 0.5})
    come(world, ("light1", "light"), ("heavy1", "heavy"))
    assert beside(world) == [{"heavy1"}, {"light1"}]


@pytest.mark.parametrize(("gpus", "pool"), [(1, "shared"), (4, "whole")])
def test_a_class_comes_for_the_partners_that_it_would_join_where_it_chooses_them(gpus: int, pool: str) -> None:
    """It had bad ones, so that its average is too low to come."""
    world = world_of_pairs(gpus=gpus, average=0.45)
    come(world, ("heavy1", "heavy"))
    (job,) = world.jobs.values()
    assert job.allocation is not None
    assert job.allocation.option.pool.startswith(pool)


def test_a_class_that_had_no_good_partner_stays_away() -> None:
    world = world_of_pairs(dict.fromkeys(KEPT, 0.45), average=0.45)
    come(world, ("heavy1", "heavy"))
    (job,) = world.jobs.values()
    assert job.allocation is not None
    assert job.allocation.option.pool == "whole"


def test_what_a_pair_saves_does_not_follow_from_what_a_place_is_worth() -> None:
    world = world_of_pairs()
    come(world, ("light1", "light"), ("heavy1", "heavy"))
    saved = []
    for factor in (1.0, 1.3):
        for name, job in list(world.jobs.items()):
            assert job.allocation is not None
            option = job.allocation.option
            hoped = replace(job.allocation, option=replace(option, speed=option.speed * factor))
            world.jobs[name] = replace(job, allocation=hoped)
        (solution,) = solve_budgets(world.snapshot())
        job = world.jobs[JobId("light1")]
        assert job.allocation is not None
        pair = Partners(solution).best(job, job.allocation.option)
        assert pair is not None
        saved.append((pair.match, pair.saved))
    assert saved[0] == saved[1]


def test_where_a_node_has_several_gpus_nobody_chooses_a_partner() -> None:
    world = world_of_pairs(gpus=4)
    come(world, *[(f"heavy{number}", "heavy") for number in range(4)])
    assert [len(jobs) for jobs in beside(world)] == [4]


def test_what_is_asked_of_a_place_is_that_of_the_node_that_would_be_chosen() -> None:
    """A job that would lose beside the one there has to rent, although a place is free."""
    world = world_of_pairs()
    come(world, ("heavy1", "heavy"))
    for name, profile in (("light1", "light"), ("heavy2", "heavy")):
        world.job(name, gpus=1, profile=profile, shared_mib=1024)
    snapshot = world.snapshot()
    (solution,) = solve_budgets(snapshot)
    placer = Placer(solution, SharedNodes.of(plan_inputs(snapshot, Memo())))
    must_rent = {}
    for name in ("light1", "heavy2"):
        job = snapshot.jobs[JobId(name)]
        assignment = solution.assignment(job)
        assert assignment is not None
        (option,) = [each for each in assignment.group.menu.options if each.shares_gpu]
        must_rent[name] = placer.must_rent(job, option)
        assert placer.ready(job, option) is not must_rent[name]
    assert must_rent == {"light1": False, "heavy2": True}


@pytest.mark.parametrize("gpus", [1, 2])
def test_two_jobs_that_ended_each_other_twice_are_apart_from_then_on(gpus: int) -> None:
    def together(times: int) -> bool:
        world = world_of_pairs(gpus=gpus)
        come(world, ("light1", "light"), ("light2", "light"))
        one, two = list(world.jobs.values())
        for job, other in ((one, two), (two, one)):
            assert job.allocation is not None
            past, since = job.allocation, job.allocation.since
            records = tuple(
                RunRecord(number, RunOutcome.INTERRUPTED, past.option, past.placements, since, since, told_of(other))
                for number in range(1, times + 1)
            )
            world.jobs[job.id] = replace(job, allocation=None, runs=(), records=records, last_run=times)
        for _ in range(4):
            world.carry_out(plan(world.snapshot()))
            world.everything_starts()
            world.passes(60.0)
        return len(beside(world)) == 1

    assert [together(times) for times in (1, 2, 3)] == [True, False, False]
