"""Budgets above budgets, as short stories: whose limit stops whom, and parents that nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import Mode
from charterer.domain.errors import Problem
from charterer.domain.ids import BudgetId, JobId, PoolId
from charterer.domain.plan import Plan, ReasonCode, Rent
from charterer.policy import plan
from charterer.policy.set_aside import PlannedKind, PlannedObject, without
from tests.scenarios.policy.stories import placed, releases, rents, why
from tests.worlds import World


def organisation(hard_limit: str | None = None, max_hourly: str | None = None) -> World:
    """Two teams of one organisation, which pays for a namespace itself, and a team of nobody's."""
    world = World()
    world.budget("org", amount="180000", hard_limit=hard_limit, max_hourly=max_hourly)
    world.budget("vision", parent="org")
    world.budget("speech", parent="org")
    world.budget("alone")
    world.pool("a100", gpus=8, price="16")
    return world


def said(decided: Plan, job: str) -> str:
    return decided.jobs[JobId(job)].reason.message


def renting(decided: Plan) -> list[str]:
    """The budgets for which nodes are rented."""
    return [command.budget for command in decided.commands if isinstance(command, Rent)]


def test_a_plan_that_rents_for_several_teams_at_once_stays_within_the_hourly_limit_above_them() -> None:
    world = organisation(max_hourly="40")
    for number in range(2):
        for team in ("vision", "speech"):
            world.job(f"{team}{number}", gpus=8, budget=team)
    world.job("other", gpus=8, budget="alone")
    decided = plan(world.snapshot())
    assert len(rents(decided)) == 3
    names = ("vision0", "vision1", "speech0", "speech1")
    refused = [name for name in names if why(decided, name) is ReasonCode.HOURLY_LIMIT]
    assert len(refused) == 2
    assert said(decided, refused[0]).endswith(
        "a node costs $16.00/h, and the nodes that are rented cost $32.00/h of the $40.00/h that spec.maxHourlyRate of "
        "GPUBudget org allows"
    )


def test_what_a_sibling_has_rented_counts_against_the_hard_limit_above() -> None:
    world = organisation(hard_limit="30")
    world.budget("vision", parent="org", spent="24")
    world.rental(budget="vision", age=900.0)
    world.job("mine", gpus=8, budget="vision")
    world.runs_on("mine", "a100-1", gpus=8)
    world.job("late", gpus=8, budget="speech")
    decided = plan(world.snapshot())
    assert rents(decided) == []
    assert why(decided, "late") is ReasonCode.HARD_LIMIT
    assert "of spec.hardLimit of GPUBudget org ($30.00) is not committed yet" in said(decided, "late")


def test_a_hard_limit_that_is_reached_ends_the_nodes_of_all_below_it_and_of_nobody_else() -> None:
    world = organisation(hard_limit="100")
    world.budget("vision", parent="org", spent="98.5")
    for budget in ("vision", "speech", "alone"):
        world.rental(budget=budget, age=60.0)
        world.job(budget, gpus=8, budget=budget, grace_seconds=60)
    for number, budget in enumerate(("vision", "speech", "alone")):
        world.runs_on(budget, f"a100-{number + 1}", gpus=8)
    decided = plan(world.snapshot())
    assert releases(decided) == {"a100-1": ReasonCode.HARD_LIMIT, "a100-2": ReasonCode.HARD_LIMIT}
    assert placed(decided) == {"vision": 0, "speech": 0}
    why_released = next(command.reason for command in decided.commands if command.reason.code is ReasonCode.HARD_LIMIT)
    assert "committed of a hard limit of GPUBudget org of $100.00" in why_released.message


def test_when_all_must_end_is_known_in_advance_for_those_below_too() -> None:
    world = organisation(hard_limit="100")
    world.budget("vision", parent="org", spent="90")
    world.rental(budget="speech", age=60.0)
    world.job("train", gpus=8, budget="speech", grace_seconds=60)
    world.runs_on("train", "a100-1", gpus=8)
    decided = plan(world.snapshot())
    assert releases(decided) == {}
    assert decided.again_at is not None
    world.now = decided.again_at
    assert releases(plan(world.snapshot())) == {"a100-1": ReasonCode.HARD_LIMIT}


def test_a_lowered_hourly_limit_above_ends_just_enough_of_all_below_it() -> None:
    world = organisation(max_hourly="32")
    for number, team in enumerate(("vision", "vision", "speech", "speech")):
        world.rental(budget=team, age=3600.0 - number)
        world.job(f"j{number}", gpus=8, budget=team)
        world.runs_on(f"j{number}", f"a100-{number + 1}", gpus=8)
    decided = plan(world.snapshot())
    assert releases(decided) == dict.fromkeys(["a100-3", "a100-4"], ReasonCode.HOURLY_LIMIT)
    world.carry_out(decided)
    assert releases(plan(world.snapshot())) == {}


