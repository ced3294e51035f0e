"""What the doctor says of budgets, and of those above others."""

from __future__ import annotations

from dataclasses import replace

from charterer.api.decode import DecodedNamespace
from charterer.cluster.store import ObjectKey
from charterer.domain.budget import NOTHING, Selector
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO
from charterer.domain.time import after
from charterer.tools.commands.doctor.command import DoctorReading, examine
from tests.unit.cli.doctor.test_doctor import healthy, raw, wrong
from tests.unit.cli.worlds import seen_of
from tests.worlds import NAMESPACE, World


def test_two_budgets_of_one_namespace_are_told_with_the_one_that_pays() -> None:
    world, reading = healthy()
    world.budget("ai-org", amount="10")
    older = min(world.budgets.values(), key=lambda budget: (budget.created, budget.id)).id
    (finding,) = wrong(replace(reading, state=seen_of(world)))
    assert finding.text.startswith(f"select the same namespaces: namespace {NAMESPACE}: {older} pays, being the")
    found = examine(replace(reading, state=seen_of(world)))
    assert [each.subject for each in found if "a month" in each.text] == [f"GPUBudget {older}"]


def test_a_budget_over_all_namespaces_is_one_finding_with_what_each_one_pays() -> None:
    world, reading = healthy()
    state = seen_of(world)
    (research,) = state.budgets.values()
    teams = {f"t{number}": Selector((("team", f"t{number}"),), ()) for number in range(7)}
    selecting = {**teams, "company": Selector((), ())}
    budgets = [
        replace(research, id=BudgetId(name), created=after(research.created, number), selector=selector)
        for number, (name, selector) in enumerate(selecting.items())
    ]
    namespaces = {ObjectKey("", name): DecodedNamespace(name, {"team": name}) for name in teams}
    many = replace(state, budgets={ObjectKey("", b.id): b for b in budgets}, namespaces=namespaces, jobs={})
    (finding,) = wrong(replace(reading, state=many))
    assert finding.subject == "GPUBudgets company, t0, t1, t2, t3, t4, t5, t6"
    assert finding.text.startswith(
        "select the same namespaces: namespace t0: t0 pays, being the oldest; namespace t1: "
    )
    assert finding.text.endswith("; namespace t6: t6 pays, being the oldest")
    assert "no budget counts what another one pays" in finding.remedy


def test_a_budget_that_says_that_it_cannot_pay_is_not_well() -> None:
    _, reading = healthy()
    low = raw("research", status="False", state="TooSmall", message="spec.maxHourlyRate is $5.00/h")
    (finding,) = wrong(replace(reading, budgets=(low,)))
    assert (finding.subject, finding.text) == ("GPUBudget research", "is TooSmall: spec.maxHourlyRate is $5.00/h")
    assert finding.remedy.startswith("raise `spec.amount`")


def test_a_budget_whose_currency_rate_is_old_is_not_well() -> None:
    _, reading = healthy()
    old = raw("research", "CurrencyRateCurrent", status="False", reason="RateStale", message="it is 36 days old")
    (finding,) = wrong(replace(reading, budgets=(old,)))
    assert finding.text == "has an old rate: it is 36 days old"
    assert finding.remedy.startswith("set `spec.currencyRate` anew")


def test_budgets_that_cannot_pay_are_told() -> None:
    world, reading = healthy()
    budget = world.budgets[BudgetId("research")]
    for broken, text in (
        (replace(budget, amount=ZERO), "has an amount of 0: nothing can be rented"),
        (replace(budget, deleting=True), "is being deleted, and pays for nothing new"),
    ):
        world.budgets[BudgetId("research")] = broken
        assert [finding.text for finding in wrong(replace(reading, state=seen_of(world)))] == [text]


def told_of_budgets(world: World, reading: DoctorReading) -> dict[str, str]:
    findings = examine(replace(reading, state=seen_of(world)))
    return {finding.subject: finding.text for finding in findings if finding.check == "budgets"}


def test_a_budget_above_others_is_told_with_them_and_overlaps_with_none() -> None:
    world, reading = healthy()
    world.budget("org", amount="50000")
    world.budget("research", amount="60000", parent="org")
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    told = told_of_budgets(world, reading)
    assert told["GPUBudget org"] == (
        "is above 1 GPUBudget (research): $50,000.00 a month for all of them, who ask for $60,000.00: each has its part"
    )
    assert told["GPUBudget research"].startswith("pays, $50,000.00 a month (its amount is $50,000.00 of the $60,000.00")
    assert wrong(replace(reading, state=seen_of(world))) == []


def test_what_counts_in_a_first_month_is_told_beside_the_amount() -> None:
    world, reading = healthy()
    world.budget("research", amount="60000", opening=None)
    told = told_of_budgets(world, reading)["GPUBudget research"]
    assert told.startswith("pays, $60,000.00 a month (of which $30,000.00 count in its first month), for ")


def test_who_lends_whom_is_told_of_both() -> None:
    world, reading = healthy()
    world.budget("org", amount="200000", lends=True)
    world.budget("research", amount="60000", parent="org")
    loan = {"lender": "org", "borrower": "research", "amount": "1000.00"}
    statuses = tuple({"metadata": {"name": name}, "status": {"loans": [loan]}} for name in ("org", "research"))
    told = told_of_budgets(world, replace(reading, budgets=statuses))
    assert told["GPUBudget research"] == "pays, $60,000.00 a month, with $1,000.00 of org, for namespace team"
    world.budgets[BudgetId("research")] = replace(world.budgets[BudgetId("research")], selector=NOTHING)
    found = examine(replace(reading, state=seen_of(world), budgets=statuses))
    org = [finding.text for finding in found if finding.subject == "GPUBudget org"]
    assert org[0].endswith("; they lend each other what they are not forecast to need")
    assert "without $1,000.00 lent to research" in org[1]


def test_a_parent_that_does_not_exist_is_told_with_what_to_do() -> None:
    world, reading = healthy()
    world.budget("research", amount="60000", parent="gone")
    (finding,) = wrong(replace(reading, state=seen_of(world)))
    assert finding.text.startswith("spec.parent of GPUBudget research is gone, which does not exist")
    assert finding.remedy.startswith("set spec.parent to a GPUBudget that exists")


def test_a_budget_that_selects_no_pool_is_told_with_the_labels_that_there_are() -> None:
    world, reading = healthy()
    world.budget("research", pools=Selector((("gpu", "h100"),)))
    (finding,) = wrong(replace(reading, state=seen_of(world)))
    assert (finding.subject, finding.remedy) == (
        "GPUBudget research",
        "label a GPUPool as its poolSelector says, or change it",
    )
    assert finding.text.endswith("it asks for gpu=h100; the GPUPools are a100 (no labels)")
