"""Who is above whom, what each may aim at, and parents that nobody knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import NOTHING, Budget
from charterer.domain.budget_tree import NO_TREE, budget_tree, with_shares
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.reasons.waits import ParentMissing, ParentsInCircle
from tests import factory

NAMES = [f"b{number}" for number in range(7)]


def budgets(**parents: str | None) -> dict[BudgetId, Budget]:
    """Budgets of $1,000 each, by name, with their parents."""
    return {
        BudgetId(name): factory.budget(id=BudgetId(name), parent=None if parent is None else BudgetId(parent))
        for name, parent in parents.items()
    }


def amounts(shared: dict[BudgetId, Budget]) -> dict[str, str]:
    return {name: budget.amount.decimal() for name, budget in with_shares(shared).items()}


def priced(there: dict[BudgetId, Budget], **dollars: str) -> dict[BudgetId, Budget]:
    return {
        name: factory.budget(id=name, parent=b.parent, amount=Money.parse(dollars[name])) for name, b in there.items()
    }


def test_budgets_without_parents_are_no_tree_and_stay_the_same_objects() -> None:
    alone = budgets(a=None, b=None)
    assert budget_tree(alone) is NO_TREE
    assert with_shares(alone) is alone


def test_parents_are_told_from_the_nearest_to_the_topmost() -> None:
    tree = budget_tree(budgets(company=None, org="company", team="org"))
    assert tree.with_parents(BudgetId("team")) == ("team", "org", "company")
    assert tree.below == {"company": ("org", "team"), "org": ("team",)}
    assert tree.faults == {}


def test_a_missing_parent_is_a_fault_of_all_below_it_and_the_known_ones_still_count() -> None:
    tree = budget_tree(budgets(org="gone", team="org"))
    assert tree.faults == dict.fromkeys(["org", "team"], ParentMissing(BudgetId("org"), BudgetId("gone")))
    assert tree.above == {"team": ("org",)}


def test_a_circle_is_a_fault_of_all_that_lead_into_it() -> None:
    tree = budget_tree(budgets(a="b", b="c", c="b", own="own"))
    assert tree.above == {}
    assert tree.faults[BudgetId("a")] == ParentsInCircle((BudgetId("b"), BudgetId("c")))
    assert tree.faults[BudgetId("own")] == ParentsInCircle((BudgetId("own"),))


def test_children_that_ask_for_too_much_share_what_there_is_in_proportion() -> None:
    there = priced(budgets(company=None, vision="company", speech="company"), company="100", vision="90", speech="60")
    assert amounts(there) == {"company": "0.00", "vision": "60.00", "speech": "40.00"}


def test_what_children_leave_is_the_parents_own_and_nothing_is_scaled() -> None:
    there = priced(budgets(company=None, vision="company", speech="company"), company="100", vision="60", speech="30")
    assert amounts(there) == {"company": "10.00", "vision": "60.00", "speech": "30.00"}


def test_a_scaled_parent_has_less_for_those_below_it() -> None:
    there = priced(budgets(top=None, org="top", team="org"), top="50", org="100", team="80")
    shared = with_shares(there)
    share = shared[BudgetId("team")].share
    assert amounts(there) == {"top": "0.00", "org": "0.00", "team": "50.00"}
    assert share is not None
    assert (share.declared, share.given) == (Money.parse("80"), Money.parse("50"))


def test_a_budget_that_pays_for_nothing_itself_is_not_penniless() -> None:
    assert factory.budget(amount=ZERO).penniless
    assert not factory.budget(amount=ZERO, selector=NOTHING).penniless


@given(
    parents=st.tuples(*(st.sampled_from([None, "gone", *NAMES]) for _ in NAMES)),
    dollars=st.lists(st.integers(0, 10**12), min_size=len(NAMES), max_size=len(NAMES)),
)
def test_amounts_never_add_up_to_more_than_a_parents_at_any_depth(
    parents: tuple[str | None, ...], dollars: list[int]
) -> None:
    there = {
        name: factory.budget(id=name, parent=b.parent, amount=Money(micros))
        for (name, b), micros in zip(budgets(**dict(zip(NAMES, parents, strict=True))).items(), dollars, strict=True)
    }
    shared, tree = with_shares(there), budget_tree(there)
    for name, below in tree.below.items():
        share = shared[name].share
        assert share is not None
        assert total(shared[each].amount for each in (name, *below)) <= share.in_all <= there[name].amount
    assert all(ZERO <= shared[name].amount <= there[name].amount for name in there)
    assert with_shares(shared) == shared
    assert set(tree.faults) >= {name for name, budget in there.items() if budget.parent == "gone"}
