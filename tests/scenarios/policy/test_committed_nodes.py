"""Nodes that are paid for whether they are used or not: rented at once, used first, kept until their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import Mode, Selector
from charterer.domain.ids import BudgetId, JobId, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.plan import ReasonCode
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Stop
from charterer.domain.time import after
from charterer.policy import plan
from charterer.policy.planner import solve_budgets
from tests.scenarios.policy.stories import STEEP, placed, releases, rents, settle, why
from tests.worlds import World

RESERVED = PoolId("reserved")
MONTH = 30 * 24.0


def world_with(nodes: int = 2, *, price: str = "16", hours: float = MONTH, **budget: Any) -> World:
    """``nodes`` committed nodes beside a pool of the same GPUs at $16."""
    world = World()
    world.budget(**budget)
    world.pool("a100", gpus=8, price="16")
    world.pool(RESERVED, gpus=8, price=price, gpu_type="a100", max_nodes=nodes, committed_hours=hours)
    world.profile("sft", STEEP, work_hours=40)
    return world


def pools_of_jobs(world: World) -> dict[str, str]:
    return {job.name: job.allocation.option.pool for job in world.jobs.values() if job.allocation is not None}


def test_all_committed_nodes_are_rented_at_once_and_kept_while_nobody_needs_them() -> None:
    world = world_with()
    decided = plan(world.snapshot())
    assert rents(decided) == ["reserved-1", "reserved-2"]
    assert {command.reason.code for command in decided.commands} == {ReasonCode.COMMITTED}
    world.carry_out(decided)
    assert plan(world.snapshot()).commands == ()
    settle(world)
    world.passes(5 * 86_400.0)
    decided = plan(world.snapshot())
    assert (decided.commands, decided.not_rented) == ((), {})


def test_the_plan_is_made_again_when_a_commitment_ends() -> None:
    world = world_with(hours=5.0)
    settle(world)
    end = world.pools[RESERVED].committed
    assert end is not None
    assert plan(world.snapshot()).again_at == end.until


@pytest.mark.parametrize("price", ["8", "16", "40"])
def test_committed_nodes_are_used_first_whatever_they_are_paid_with(price: str) -> None:
    world = world_with(price=price)
    world.job("train", gpus=8, hours_left=10.0)
    settle(world)
    assert pools_of_jobs(world) == {"train": "reserved"}
    assert [rental.id for rental in world.rentals.values() if rental.pool == "a100"] == []


def test_idle_committed_nodes_make_a_job_wider_than_it_would_be_at_their_price() -> None:
    there, elsewhere = world_with(amount="11620"), World()
    elsewhere.budget(amount="100")
    elsewhere.pool("a100", gpus=8, price="16")
    elsewhere.profile("sft", STEEP, work_hours=40)
    for world in (there, elsewhere):
        world.job("train", gpus=(1, 1, 16), profile="sft")
        settle(world)
    wide, narrow = (world.jobs[JobId("train")].allocation for world in (there, elsewhere))
    assert wide is not None
    assert narrow is not None
    assert (wide.option.pool, wide.option.gpus) == ("reserved", 16)
    assert narrow.option.gpus == 8


def test_jobs_beyond_the_committed_nodes_get_others_as_long_as_money_is_left() -> None:
    """A ceiling that followed the marginal price would crowd all eight onto the committed nodes (ADR 6)."""
    world = world_with(amount="14000")
    for number in range(8):
        world.job(f"j{number}", gpus=(1, 8, 32), profile="sft")
    settle(world)
    homes = pools_of_jobs(world)
    assert len(homes) == 8
    assert set(homes.values()) == {"reserved", "a100"}
    assert min(job.allocation.option.gpus for job in world.jobs.values() if job.allocation is not None) >= 8


def test_the_ceiling_of_a_budget_is_as_beside_the_same_nodes_at_their_price() -> None:
    committed, plain = world_with(), world_with()
    plain.pools[RESERVED] = replace(plain.pools[RESERVED], committed=None)
    for world in (committed, plain):
        world.job("train", gpus=(1, 8, 32), profile="sft")
    ceilings = [
        assignment.group.menu.ceiling
        for world in (committed, plain)
        for solution in solve_budgets(world.snapshot())
        for assignment in solution.assignments.values()
    ]
    assert ceilings[0] == ceilings[1] > 0.0


def test_what_a_job_costs_on_committed_nodes_is_counted_and_predicted_at_the_price_that_is_paid() -> None:
    world = world_with(price="12")
    world.job("train", gpus=8, profile="sft", hours_left=40.0)
    settle(world)
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    assert job.allocation.option.price == Price.parse("12")
    assert job.predicted is not None
    hours = 40.0 / job.allocation.option.speed
    assert job.predicted.dollars == pytest.approx(12.0 * hours, rel=0.02)


def test_a_maximum_cost_counts_the_price_that_is_paid() -> None:
    world = world_with(price="12")
    world.job("train", gpus=8, hours_left=10.0, max_cost="100")
    assert why(plan(world.snapshot()), "train") is ReasonCode.MAX_COST
    world.job("train", gpus=8, hours_left=10.0, max_cost="140")
    assert why(settle(world), "train") is not ReasonCode.MAX_COST


def test_money_for_jobs_is_what_commitments_leave_of_the_period() -> None:
    """Half of June is left: 360 hours of two nodes at $16 are $11,520 of the $60,000."""
    whole = solve_budgets(world_with(nodes=0).snapshot())[0]
    less = solve_budgets(world_with(nodes=2).snapshot())[0]
    assert whole.pacing.still_committed == 0.0
    assert less.pacing.still_committed == pytest.approx(11_520.0)
    assert (whole.allowed - less.allowed) * 3600.0 == pytest.approx(32.0)
    assert less.pacing.committable == pytest.approx(whole.pacing.committable - 240.0 * 32.0)


def test_a_commitment_that_ends_soon_leaves_the_rest_of_the_month_to_jobs() -> None:
    whole = solve_budgets(world_with(nodes=0).snapshot())[0]
    less = solve_budgets(world_with(nodes=2, hours=36.0).snapshot())[0]
    assert (whole.allowed - less.allowed) * 3600.0 == pytest.approx(3.2)


def test_a_job_on_committed_nodes_leaves_nothing_to_be_paid_beside_the_commitment() -> None:
    world = world_with()
    world.job("train", gpus=16, hours_left=100.0)
    settle(world)
    (solution,) = solve_budgets(world.snapshot())
    assert (solution.calibration.left, solution.calibration.rate) == (0.0, 0.0)


def test_the_forecast_has_all_that_the_commitment_costs() -> None:
    world = world_with()
    verdict = plan(world.snapshot()).budgets[BudgetId("research")]
    assert verdict.commitments.dollars == pytest.approx(11_520.0)
    assert verdict.expected.dollars == pytest.approx(11_520.0)


@pytest.mark.parametrize(
    ("budget", "refused"),
    [({"max_hourly": "20"}, ReasonCode.HOURLY_LIMIT), ({"hard_limit": "6"}, ReasonCode.HARD_LIMIT)],
)
def test_limits_hold_for_committed_nodes_and_the_reason_is_said(budget: dict[str, Any], refused: ReasonCode) -> None:
    decided = plan(world_with(**budget).snapshot())
    assert rents(decided) == ["reserved-1"]
    assert decided.not_rented == {RESERVED: refused}


def test_committed_nodes_have_the_room_under_an_hourly_limit_before_any_job() -> None:
    world = world_with(max_hourly="32")
    world.job("train", gpus=8, gpu_types=("h100",), hours_left=10.0)
    world.pool("h100", price="16")
    assert rents(plan(world.snapshot())) == ["reserved-1", "reserved-2"]


def test_nothing_is_rented_while_the_pool_cools_or_the_operator_is_stopped() -> None:
    cooling, stopped = world_with(), world_with()
    cooling.pool(RESERVED, gpus=8, gpu_type="a100", max_nodes=2, committed_hours=MONTH, cooled_for=300.0)
    decided = plan(cooling.snapshot())
    assert (rents(decided), decided.not_rented) == ([], {RESERVED: ReasonCode.POOL_COOLING})
    assert decided.again_at == after(cooling.now, 300.0)
    decided = plan(replace(stopped.snapshot(), stop=Stop.RENT))
    assert (rents(decided), decided.not_rented) == ([], {RESERVED: ReasonCode.STOPPED})


def test_a_budget_that_only_observes_rents_none() -> None:
    world = world_with(mode=Mode.OBSERVE)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert len(decided.observed_commands) == 2


@pytest.mark.parametrize("payer", ["prod", "nobody"])
def test_nobody_but_the_payer_rents_in_a_committed_pool(payer: str) -> None:
    world = world_with()
    world.pool(RESERVED, gpus=8, price="1", gpu_type="a100", max_nodes=2, committed_hours=MONTH, payer=payer)
    world.job("train", gpus=8, hours_left=10.0)
    settle(world)
    assert pools_of_jobs(world) == {"train": "a100"}
    assert [rental for rental in world.rentals.values() if rental.pool == RESERVED] == []


def test_a_job_without_an_option_is_told_which_pool_another_budget_pays_for() -> None:
    world = World()
    world.budget()
    world.pool(RESERVED, max_nodes=2, committed_hours=MONTH, payer="prod")
    world.job("train", gpus=8)
    told = plan(world.snapshot()).jobs[JobId("train")].reason
    said = "GPUPool reserved is committed to GPUBudget prod (spec.price.committed): no other budget's jobs run there"
    assert (told.code, told.message) == (ReasonCode.NO_OPTION, said)
    world.pool("h100", max_nodes=1, gpus=4)
    assert plan(world.snapshot()).jobs[JobId("train")].reason.message.endswith(said)


def test_a_payer_that_does_not_select_the_pool_rents_nothing_for_it() -> None:
    world = world_with(pools=Selector((("tier", "cheap"),)))
    assert rents(plan(world.snapshot())) == []


def test_the_other_half_is_rented_when_the_operator_died_between_two_nodes() -> None:
    world = world_with(nodes=4)
    decided = plan(world.snapshot())
    for command in decided.commands[:2]:
        world.write(command)
    assert rents(plan(world.snapshot())) == ["reserved-3", "reserved-4"]


def test_a_lost_node_is_had_again() -> None:
    world = world_with()
    settle(world)
    world.ends("reserved-1")
    assert rents(plan(world.snapshot())) == ["reserved-3"]


def test_nodes_beyond_a_lowered_maximum_are_given_back_as_soon_as_nobody_uses_them() -> None:
    world = world_with(nodes=3)
    world.job("train", gpus=8, hours_left=100.0)
    settle(world)
    (home,) = {place.rental for job in world.jobs.values() if job.allocation for place in job.allocation.placements}
    world.pools[RESERVED] = replace(world.pools[RESERVED], max_nodes=2)
    gone = releases(plan(world.snapshot()))
    assert len(gone) == 1
    assert home not in gone


def test_at_the_end_of_the_commitment_idle_nodes_go_and_jobs_stay_at_the_list_price() -> None:
    world = world_with()
    world.job("train", gpus=8, hours_left=2000.0)
    settle(world)
    (home,) = {place.rental for job in world.jobs.values() if job.allocation for place in job.allocation.placements}
    world.pools[RESERVED] = replace(world.pools[RESERVED], committed=None, price_override=None)
    decided = plan(world.snapshot())
    assert releases(decided) == {({"reserved-1", "reserved-2"} - {home}).pop(): ReasonCode.IDLE}
    assert placed(decided) == {}
    (solution,) = solve_budgets(world.snapshot())
    assert solution.pacing.commitments == ()
    assert solution.calibration.left > 0.0


def test_when_the_budget_is_deleted_all_of_its_committed_nodes_end_and_none_comes() -> None:
    world = world_with()
    settle(world)
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], deleting=True)
    decided = plan(world.snapshot())
    assert releases(decided) == dict.fromkeys(["reserved-1", "reserved-2"], ReasonCode.BUDGET_DELETED)
    assert rents(decided) == []


def test_a_half_empty_committed_node_is_not_emptied_and_takes_the_jobs_of_one_that_is_billed() -> None:
    world = world_with(nodes=1, amount="60000")
    world.rental("a100")
    world.rental(RESERVED)
    for name, rental in (("here", "reserved-1"), ("there", "a100-1")):
        world.job(name, gpus=2, hours_left=200.0, age_seconds=3600.0)
        world.runs_on(name, rental, gpus=2)
    decided = plan(world.snapshot())
    assert placed(decided) == {"there": 2}
    assert world.rentals[RentalId("reserved-1")].phase is RentalPhase.READY
    world.carry_out(decided)
    world.everything_starts()
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.IDLE}
