"""Reasons to wait have the numbers in them, and say what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from charterer.domain.ids import BudgetId, JobId
from charterer.domain.money import Money
from charterer.policy.planner import plan, solve_budgets
from tests.worlds import World


def said(world: World, job: str) -> str:
    return plan(world.snapshot()).jobs[JobId(job)].reason.message


@pytest.mark.parametrize(
    ("max_hourly", "sentence"),
    [
        ("10", "a node costs $12.80/h, more than spec.maxHourlyRate ($10.00/h): raise it"),
        (
            "20",
            "a node costs $12.80/h, and the nodes that are rented cost $12.80/h of the $20.00/h that spec.maxHourlyRate "
            "allows",
        ),
    ],
)
def test_an_hourly_limit_is_told_with_what_is_rented(max_hourly: str, sentence: str) -> None:
    world = World()
    world.budget(max_hourly=max_hourly)
    world.pool("a100", gpus=4, price="12.80")
    world.job("first", gpus=4, age_seconds=10)
    world.job("second", gpus=4)
    assert sentence in said(world, "second")


def test_a_hard_limit_is_told_with_what_a_node_may_cost_and_what_is_left() -> None:
    world = World()
    world.budget(amount="100", hard_limit="100")
    world.pool("a100", gpus=4, price="12.80")
    job = world.job("slow", gpus=4)
    world.jobs[job.id] = replace(job, grace_seconds=100_000)
    left = "only $100.00 of spec.hardLimit ($100.00) is not committed yet"
    assert f"a node may cost $357.48 until it can be given back, and {left}" in said(world, "slow")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"gpus": 4, "gpu_types": ("A100",)}, "of type A100: pools have NVIDIA-A100-SXM4-40GB, Tesla-T4"),
        ({"gpus": 1, "gpu_types": ("A100",)}, "offers 1 GPU of type A100: pools have"),
        ({"gpus": 128}, "offers 128 GPUs: the largest pool is t4 with 48 GPUs of type Tesla-T4"),
    ],
)
def test_a_job_without_an_option_is_told_what_there_is(asked: dict[str, Any], sentence: str) -> None:
    world = World()
    world.budget()
    world.pool("t4", gpus=4, max_nodes=12, gpu_type="Tesla-T4")
    world.pool("a100", gpus=8, max_nodes=2, gpu_type="NVIDIA-A100-SXM4-40GB")
    world.job("lost", **asked)
    assert sentence in said(world, "lost")


def test_what_was_spent_before_a_budget_existed_is_part_of_its_forecast() -> None:
    world = World()
    budget = world.budget(amount="20000")
    world.budgets[budget.id] = replace(budget, opening_spend=Money.parse("15000"))
    verdict = plan(world.snapshot()).budgets[BudgetId("research")]
    forecast = solve_budgets(world.snapshot())[0].forecast_verdict()
    assert forecast.expected >= verdict.spent == Money.parse("15000")
    assert forecast.low >= verdict.spent