def test_limits_of_several_levels_hold_together() -> None:
    world = World()
    world.budget("company", max_hourly="60")
    world.budget("org", max_hourly="40", parent="company")
    world.budget("vision", max_hourly="20", parent="org")
    world.budget("speech", parent="org")
    world.budget("sales", parent="company")
    world.pool("a100", gpus=8, price="16")
    for team in ("vision", "speech", "sales"):
        for number in range(3):
            world.job(f"{team}{number}", gpus=8, budget=team)
    decided = plan(world.snapshot())
    by_budget = renting(decided)
    assert len(by_budget) == 3
    assert by_budget.count(BudgetId("vision")) <= 1
    assert by_budget.count(BudgetId("vision")) + by_budget.count(BudgetId("speech")) <= 2


def test_a_budget_without_its_parent_rents_nothing_new_and_what_runs_goes_on() -> None:
    world = organisation()
    world.budget("vision", parent="gone")
    world.rental(budget="vision")
    world.job("runs", gpus=8, budget="vision")
    world.runs_on("runs", "a100-1", gpus=8)
    world.job("waits", gpus=8, budget="vision")
    world.job("sibling", gpus=8, budget="speech")
    decided = plan(world.snapshot())
    assert rents(decided) == ["a100-2"]
    assert releases(decided) == {}
    assert placed(decided) == {}
    assert why(decided, "waits") is ReasonCode.PARENT_UNKNOWN
    assert said(decided, "waits").endswith(
        "spec.parent of GPUBudget vision is gone, which does not exist or cannot be read, so that its "
        "limits are not known: nothing new is rented"
    )


def test_parents_in_a_circle_rent_nothing_and_neither_do_those_below_them() -> None:
    world = World()
    world.budget("a", parent="b")
    world.budget("b", parent="c")
    world.budget("c", parent="b")
    world.pool("a100", gpus=8, price="16")
    for name in ("a", "b", "c"):
        world.job(name, gpus=8, budget=name)
    decided = plan(world.snapshot())
    assert decided.commands == ()
    assert "goes in a circle (b below c below b)" in said(decided, "a")


def test_while_a_budget_cannot_be_read_only_those_without_parent_or_child_rent() -> None:
    world = organisation()
    for name in ("org", "vision", "alone"):
        world.job(name, gpus=8, budget=name)
    unread = Problem("GPUBudget", "", "nlp", "spec.timeZone", "UnknownTimeZone", "no such zone")
    decided = plan(replace(world.snapshot(), problems=(unread,)))
    assert renting(decided) == ["alone"]
    assert why(decided, "org") is why(decided, "vision") is ReasonCode.PARENT_UNKNOWN
    assert "GPUBudget nlp cannot be read" in said(decided, "vision")


def test_a_budget_that_is_set_aside_still_counts_under_the_limits_above_it() -> None:
    world = organisation(max_hourly="32")
    for _ in range(2):
        world.rental(budget="vision")
    world.job("next", gpus=8, budget="speech")
    left = without(world.snapshot(), [PlannedObject(PlannedKind.BUDGET, BudgetId("vision"))])
    decided = plan(left)
    assert decided.commands == ()
    assert why(decided, "next") is ReasonCode.HOURLY_LIMIT


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_the_limits_of_a_parent_hold_whatever_its_own_mode_is(mode: Mode) -> None:
    world = organisation()
    world.budget("org", amount="180000", max_hourly="20", mode=mode)
    for team in ("vision", "speech"):
        world.job(team, gpus=8, budget=team)
    assert len(rents(plan(world.snapshot()))) == 1


def test_a_parent_tells_what_all_below_it_spent_and_may_still_spend() -> None:
    world = organisation(hard_limit="500")
    world.budget("vision", parent="org", spent="40")
    world.budget("speech", parent="org", spent="2")
    world.rental(budget="speech", age=0.0)
    budgets = plan(world.snapshot()).budgets
    family, speech = budgets[BudgetId("org")].with_descendants, budgets[BudgetId("speech")]
    assert family is not None
    assert family.spent == budgets[BudgetId("vision")].spent + speech.spent
    assert family.committed == budgets[BudgetId("vision")].committed + speech.committed
    assert family.committed > family.spent
    assert speech.with_descendants is None
    assert budgets[BudgetId("alone")].with_descendants is None


def test_committed_nodes_of_a_team_are_rented_within_the_limits_above_it() -> None:
    world = organisation(max_hourly="40")
    world.pool("reserved", gpus=8, price="16", max_nodes=3, committed_hours=720.0, payer="vision")
    world.job("speech0", gpus=8, budget="speech")
    decided = plan(world.snapshot())
    assert [command.budget for command in decided.commands if isinstance(command, Rent)] == ["vision", "vision"]
    assert decided.not_rented == {PoolId("reserved"): ReasonCode.HOURLY_LIMIT}
    assert why(decided, "speech0") is ReasonCode.HOURLY_LIMIT
