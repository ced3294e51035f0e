"""A wide job that lost a node goes on with the rest while another one starts, where that gains more than it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import MoveLimits
from charterer.domain.ids import JobId, Rate
from charterer.domain.job import Allocation, Placement, ResizePolicy, RunOutcome, RunRecord, SpotPolicy
from charterer.domain.money import Money
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Plan, ReasonCode, Rent
from charterer.domain.pool import CapacityType, Hazard
from charterer.domain.profile import ThroughputTable
from charterer.domain.time import after
from charterer.policy.planner import plan
from tests.worlds import World

HAZARD = Hazard((0.1,) * 4, 0.5, 0.0, 0.1, 0.05, 0.2, 5.0, 50.0)
RESTART, WRITE, NARROWER = 60.0, 30.0, 0.8


def one_of_four_lost(start_seconds: float, outcome: RunOutcome = RunOutcome.INTERRUPTED) -> World:
    """Three of a job's four nodes are left. It is worth $50 an hour, for which four nodes are best."""
    world = World()
    world.budget(amount="100000")
    world.budgets = {name: replace(budget, fixed_rate=Rate(50 / 3600)) for name, budget in world.budgets.items()}
    pool = world.pool("spot", price="3", gpu_type="a100", capacity=CapacityType.SPOT, start_seconds=start_seconds)
    world.pools[pool.id] = replace(pool, hazard=HAZARD)
    curve = ThroughputTable(((24, NARROWER), (32, 1.0)))
    profile = world.profile("sft", curve, work_hours=10, restart_seconds=RESTART)
    world.profiles[profile.id] = replace(profile, checkpoint_seconds=WRITE)
    world.job("train", gpus=(24, 24, 32), profile="sft", spot=SpotPolicy.ALLOWED)
    rentals = [world.rental("spot") for _ in range(3)]
    option = Option(pool.id, 32, 1.0, rentals[0].price)
    places = tuple(Placement(rental.id, 8) for rental in rentals)
    record = RunRecord(1, outcome, option, places, after(world.now, -3000.0), world.now, "")
    world.jobs = {name: replace(job, records=(record,), last_run=1) for name, job in world.jobs.items()}
    return world


def given(decided: Plan) -> list[Allocation]:
    """The allocations that are given."""
    return [each.allocation for each in decided.commands if isinstance(each, Allocate) and each.allocation is not None]


# 0.8·(T − 60 s) > 30 s from T = 97.5 s on
@pytest.mark.parametrize(("start_seconds", "widths"), [(600.0, [24]), (99.0, [24]), (96.0, []), (40.0, [])])
def test_a_job_goes_on_with_the_rest_if_what_it_trains_meanwhile_is_more_than_another_checkpoint(
    start_seconds: float, widths: list[int]
) -> None:
    decided = plan(one_of_four_lost(start_seconds).snapshot())
    assert [allocation.option.gpus for allocation in given(decided)] == widths
    assert len([command for command in decided.commands if isinstance(command, Rent)]) == 1


def test_the_reason_of_a_job_that_runs_meanwhile_names_the_nodes_it_waits_for() -> None:
    why = plan(one_of_four_lost(600.0).snapshot()).jobs[JobId("train")].reason
    assert why.code is ReasonCode.INTERRUPTION
    assert why.message == "it runs on 24 GPUs on spot until the other nodes for 32 GPUs on spot are ready"


def test_a_job_keeps_the_node_that_starts_and_moves_to_all_of_them_when_it_is_ready() -> None:
    world = one_of_four_lost(600.0)
    decided = plan(world.snapshot())
    world.carry_out(decided)
    world.starts("train")
    world.passes(300.0)
    assert plan(world.snapshot()).commands == ()
    world.everything_starts()
    [allocation] = given(plan(world.snapshot()))
    assert allocation.option.gpus == 32


@pytest.mark.parametrize("case", ["never moved", "limited moves", "maxCost", "not interrupted"])
def test_a_job_waits_for_all_its_nodes_if_it_cannot_move_to_them_later_or_lost_none(case: str) -> None:
    world = one_of_four_lost(600.0, RunOutcome.STOPPED if case == "not interrupted" else RunOutcome.INTERRUPTED)
    [job] = world.jobs.values()
    if case == "never moved":
        world.jobs = {job.id: replace(job, resize=ResizePolicy.NEVER)}
    if case == "limited moves":
        world.budgets = {
            name: replace(budget, moves=MoveLimits(per_job_and_day=1)) for name, budget in world.budgets.items()
        }
    if case == "maxCost":
        world.jobs = {job.id: replace(job, max_cost=Money.parse("9999"))}
    assert not given(plan(world.snapshot()))
