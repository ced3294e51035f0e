"""Amounts of GPU-hours: who may begin, who waits for what, and who must leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.budget import GPU_HOUR, GpuHours
from charterer.domain.ids import BudgetId, JobId
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.time import after
from charterer.lifecycle.view import LifecycleView, uses_now
from charterer.policy import plan
from tests.scenarios.policy.stories import placed, settle, why
from tests.worlds import World

RESEARCH = BudgetId("research")
H100 = "H100"


def own(hours: float, *, nodes: int = 1, rented: bool = False, **budget: Any) -> World:
    """Own nodes of eight H100s, of which the budget may use so many hours; if ``rented``, A100s at $16 beside them."""
    world = World()
    world.budget(gpu_hours={H100: hours}, **budget)
    world.pool("own", gpus=8, price="0", gpu_type=H100, max_nodes=nodes, own=True, start_seconds=0.0)
    if rented:
        world.pool("a100", gpus=8, price="16", gpu_type="A100")
    return world


def listed(world: World) -> World:
    """The rentals list who holds their GPUs, as the operator writes it at once."""
    snapshot = world.snapshot()
    view = LifecycleView.of(snapshot)
    for name, rental in snapshot.rentals.items():
        world.rentals[name] = uses_now(rental, view.uses.get(name, ()), snapshot)
    return world


def used(decided: Plan, budget: str = "research") -> float:
    return decided.budgets[BudgetId(budget)].gpu_hours[0].used / GPU_HOUR


def message(decided: Plan, job: str) -> str:
    return decided.jobs[JobId(job)].reason.message


def test_what_runs_hold_is_used_and_idle_nodes_are_not() -> None:
    world = own(2_000.0, nodes=2)
    world.job("train", gpus=4)
    settle(world)
    before = used(plan(listed(world).snapshot()))
    world.passes(3_600.0)
    decided = plan(listed(world).snapshot())
    assert used(decided) - before == pytest.approx(4.0)
    assert placed(decided) == {}


def test_all_runs_of_the_type_leave_before_the_amount_is_passed_and_nothing_else_ends() -> None:
    world = own(10.0, rented=True)
    world.job("train", gpus=8, gpu_types=(H100,))
    world.job("other", gpus=8, gpu_types=("A100",))
    settle(world)
    decided = plan(listed(world).snapshot())
    assert decided.again_at is not None
    while not placed(decided):
        world.now = max(decided.again_at or world.now, after(world.now, 1.0))
        decided = plan(listed(world).snapshot())
        assert used(decided) < 10.0
    assert placed(decided) == {"train": 0}
    assert why(decided, "train") is ReasonCode.HARD_LIMIT
    told = message(decided, "train")
    assert "of the 10.0 GPU-hours of H100 in spec.gpuHours of GPUBudget research are used" in told
    assert "Raise the amount, or wait for the next period (2026-07-01T00:00Z)" in told
    assert [rental.id for rental in world.rentals.values() if rental.stays] == ["own-1", "a100-1"]


def _out_of_hours() -> World:
    world = own(10.0)
    world.job("train", gpus=8)
    settle(world)
    world.passes(4_260.0)
    world.carry_out(plan(listed(world).snapshot()))
    world.passes(30.0)
    world.stops("train")
    assert placed(plan(listed(world).snapshot())) == {}
    return world


def test_a_job_that_was_stopped_goes_on_when_the_amount_is_raised() -> None:
    world = _out_of_hours()
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], gpu_hours=(GpuHours(H100, 20 * GPU_HOUR),))
    assert placed(plan(world.snapshot())) == {"train": 8}


def test_a_job_that_was_stopped_goes_on_in_the_next_period() -> None:
    world = _out_of_hours()
    world.now = world.budgets[RESEARCH].period[1]
    decided = plan(world.snapshot())
    assert placed(decided) == {"train": 8}
    assert used(decided) == 0.0


def test_a_job_without_hours_takes_what_is_next_best_for_dollars() -> None:
    world = own(1.0, rented=True)
    world.job("train", gpus=8)
    settle(world)
    allocation = world.jobs[JobId("train")].allocation
    assert allocation is not None
    assert allocation.option.pool == "a100"


def test_no_job_begins_ahead_of_its_part_of_the_time_and_who_has_begun_goes_on() -> None:
    """Of 2,000 hours 666.7 are for the first ten days of thirty."""
    world = own(2_000.0)
    world.now = world.budgets[RESEARCH].period[0]
    world.job("first", gpus=4)
    settle(world)
    budget = world.budgets[RESEARCH]
    assert budget.balance is not None
    balance = replace(budget.balance, gpu_time={H100: 680 * GPU_HOUR})
    world.budgets[RESEARCH] = replace(budget, balance=balance)
    world.job("second", gpus=4)
    decided = plan(world.snapshot())
    assert used(decided) == pytest.approx(680.0, abs=0.1)
    assert placed(decided) == {}
    assert why(decided, "second") is ReasonCode.HARD_LIMIT
    assert "666.7 of them are for the time so far and the next ten days" in message(decided, "second")
    assert "no job begins before 2026-06-01T04:48Z" in message(decided, "second")
    assert decided.again_at is not None
    assert after(world.now, 4.8 * 3_600) <= decided.again_at <= after(world.now, 4.9 * 3_600)


def test_hours_of_a_child_count_for_its_parent() -> None:
    world = own(2_000.0, parent="company")
    world.budget("company", gpu_hours={H100: 3.0})
    world.job("train", gpus=8)
    settle(world)
    world.passes(1_100.0)
    decided = plan(listed(world).snapshot())
    assert used(decided, "company") == used(decided)
    assert placed(decided) == {"train": 0}
    assert "of the 3.0 GPU-hours of H100 in spec.gpuHours of GPUBudget company are used" in message(decided, "train")


def test_an_amount_of_a_type_that_no_pool_has_limits_nothing() -> None:
    world = own(0.0)
    world.budgets[RESEARCH] = replace(world.budgets[RESEARCH], gpu_hours=(GpuHours("h100", 0),))
    world.job("train", gpus=8)
    settle(world)
    assert world.jobs[JobId("train")].allocation is not None
