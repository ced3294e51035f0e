"""What holds for budgets that lend each other money, whatever they have spent and whatever is to come."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.budget import NOTHING, net_loan
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, total
from charterer.domain.profile import PowerLaw
from charterer.domain.time import Calendar
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.planner import solve_budgets
from tests import lanes
from tests.worlds import World

NAMES = ("a", "b", "c", "d")
TEAMS = st.tuples(
    st.sampled_from(["0", "9000", "30000"]),
    st.sampled_from(["0", "8000", "31000"]),
    st.sampled_from([None, "40000"]),
    st.sampled_from([None, 0.01, 2.0]),
    st.sampled_from(["UTC", "UTC", "Asia/Tokyo", "America/New_York"]),
)
"""Amount, spent, hard limit, jobs an hour and time zone."""
PARENTS = st.tuples(*(st.sampled_from(["org", *NAMES[:number]]) for number in range(len(NAMES))))


def tree(teams: list[tuple[str, str, str | None, float | None, str]], parents: tuple[str, ...]) -> World:
    """Budgets below one of $80,000 that pays for nothing itself; all of them allow loans to those below them."""
    world = World()
    world.budget("org", amount="80000", lends=True)
    world.budgets[BudgetId("org")] = replace(world.budgets[BudgetId("org")], selector=NOTHING)
    for name, parent, (amount, spent, hard, jobs, zone) in zip(NAMES, parents, teams, strict=True):
        money = replace(
            world.budget(
                name,
                amount=amount,
                spent=spent,
                hard_limit=hard,
                calendar=Calendar(zone),
                opening=None if name < "c" else "0",
            ),
            lends=True,
        )
        world.budgets[money.id] = replace(money, parent=BudgetId(parent))
        if jobs is not None:
            world.profile(name, PowerLaw(0.8, 1.0), arrivals_per_hour=jobs, work_hours=20, budget=name)
            world.job(f"{name}-job", gpus=(1, 4, 64), profile=name, budget=name)
    world.pool("a100", gpus=8, price="16")
    return world


@settings(max_examples=lanes.examples(25))
@given(st.lists(TEAMS, min_size=4, max_size=4), PARENTS)
def test_loans_move_money_and_make_none(
    teams: list[tuple[str, str, str | None, float | None, str]], parents: tuple[str, ...]
) -> None:
    world = tree(teams, parents)
    snapshot = world.snapshot()
    solved = [each.budget for each in solve_budgets(snapshot)]
    assert total(each.aim for each in solved) == total(each.own_aim for each in solved)
    zones = {each.id: each.calendar.time_zone for each in solved}
    for each in solved:
        loan = net_loan(each.id, each.loans)
        spent = ZERO if each.balance is None else each.balance.settled
        assert all(zones[made.lender] == zones[made.borrower] for made in each.loans)
        assert loan >= ZERO or each.aim >= spent
        assert loan <= ZERO or each.hard_limit is None or each.aim <= max(each.hard_limit, each.own_aim, spent)
    memo = Memo()
    made = plan(snapshot, memo)
    assert made == plan(snapshot, memo) == plan(snapshot)
    lent = {loan for verdict in made.budgets.values() for loan in verdict.loans}
    assert lent == {loan for each in solved for loan in each.loans}
