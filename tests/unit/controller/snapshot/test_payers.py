"""Which budget pays for a namespace, and who is told that two select it."""

from __future__ import annotations

from charterer.api.decode import DecodedNamespace
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.payers import overlaps_of, payers_of
from charterer.domain.budget import Budget, Selector
from charterer.domain.ids import BudgetId
from tests import factory

TEAM = ("team", "vision")
NAMESPACES = {
    ObjectKey("", "ai"): DecodedNamespace("ai", {"team": "vision"}),
    ObjectKey("", "ops"): DecodedNamespace("ops", {"team": "ops"}),
}


def budgets(**selectors: Selector) -> dict[ObjectKey, Budget]:
    """Budgets of these names, each a second younger than the one before."""
    return {
        ObjectKey("", name): factory.budget(id=BudgetId(name), created=factory.T0 + number, selector=selector)
        for number, (name, selector) in enumerate(selectors.items())
    }


def test_the_oldest_budget_pays_and_both_are_told_that_they_select_one_namespace() -> None:
    both = budgets(vision=Selector((TEAM,), ()), org=Selector((), ()))
    assert payers_of(both, NAMESPACES)["ai"].id == "vision"
    assert overlaps_of(both, NAMESPACES) == {
        "vision": "namespace ai is also selected by org; this budget pays, being the oldest",
        "org": "namespace ai is also selected by vision; vision pays, being the oldest",
    }


def test_budgets_that_share_no_namespace_are_told_nothing() -> None:
    apart = budgets(vision=Selector((TEAM,), ()), ops=Selector((("team", "ops"),), ()))
    assert overlaps_of(apart, NAMESPACES) == {}
