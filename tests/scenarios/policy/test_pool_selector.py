"""Budgets whose money may rent in some pools only, as short stories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import EVERYTHING, ClassHistory, Selector
from charterer.domain.ids import BudgetId, ClassId, JobId, PoolId, RentalId
from charterer.domain.job import ResizePolicy, RunOutcome, RunRecord
from charterer.domain.plan import Allocate, Limit, ReasonCode
from charterer.domain.profile import SpeedCurve
from charterer.domain.time import Instant, after, month_bounds
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.planner import solve_budgets
from charterer.tools.frontier import Frontier
from tests import factory
from tests.scenarios.policy.stories import STEEP, placed, releases, rents, settle, why
from tests.worlds import NAMESPACE, World

SLOW, FAST = {"speed": "slow"}, {"speed": "fast"}
ONLY_SLOW = Selector((("speed", "slow"),), ())
ONLY_FAST = Selector((("speed", "fast"),), ())
RESEARCH = BudgetId("research")


def two_pools(pools: Selector = EVERYTHING, **budget: Any) -> World:
    """A pool with the label speed=slow and one that is twice as fast for the same price, with speed=fast."""
    world = World()
    world.budget(pools=pools, **budget)
    world.pool("slow", labels=SLOW)
    world.pool("fast", labels=FAST)
    world.profile("sft", STEEP, gpu_type="slow", work_hours=40, others=(SpeedCurve("fast", replace(STEEP, value=2.0)),))
    return world


def period(world: World) -> Instant:
    return month_bounds("UTC", world.now)[0]


def test_a_job_gets_options_only_in_pools_that_its_budget_selects() -> None:
    world = two_pools(ONLY_SLOW)
    world.job("train", gpus=8, profile="sft")
    assert rents(plan(world.snapshot())) == ["slow-1"]
    world.budget(pools=EVERYTHING)
    assert rents(plan(world.snapshot())) == ["fast-1"]


def test_two_budgets_rent_each_in_its_own_pools() -> None:
    world = two_pools(ONLY_SLOW)
    world.budget("prod", pools=ONLY_FAST)
    world.job("cheap", gpus=8, profile="sft")
    world.job("dear", gpus=8, profile="sft", budget="prod")
    assert sorted(rents(plan(world.snapshot()))) == ["fast-1", "slow-1"]


def test_a_ready_machine_outside_the_selection_is_given_to_nobody_and_released() -> None:
    world = two_pools(ONLY_SLOW)
    world.rental("fast")
    world.job("train", gpus=8, profile="sft")
    decided = plan(world.snapshot())
    assert releases(decided) == {"fast-1": ReasonCode.IDLE}
    assert rents(decided) == ["slow-1"]
    assert placed(decided) == {}


def test_a_machine_outside_the_selection_is_not_kept_for_jobs_to_come() -> None:
    world = two_pools()
    often = ClassHistory(900.0, 900.0, 900.0, 900.0, after(world.now, -7 * 86_400.0), world.now, 900.0, 900.0)
    balance = factory.balance(class_history={ClassId(NAMESPACE, "often"): often}, period_start=period(world))
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], balance=balance)
    world.rental("fast")
    world.job("now", gpus=8, profile="sft")
    world.runs_on("now", "fast-1", gpus=8, speed=2.0)
    world.rental("fast")
    assert releases(plan(world.snapshot())) == {}
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], pool_selector=ONLY_SLOW)
    assert list(releases(plan(world.snapshot()))) == ["fast-2"]


def test_the_machine_of_a_job_that_rests_after_a_failed_run_is_not_kept_outside_the_selection() -> None:
    world = two_pools()
    world.rental("fast")
    job = world.job("train", gpus=8, profile="sft")
    running = world.runs_on("train", "fast-1", gpus=8).allocation
    assert running is not None
    failed = RunRecord(
        1, RunOutcome.FAILED, running.option, running.placements, running.since, world.now, "exited with 1"
    )
    world.jobs[job.id] = replace(world.jobs[job.id], allocation=None, runs=(), records=(failed,), failures=1)
    world.passes(1.0)
    assert releases(plan(world.snapshot())) == {}
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], pool_selector=ONLY_SLOW)
    assert list(releases(plan(world.snapshot()))) == ["fast-1"]


def test_a_machine_on_its_way_outside_the_selection_is_given_back_and_the_job_rents_in_it() -> None:
    world = two_pools()
    world.job("train", gpus=8, profile="sft")
    world.carry_out(plan(world.snapshot()))
    assert list(world.rentals) == ["fast-1"]
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], pool_selector=ONLY_SLOW)
    decided = plan(world.snapshot())
    assert list(releases(decided)) == ["fast-1"]
    assert rents(decided) == ["slow-1"]
    world.carry_out(decided)
    assert rents(plan(world.snapshot())) == []


@pytest.mark.parametrize("resize", [ResizePolicy.NEVER, ResizePolicy.RESTART, ResizePolicy.IN_PLACE])
def test_a_job_runs_on_in_a_pool_that_is_no_longer_selected_and_its_cost_stays_its_budgets(
    resize: ResizePolicy,
) -> None:
    world = two_pools(hard_limit="70000")
    world.job("train", gpus=8, profile="sft", resize=resize)
    settle(world)
    assert list(world.rentals) == ["fast-1"]
    world.passes(3600.0)
    before = plan(world.snapshot()).budgets[RESEARCH]
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], pool_selector=ONLY_SLOW)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert (decided.budgets[RESEARCH].spent, decided.budgets[RESEARCH].committed) == (before.spent, before.committed)
    assert before.spent.micros > 0
    option = decided.jobs[JobId("train")].option
    assert option is not None
    assert option.pool == "fast"


def test_a_job_in_a_pool_that_is_no_longer_selected_moves_into_a_selected_one_when_that_pays() -> None:
    world = two_pools(ONLY_FAST)
    world.rental("slow")
    world.job("train", gpus=8, profile="sft")
    world.runs_on("train", "slow-1", gpus=8, speed=8**0.9)
    decided = plan(world.snapshot())
    assert (rents(decided), releases(decided), placed(decided)) == (["fast-1"], {}, {})
    world.carry_out(decided)
    world.passes(1.0)
    assert rents(plan(world.snapshot())) == []
    world.everything_starts()
    decided = plan(world.snapshot())
    (move,) = [command for command in decided.commands if isinstance(command, Allocate)]
    assert move.allocation is not None
    assert (move.allocation.run, move.allocation.option.pool) == (2, "fast")


def test_a_job_that_may_use_no_selected_pool_runs_on_and_is_told_which_are_left_out() -> None:
    world = two_pools(ONLY_SLOW)
    world.rental("fast")
    world.job("train", gpus=8, gpu_types=("fast",))
    world.runs_on("train", "fast-1", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.jobs[JobId("train")].reason.message == (
        "it runs on, but could not start again: no GPUPool with a known price offers 8 GPUs of type fast: "
        "pools have slow; GPUBudget research rents only in GPUPools with speed=slow "
        "(spec.poolSelector), which leaves out fast"
    )


def test_a_job_whose_machine_is_lost_outside_the_selection_goes_on_inside_it() -> None:
    world = two_pools(ONLY_SLOW)
    world.rental("fast")
    world.job("train", gpus=8, profile="sft")
    world.runs_on("train", "fast-1", gpus=8)
    rental = world.rentals[RentalId("fast-1")]
    world.rentals[rental.id] = replace(rental, deleting=True)
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 0}
    assert rents(decided) == ["slow-1"]


def test_a_job_that_no_selected_pool_fits_is_told_that_the_budget_leaves_pools_out() -> None:
    world = two_pools(ONLY_SLOW)
    world.job("train", gpus=8, gpu_types=("fast",))
    decided = plan(world.snapshot())
    assert why(decided, "train") is ReasonCode.NO_OPTION
    assert decided.jobs[JobId("train")].reason.message == (
        "no GPUPool with a known price offers 8 GPUs of type fast: pools have slow; GPUBudget research rents only in "
        "GPUPools with speed=slow (spec.poolSelector), which leaves out fast"
    )


def test_a_selector_that_matches_no_pool_is_told_to_the_jobs_with_the_labels_that_there_are() -> None:
    world = two_pools(Selector((("sped", "slow"),), ()))
    world.pool("bare")
    world.job("train", gpus=8)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert decided.jobs[JobId("train")].reason.message == (
        "spec.poolSelector of GPUBudget research selects no GPUPool: it asks for sped=slow; the GPUPools are "
        "bare (no labels), fast (speed=fast), slow (speed=slow)"
    )


def test_labels_and_a_selector_that_change_count_in_the_next_plan() -> None:
    world, memo = two_pools(ONLY_SLOW), Memo()
    world.job("train", gpus=8, profile="sft")
    assert rents(plan(world.snapshot(), memo)) == ["slow-1"]
    world.pool("fast", labels=SLOW)
    assert rents(plan(world.snapshot(), memo)) == ["fast-1"]
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], pool_selector=ONLY_FAST)
    assert why(plan(world.snapshot(), memo), "train") is ReasonCode.NO_OPTION


def test_a_pool_that_is_too_small_for_the_budgets_that_select_it_says_so_and_no_other_does() -> None:
    world = two_pools(ONLY_SLOW, amount="900000")
    world.budget("prod", pools=ONLY_FAST, amount="900000")
    world.pool("slow", labels=SLOW, max_nodes=2)
    for number in range(6):
        world.job(f"cheap-{number}", gpus=(1, 8, 32), profile="sft")
    world.job("dear", gpus=(1, 8, 32), profile="sft", budget="prod")
    decided = plan(world.snapshot())
    assert decided.pools[PoolId("slow")].limit is Limit.MAX_NODES
    assert "fast" not in decided.pools


def test_the_frontier_counts_only_pools_that_the_budget_selects() -> None:
    def seconds(pools: Selector) -> float:
        world = two_pools(pools)
        world.job("train", gpus=8, profile="sft")
        (solution,) = solve_budgets(world.snapshot())
        found = Frontier(solution).at(solution.budget.amount).mean_seconds
        assert found is not None
        return found

    assert seconds(ONLY_SLOW) > 1.5 * seconds(EVERYTHING)


def test_a_job_whose_gpu_types_were_edited_leaves_a_pool_outside_the_selection_too() -> None:
    world = two_pools(ONLY_SLOW)
    world.rental("fast")
    world.job("train", gpus=8, profile="sft", gpu_types=("slow",))
    world.runs_on("train", "fast-1", gpus=8, speed=2.0 * 8**0.9)
    decided = plan(world.snapshot())
    assert rents(decided) == ["slow-1"]
    assert why(decided, "train") is ReasonCode.WIDTH_NO_LONGER_ALLOWED
