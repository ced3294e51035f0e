"""Loans between budgets: nothing is lent twice, and nobody lends what it has spent or needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import Loan, Need, loans, net_loan
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total


def need(
    name: str, aim: str, spent: str = "0", high: str | None = None, most: str | None = None, *, short: bool = False
) -> Need:
    limits = [None if each is None else Money.parse(each) for each in (high, most)]
    return Need(BudgetId(name), Money.parse(aim), Money.parse(spent), limits[0], short, limits[1])


def told(*family: Need) -> dict[tuple[str, str], str]:
    return {(loan.lender, loan.borrower): loan.amount.decimal() for loan in loans(family)}


def test_what_is_not_forecast_to_be_needed_goes_to_those_that_are_short() -> None:
    vision, speech = need("vision", "60", "10", high="35"), need("speech", "40", "20", high="44", short=True)
    assert told(vision, speech) == {("vision", "speech"): "25.00"}


def test_several_that_are_short_share_in_proportion_to_their_aims() -> None:
    family = need("a", "100", "0", high="40"), need("b", "20", short=True), need("c", "10", short=True)
    assert told(*family) == {("a", "b"): "40.00", ("a", "c"): "20.00"}


def test_nobody_lends_where_nobody_is_short() -> None:
    assert told(need("a", "100", "0", high="40"), need("b", "50", high="30")) == {}


def test_a_budget_that_is_short_itself_or_without_a_forecast_lends_nothing() -> None:
    assert told(need("a", "100", high="40", short=True), need("b", "50", "0"), need("c", "9", short=True)) == {}


def test_what_is_spent_cannot_be_taken_back_and_the_rest_can() -> None:
    """A lender that needs its money again lends no more than what the other has spent of it."""
    lent = need("a", "100", "10", high="40"), need("b", "50", "65", high="100", short=True)
    assert told(*lent) == {("a", "b"): "60.00"}
    again = need("a", "100", "10", high="100", short=True), need("b", "50", "65", high="100", short=True)
    assert told(*again) == {("a", "b"): "15.00"}


def test_a_hard_limit_bounds_what_is_borrowed() -> None:
    assert told(need("a", "100", high="0"), need("b", "50", most="70", short=True)) == {("a", "b"): "20.00"}


def test_what_is_borrowed_counts_once_for_each_of_both() -> None:
    made = [Loan(BudgetId("a"), BudgetId("b"), Money(5)), Loan(BudgetId("c"), BudgetId("a"), Money(2))]
    assert [net_loan(BudgetId(name), made).micros for name in "abcd"] == [-3, 5, -2, 0]


MONEY = st.integers(0, 10**6).map(Money)


@given(st.lists(st.tuples(MONEY, MONEY, st.none() | MONEY, st.booleans(), st.none() | MONEY), max_size=6))
def test_no_dollar_is_lent_twice(drawn: list[tuple[Money, Money, Money | None, bool, Money | None]]) -> None:
    family = [
        Need(BudgetId(str(number)), aim, spent, high, short, most)
        for number, (aim, spent, high, short, most) in enumerate(drawn)
    ]
    made = loans(family)
    assert all(loan.amount > ZERO for loan in made)
    assert not {loan.lender for loan in made} & {loan.borrower for loan in made}
    assert total(each.aim + net_loan(each.budget, made) for each in family) == total(each.aim for each in family)
    bearable = total(each.unspent for each in family) >= total(each.over for each in family)
    for each in family:
        lent = net_loan(each.budget, made)
        aim = each.aim + lent
        if lent < ZERO:
            assert aim >= each.spent
        if lent > ZERO:
            assert each.short or each.over > ZERO
            assert each.most is None or aim <= max(each.most, each.aim, each.spent)
        assert not bearable or aim >= each.spent
