"""Reasons in words."""

from __future__ import annotations

import pytest

from charterer.domain.plan import ReasonCode
from charterer.domain.profile import Amdahl
from charterer.domain.reasons.phrases import format_duration
from charterer.policy.budgets import solution
from charterer.policy.jobs.job_facts import menu_key
from charterer.policy.options.menu import Menus
from charterer.policy.options.option_value import JobPosition, OptionValues
from tests.worlds import World


def test_a_choice_is_explained_with_its_numbers() -> None:
    world = World()
    world.pool("a100", gpus=8, price="16", start_seconds=0.0)
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, restart_seconds=0.0)
    job = world.job("train", gpus=(4, 4, 8), profile="sft")
    menus = Menus(world.profiles, world.pools)
    key = menu_key(job, frozenset(world.profiles))
    hull = menus.hull(key, 36_000.0, 1.0, None)
    values = OptionValues(menus.menu(key), 0.001)
    (narrow,), (wide,) = hull.paths
    reason = solution.choice(narrow, values, 1.0, JobPosition(36_000.0), feasible=True)
    assert reason.message == (
        "4 GPUs on a100: 3.2 h for $26.00; 8 GPUs on a100 would save 68 min for $8.00, $7.11 per hour saved, "
        "and the budget pays up to $3.60"
    )
    wider = solution.choice(wide, values, 1.0, JobPosition(36_000.0), feasible=True)
    assert (wider.code, wider.instead_of) == (ReasonCode.BUDGET_OPTIMAL, narrow)
    assert wider.seconds == pytest.approx(4050.0)
    assert wider.money.dollars == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (1200, "20 min"), (6480, "1.8 h"), (216_000, "2.5 d"), (0.4, "0 s")]
)
def test_a_duration_is_written_in_a_unit_in_which_its_number_is_small(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
