"""What budgets above budgets show of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from charterer.api.models.base import dump
from charterer.controller.status.publisher import viewed_objects
from charterer.domain.budget import NOTHING
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.policy.planner import plan
from tests.worlds import World


def shown(world: World) -> Mapping[str, Mapping[str, Any]]:
    """The status of each budget, by name."""
    snapshot = world.snapshot()
    views = [view for view in viewed_objects(snapshot, plan(snapshot), {}) if view.kind.name == "GPUBudget"]
    return {view.key.name: dump(view.make(snapshot)) for view in views}


def ready(status: Mapping[str, Any]) -> tuple[str, str, str]:
    (found,) = (condition for condition in status["conditions"] if condition["type"] == "Ready")
    return found["status"], found["reason"], found.get("message", "")


def organisation(amount: str) -> World:
    """Two teams that ask for $150,000 together, below an organisation that pays for nothing itself."""
    world = World()
    world.budget("org", amount=amount, hard_limit="500000")
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    world.budget("vision", amount="90000", parent="org", spent="100")
    world.budget("speech", amount="60000", parent="org", spent="20")
    world.pool(gpus=8, price="16")
    world.rental(budget="speech", age=0.0)
    return world


def test_a_parent_shows_what_all_below_it_spent_and_what_it_may_aim_at() -> None:
    status = shown(organisation("200000"))
    family = status["org"]["withDescendants"]
    assert family["spent"] == "120.00"
    assert float(family["committed"]) > 120.0
    assert "forecast" not in family
    assert status["org"]["effectiveAmount"] == "200000.00"
    assert ready(status["org"])[:2] == ("True", "Enforcing")
    assert "withDescendants" not in status["vision"]
    assert ready(status["vision"]) == ("True", "Enforcing", "")


def test_what_does_not_count_of_a_teams_first_month_is_not_in_what_all_aim_at() -> None:
    world = organisation("150000")
    world.budget("speech", amount="60000", parent="org", spent="20", opening=None)
    family = plan(world.snapshot()).budgets[BudgetId("org")].with_descendants
    assert family is not None
    assert family.amount == Money.parse("120000")
    status = shown(world)
    assert status["speech"]["remaining"] == "29980.00"
    assert status["org"]["effectiveAmount"] == "150000.00"
    (within,) = (each for each in status["org"]["conditions"] if each["type"] == "WithinBudget")
    assert "of $120,000.00 are spent with all budgets below it" in within["message"]


def test_a_team_whose_amount_is_scaled_down_says_to_what_and_why() -> None:
    status = shown(organisation("100000"))
    assert status["vision"]["effectiveAmount"] == "60000.00"
    assert status["vision"]["remaining"] == "59900.00"
    assert ready(status["vision"])[2] == (
        "its amount is $60,000.00 of the $90,000.00 of spec.amount: the budgets below GPUBudget org ask for "
        "$150,000.00 together, of $100,000.00"
    )


def test_a_parent_that_pays_itself_and_whose_children_take_all_says_so() -> None:
    world = organisation("100000")
    world.budget("org", amount="100000")
    assert ready(shown(world)["org"]) == (
        "False",
        "ZeroAmount",
        "the budgets below it have $150,000.00 together, and it has $100,000.00: nothing is left for the namespaces "
        "that it pays for itself; raise spec.amount, or lower theirs",
    )


def test_more_than_a_parents_amount_is_overspent_although_no_child_is() -> None:
    world = organisation("100000")
    world.budget("vision", amount="90000", parent="org", spent="59999")
    world.budget("speech", amount="60000", parent="org", spent="40002")
    status = shown(world)
    assert status["org"]["state"] == "Overspent"
    (within,) = (each for each in status["org"]["conditions"] if each["type"] == "WithinBudget")
    assert (within["status"], within["reason"]) == ("False", "ForecastExceedsAmount")
    assert "are spent with all budgets below it" in within["message"]


def test_a_budget_without_its_parent_is_invalid_and_says_why() -> None:
    world = organisation("100000")
    world.budget("vision", parent="gone")
    status = shown(world)
    assert status["vision"]["state"] == "Invalid"
    condition, reason, message = ready(status["vision"])
    assert (condition, reason) == ("False", "ParentUnknown")
    assert message.startswith("spec.parent of GPUBudget vision is gone, which does not exist")
    assert message.endswith("nothing new is rented; what runs goes on")


def test_who_lends_whom_is_in_the_status_of_both_and_counts_as_what_remains() -> None:
    world = World()
    world.budget("org", amount="90000", lends=True)
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    world.budget("speech", amount="60000", parent="org", spent="61000")
    world.job("train", gpus=8, budget="speech")
    world.pool(gpus=8, price="16")
    status = shown(world)
    loan = {"lender": "org", "borrower": "speech", "amount": "30000.00"}
    assert (status["org"]["loans"], status["speech"]["loans"]) == ([loan], [loan])
    assert (status["org"]["remaining"], status["speech"]["remaining"]) == ("0.00", "29000.00")


def test_an_hourly_limit_above_that_no_node_fits_under_is_told_to_all_below_it() -> None:
    world = organisation("200000")
    world.budget("org", amount="200000", max_hourly="15")
    world.budget("vision", amount="90000", parent="org", max_hourly="15.50")
    world.budget("alone")
    status = shown(world)
    said = "is $15.00/h, and a node of the cheapest GPUPool, a100, may cost $16.00/h: nothing can be rented"
    for name, whose in (("org", ""), ("vision", " of GPUBudget org"), ("speech", " of GPUBudget org")):
        assert ready(status[name])[:2] == ("False", "HourlyLimitTooLow")
        assert ready(status[name])[2].startswith(f"spec.maxHourlyRate{whose} {said}")
    assert ready(status["alone"])[0] == "True"


def test_the_lowest_hourly_limit_is_the_one_that_is_told() -> None:
    world = organisation("200000")
    world.budget("org", amount="200000", max_hourly="15")
    world.budget("vision", amount="90000", parent="org", max_hourly="14")
    assert ready(shown(world)["vision"])[2].startswith("spec.maxHourlyRate is $14.00/h, ")
