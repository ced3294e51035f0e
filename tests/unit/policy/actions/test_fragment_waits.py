"""When a narrow job waits for GPUs that others are about to leave, and when a node is rented for it."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from charterer.domain.ids import JobId, PoolId, Rate
from charterer.domain.job import RunOutcome, RunRecord
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Plan, ReasonCode, Rent
from charterer.domain.pool import NodeStart
from charterer.domain.profile import PowerLaw
from charterer.domain.rental import RentalPhase
from charterer.domain.time import after, seconds_between
from charterer.estimate.waits import with_start
from charterer.policy.explain.alternatives import Comparison, Rank, alternatives
from charterer.policy.planner import plan, solve_budgets
from tests.worlds import World

NEW = JobId("new")
OFTEN = 7 / 8 * 16 * 120 / 3600 / 2
"""Hours that a job alone waits for a GPU at most where others come often: what seven GPUs cost while a node starts, at
$2 a job-hour."""
ALLOWED = 5 * OFTEN
"""The same where hardly any come."""
WHOLE = 120 / 3600 + 16 * 120 / 3600 / 2 / 2
"""Hours that a job waits for a whole node at most: its start, and half of what that bills, at $2 a job-hour."""


def full_node(left: float, *, size: int = 8, gpus: int = 1, **job: Any) -> World:
    """All GPUs of a100-1 are in use, two of them for ``left`` more hours, and ``new`` has just come."""
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(2.0 / 3600.0))
    world.pool(gpus=size, price=str(2 * size))
    world.rental()
    world.job("long", gpus=size - 2, hours_left=10.0)
    world.runs_on("long", "a100-1", gpus=size - 2)
    world.job("short", gpus=2, hours_left=left)
    world.runs_on("short", "a100-1", gpus=2)
    world.job("new", gpus=gpus, hours_left=1.0, **job)
    return world


def rented(decided: Plan) -> list[str]:
    return [command.pool for command in decided.commands if isinstance(command, Rent)]


def test_a_job_waits_for_gpus_that_others_leave_soon_and_says_for_how_long() -> None:
    world = full_node(0.05)
    decided = plan(world.snapshot())
    assert rented(decided) == []
    why = decided.jobs[NEW].reason
    assert why.code is ReasonCode.WAITING_FOR_FREE_GPUS
    assert why.message == (
        "1 GPU on a100 wanted: it is expected to be free in 3 min on a node in use, and the unused GPUs of a new node"
        " would cost $2.33 until other jobs come; a new node is rented at 2026-06-16T01:10:00Z at the latest"
    )
    assert decided.again_at is not None
    assert seconds_between(world.now, decided.again_at) == pytest.approx(ALLOWED * 3600, abs=0.01)


def test_a_wider_job_that_waits_with_it_is_told_that_those_gpus_are_for_another() -> None:
    world = full_node(0.05)
    world.job("wide", gpus=4, hours_left=1.0)
    decided = plan(world.snapshot())
    assert rented(decided) == []
    said = decided.jobs[JobId("wide")].reason.message
    assert said.startswith(
        "4 GPUs on a100 wanted: 1 GPU for another waiting job is expected to be free in 3 min on a node in use, and"
    )


def test_a_job_takes_the_gpus_it_waited_for_when_they_are_free() -> None:
    world = full_node(0.05)
    world.carry_out(plan(world.snapshot()))
    del world.jobs[JobId("short")]
    world.passes(180.0)
    decided = plan(world.snapshot())
    assert rented(decided) == []
    assert decided.jobs[NEW].reason.code is not ReasonCode.WAITING_FOR_FREE_GPUS


def test_a_node_is_rented_when_the_wait_has_cost_as_much_as_it_was_to_save() -> None:
    world = full_node(0.05)
    first = plan(world.snapshot())
    assert first.again_at is not None
    world.now = first.again_at
    assert rented(plan(world.snapshot())) == ["a100"]


def test_a_node_is_rented_at_once_where_no_gpus_come_in_time() -> None:
    assert rented(plan(full_node(ALLOWED + 0.01).snapshot())) == ["a100"]


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_job_waits_for_no_run_of_which_nothing_says_when_it_ends(gpus: int) -> None:
    """Such a run is planned with four hours: at four cents a job-hour a job would wait for longer than that."""
    world = full_node(0.05, gpus=gpus)
    (budget,) = world.budgets.values()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(0.04 / 3600.0))
    for left, expected in ((4 * 3600.0, []), (None, ["a100"])):
        world.jobs = {name: replace(job, remaining=left) for name, job in world.jobs.items()}
        assert rented(plan(world.snapshot())) == expected


def test_a_job_waits_for_longer_where_nodes_are_seen_to_start_slower_than_declared() -> None:
    world = full_node(ALLOWED + 0.01)
    pool = world.pools[PoolId("a100")]
    start = NodeStart(world.now, world.now, after(world.now, 4 * pool.start_seconds))
    world.pools[pool.id] = replace(pool, launches=reduce(with_start, [start] * 100, pool.launches))
    assert rented(plan(world.snapshot())) == []


@pytest.mark.parametrize(("an_hour", "waits"), [(60.0, OFTEN), (20.0, 1.5 * OFTEN), (1.0, ALLOWED)])
def test_a_job_waits_for_longer_where_others_come_seldom(an_hour: float, waits: float) -> None:
    world = full_node(0.05)
    world.jobs.pop(NEW)
    world.profile("known", PowerLaw(0.9, 1.0), work_hours=1.0, arrivals_per_hour=an_hour)
    world.job("new", gpus=1, profile="known", hours_left=1.0)
    decided = plan(world.snapshot())
    assert decided.jobs[NEW].reason.code is ReasonCode.WAITING_FOR_FREE_GPUS
    assert decided.again_at is not None
    assert seconds_between(world.now, decided.again_at) == pytest.approx(waits * 3600, rel=0.05)


def whole_node(left: float, jobs: int = 1) -> World:
    """One job has all of a100-1 for ``left`` more hours, another all of a100-2, and ``jobs`` have come that want a
    whole node.
    """
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(2.0 / 3600.0))
    world.pool(gpus=8, price="16")
    for name, hours in (("first", left), ("second", 10.0)):
        rental = world.rental()
        world.job(name, gpus=8, hours_left=hours)
        world.runs_on(name, rental.id, gpus=8)
    for number in range(jobs):
        world.job(f"new{number}", gpus=8, hours_left=1.0)
    return world


def test_a_job_waits_for_a_whole_node_that_is_left_soon_and_says_for_how_long() -> None:
    world = whole_node(0.05)
    decided = plan(world.snapshot())
    assert rented(decided) == []
    why = decided.jobs[JobId("new0")].reason
    assert why.code is ReasonCode.WAITING_FOR_FREE_GPUS
    assert why.message == (
        "8 GPUs on a100 wanted: a node in use is expected to be free in 3 min, and a new one would cost $0.53 in the"
        " 2 min that it starts; a new node is rented at 2026-06-16T00:10:00Z at the latest"
    )
    assert decided.again_at is not None
    assert seconds_between(world.now, decided.again_at) == pytest.approx(WHOLE * 3600, abs=0.01)
    world.now = decided.again_at
    assert rented(plan(world.snapshot())) == ["a100"]


@pytest.mark.parametrize(("left", "jobs", "nodes"), [(WHOLE - 0.01, 1, 0), (WHOLE + 0.01, 1, 1), (0.05, 2, 1)])
def test_a_whole_node_is_rented_where_none_is_left_in_time_for_the_job(left: float, jobs: int, nodes: int) -> None:
    assert rented(plan(whole_node(left, jobs).snapshot())) == ["a100"] * nodes


def hole_and_whole_node(left: float, *, elasticity: float = 0.9, used: int = 4) -> World:
    """``used`` GPUs of a100-1 are in use, one job has all of a100-2 for ``left`` more seconds (0: none has), and
    ``new`` runs best on 8 GPUs.
    """
    world = World()
    budget = world.budget()
    world.budgets[budget.id] = replace(budget, fixed_rate=Rate(4.0 / 3600.0))
    world.pool(gpus=8, price="16")
    world.profile("known", PowerLaw(elasticity, 1.0), work_hours=1.0)
    for name, hours, gpus in (("long", 10.0, used), ("short", left / 3600, 8)):
        rental = world.rental()
        if hours:
            world.job(name, gpus=gpus, hours_left=hours)
            world.runs_on(name, rental.id, gpus=gpus)
    world.job("new", gpus=(1, 1, 8), profile="known", hours_left=1.0)
    return world


@pytest.mark.parametrize(("left", "gpus"), [(30.0, 8), (600.0, 4)])
def test_a_job_does_not_begin_beside_others_when_it_would_soon_move_to_a_whole_node(left: float, gpus: int) -> None:
    decided = plan(hole_and_whole_node(left).snapshot())
    assert rented(decided) == []
    option = decided.jobs[NEW].option
    assert option is not None
    assert option.gpus == gpus
    waits = decided.jobs[NEW].reason.code is ReasonCode.WAITING_FOR_FREE_GPUS
    assert waits == (gpus == 8)


def test_explain_counts_the_wait_for_a_whole_node_and_not_a_start_up() -> None:
    snapshot = hole_and_whole_node(30.0).snapshot()
    found = alternatives(snapshot.jobs[NEW], plan(snapshot).jobs[NEW], Comparison.of(solve_budgets(snapshot)[0]))
    assert found is not None
    assert found.chosen.option.gpus == 8
    assert {row.rank for row in found.rows} == {Rank.CHOSEN, Rank.TOO_SLOW}
    start = snapshot.pools[PoolId("a100")].start_seconds
    assert found.chosen.seconds == pytest.approx(3600 / 8**0.9 + found.chosen.option.entry_seconds - start + 30.0)


def test_a_node_is_rented_at_once_for_jobs_that_fill_it() -> None:
    world = full_node(0.05)
    for number in range(7):
        world.job(f"more{number}", gpus=1, hours_left=1.0)
    assert rented(plan(world.snapshot())) == ["a100"]


def test_with_others_a_job_never_waits_longer_than_it_was_told() -> None:
    world = full_node(0.05)
    alone = plan(world.snapshot()).again_at
    world.job("other", gpus=2, hours_left=1.0, age_seconds=60.0)
    together = plan(world.snapshot()).again_at
    assert alone is not None
    assert together is not None
    assert together < alone


def test_a_job_with_a_target_waits_for_nothing() -> None:
    world = full_node(0.05)
    world.profile("known", PowerLaw(0.9, 1.0), work_hours=1.0)
    world.job("new", gpus=(1, 1, 2), profile="known", target_hours=20.0)
    assert rented(plan(world.snapshot())) == ["a100"]


def test_a_job_that_lost_its_node_counts_its_wait_from_then_on() -> None:
    world = full_node(0.05, age_seconds=7200.0)
    assert rented(plan(world.snapshot())) == ["a100"]
    job = world.jobs[NEW]
    option = Option(PoolId("a100"), 1, 1.0, Price.parse("2"))
    record = RunRecord(1, RunOutcome.INTERRUPTED, option, (), after(world.now, -600), world.now, "")
    world.jobs[NEW] = replace(job, records=(record,), last_run=1)
    assert rented(plan(world.snapshot())) == []


def test_where_no_node_can_be_had_the_job_does_not_wait_for_one_pool_but_takes_another() -> None:
    world = full_node(0.05)
    world.pools[PoolId("a100")] = replace(world.pools[PoolId("a100")], max_nodes=1)
    world.pool("other", gpus=8, price="17", gpu_type="a100")
    assert rented(plan(world.snapshot())) == ["other"]


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_the_smallest_node_that_a_job_fits_into_is_rented(gpus: int) -> None:
    world = World()
    world.budget()
    for size in (8, 4, 2, 1):
        world.pool(f"a{size}", gpus=size, price=str(2 * size), gpu_type="a100")
    world.job("new", gpus=gpus, hours_left=1.0)
    assert rented(plan(world.snapshot())) == [f"a{gpus}"]


def test_nodes_that_were_just_asked_for_for_a_wide_job_are_not_taken_by_narrow_ones_that_fit_another_better() -> None:
    """The wide job would have to rent others, and what was asked for would be given back."""
    world = World()
    world.budget(amount="5000")
    world.pool("large", gpus=8, price="16", gpu_type="a100", max_nodes=2)
    world.pool("small", gpus=1, price="2", gpu_type="a100")
    world.rental("large", phase=RentalPhase.REQUESTED, age=1.0)
    for name, gpus, hours in (("two", 2, 5.0), ("four", 4, 5.0), ("wide", 16, None)):
        world.job(name, gpus=gpus, hours_left=hours, weight=5.0)
    decided = plan(world.snapshot())
    assert rented(decided) == ["small"] * 16
    world.carry_out(decided)
    assert plan(world.snapshot()).commands == ()


@pytest.mark.parametrize(("jobs", "pools"), [(1, ["small"]), (8, ["large"])])
def test_a_smaller_node_is_rented_where_its_gpus_cost_more_only_while_more_of_the_large_one_would_be_empty(
    jobs: int, pools: list[str]
) -> None:
    world = World()
    world.budget()
    world.pool("large", gpus=8, price="16", gpu_type="a100")
    world.pool("small", gpus=1, price="2.50", gpu_type="a100")
    for number in range(jobs):
        world.job(f"new-{number}", gpus=1, hours_left=1.0)
    assert rented(plan(world.snapshot())) == pools


def test_free_gpus_of_a_large_node_come_before_a_small_node() -> None:
    world = full_node(0.05)
    world.pool("small", gpus=1, price="2", gpu_type="a100")
    del world.jobs[JobId("short")]
    decided = plan(world.snapshot())
    assert rented(decided) == []
    option = decided.jobs[NEW].option
    assert option is not None
    assert option.pool == "a100"


def test_two_pools_of_one_gpu_type_fill_the_smaller_nodes_as_they_are_left() -> None:
    world = full_node(0.05)
    world.pool("small", gpus=2, price="4", gpu_type="a100")
    world.rental("small")
    decided = plan(world.snapshot())
    assert rented(decided) == []
    assert decided.jobs[NEW].reason.code is not ReasonCode.WAITING_FOR_FREE_GPUS
    places = [command.allocation for command in decided.commands if isinstance(command, Allocate)]
    assert [place.placements[0].rental for place in places if place is not None] == ["small-1"]


@pytest.mark.parametrize(("hours", "pools"), [(1.0, ["small"]), (0.01, [])])
def test_an_empty_large_node_is_not_taken_by_a_job_that_is_cheaper_on_a_small_one(
    hours: float, pools: list[str]
) -> None:
    world = World()
    world.budget()
    world.pool("large", gpus=8, price="16", gpu_type="a100")
    world.pool("small", gpus=1, price="2", gpu_type="a100")
    world.rental("large")
    world.job("new", gpus=1, hours_left=hours)
    assert rented(plan(world.snapshot())) == pools
    world.carry_out(plan(world.snapshot()))
    assert rented(plan(world.snapshot())) == []
