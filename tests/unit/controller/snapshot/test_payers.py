"""Which budget pays for a namespace, and who is told that two select it."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.decode import DecodedNamespace
from charterer.api.models.base import MESSAGE_LIMIT
from charterer.cluster.store import ObjectKey
from charterer.controller.snapshot.payers import overlaps_of, pay_nowhere, payers_of
from charterer.domain.budget import Budget, Mode, Selector
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


def test_of_budgets_created_in_the_same_second_one_that_only_observes_counts_and_nothing_is_rented() -> None:
    enforcing = factory.budget(id=BudgetId("ai-org"), selector=Selector((), ()))
    observing = replace(enforcing, id=BudgetId("nlp"), mode=Mode.OBSERVE)
    both = {ObjectKey("", each.id): each for each in (enforcing, observing)}
    namespaces = {ObjectKey("", "ai"): DecodedNamespace("ai", {})}
    assert payers_of(both, namespaces)["ai"].id == "nlp"
    why = "since of those created in the same second one that only observes comes first"
    assert overlaps_of(both, namespaces)[enforcing.id] == (
        f"namespace ai is also selected by nlp; nlp counts, and nothing is rented (mode Observe), {why}"
    )
    both[ObjectKey("", "nlp")] = enforcing_too = replace(observing, mode=Mode.ENFORCE)
    assert payers_of(both, namespaces)["ai"].id == "ai-org"
    assert overlaps_of(both, namespaces)[enforcing_too.id] == (
        "namespace ai is also selected by ai-org; ai-org pays, being the first by name of those created in the same "
        "second"
    )


def test_a_budget_that_overlaps_with_many_names_the_first_and_says_how_many_more_there_are() -> None:
    teams = {f"t{number:02}": Selector((("team", f"t{number:02}"),), ()) for number in range(22)}
    many = budgets(**teams, company=Selector((), ()))
    namespaces = {ObjectKey("", name): DecodedNamespace(name, {"team": name}) for name in teams}
    said = overlaps_of(many, namespaces)[BudgetId("company")]
    told = [f"namespace t{n:02} is also selected by t{n:02}; t{n:02} pays, being the oldest" for n in range(20)]
    assert len(said) < MESSAGE_LIMIT
    assert said == "; ".join([*told, "and so on for 2 more"])


def test_namespaces_that_the_same_budgets_select_are_told_together() -> None:
    namespaces = {ObjectKey("", name): DecodedNamespace(name, {"team": "vision"}) for name in ("ai", "ml")}
    said = overlaps_of(budgets(vision=Selector((TEAM,), ()), org=Selector((), ())), namespaces)[BudgetId("vision")]
    assert said == "namespaces ai, ml are also selected by org; this budget pays, being the oldest"


def test_budgets_that_share_no_namespace_are_told_nothing() -> None:
    apart = budgets(vision=Selector((TEAM,), ()), ops=Selector((("team", "ops"),), ()))
    assert overlaps_of(apart, NAMESPACES) == {}


def test_the_lower_of_a_budget_and_its_parent_pays_and_that_is_no_overlap() -> None:
    apart = budgets(company=Selector((), ()), vision=Selector((TEAM,), ()))
    vision = ObjectKey("", "vision")
    tree = {**apart, vision: replace(apart[vision], parent=BudgetId("company"))}
    payers = payers_of(tree, NAMESPACES)
    assert {name: payer.id for name, payer in payers.items()} == {"ai": "vision", "ops": "company"}
    assert overlaps_of(tree, NAMESPACES) == {}


def test_siblings_that_select_one_namespace_still_overlap_without_their_parent() -> None:
    there = budgets(company=Selector((), ()), vision=Selector((TEAM,), ()), nlp=Selector((TEAM,), ()))
    tree = {
        key: budget if budget.id == "company" else replace(budget, parent=BudgetId("company"))
        for key, budget in there.items()
    }
    assert payers_of(tree, NAMESPACES)["ai"].id == "vision"
    assert overlaps_of(tree, NAMESPACES).keys() == {"vision", "nlp"}


def test_a_budget_that_pays_for_no_namespace_is_told_why_unless_it_is_above_others() -> None:
    found = budgets(
        company=Selector((("team", "nobody"),), ()),
        vision=Selector((TEAM,), ()),
        late=Selector((TEAM,), ()),
        typo=Selector((("team", "vison"),), ()),
    )
    found[ObjectKey("", "vision")] = replace(found[ObjectKey("", "vision")], parent=BudgetId("company"))
    assert pay_nowhere(found, NAMESPACES) == {
        "late": "older budgets pay for all namespaces that spec.namespaceSelector selects",
        "typo": "spec.namespaceSelector selects no namespace",
    }
