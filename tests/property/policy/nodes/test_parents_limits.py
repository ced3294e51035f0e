"""The limits of a budget that is above others hold for all of them together, in a world as dear and slow as may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.billing import accrued, accrued_in, spent
from charterer.domain.budget import NOTHING, Budget, PastPeriod
from charterer.domain.budget_tree import budget_tree
from charterer.domain.ids import BudgetId
from charterer.domain.money import ZERO, Money, total
from charterer.domain.profile import Amdahl
from charterer.domain.rental import RentalPhase
from charterer.domain.time import Calendar, Period, after, parse_instant
from charterer.policy import plan
from tests import lanes
from tests.property.policy.nodes.test_hard_limit import Slow
from tests.property.policy.test_plan_invariants import worlds
from tests.worlds import World

NAMES = ("a", "b", "c", "d", "e")
PARENTS = st.tuples(*(st.sampled_from([None, *NAMES[:number]]) for number in range(len(NAMES))))
"""A random forest: the parent of each is one of those before it, or none."""
HARD = st.sampled_from([None, "12", "40", "150", "600"])
HOURLY = st.sampled_from([None, "60", "120", "400"])


def families(world: World) -> Iterable[tuple[Budget, list[BudgetId]]]:
    """Each budget with itself and all below it."""
    below = budget_tree(world.budgets).below
    return [(budget, [name, *below.get(name, ())]) for name, budget in world.budgets.items()]


@settings(max_examples=lanes.examples(10))
@given(
    seed=st.integers(0, 10**6),
    parents=PARENTS,
    hard=st.lists(HARD, min_size=5, max_size=5),
    hourly=st.lists(HOURLY, min_size=5, max_size=5),
    settled=st.lists(st.sampled_from(["0", "5"]), min_size=5, max_size=5),
    payers=st.lists(st.sampled_from(NAMES), min_size=2, max_size=6),
    amount=st.sampled_from(["4", "90000"]),
    lends=st.booleans(),
)
def test_no_tree_of_budgets_breaks_a_limit_at_any_depth(
    seed: int,
    parents: tuple[str | None, ...],
    hard: list[str | None],
    hourly: list[str | None],
    settled: list[str],
    payers: list[str],
    amount: str,
    lends: bool,
) -> None:
    world = World()
    for name, parent, limit, rate, before in zip(NAMES, parents, hard, hourly, settled, strict=True):
        made = world.budget(name, amount=amount, spent=before, hard_limit=limit, max_hourly=rate, parent=parent)
        world.budgets[made.id] = replace(made, lends=lends)
    world.pool("a100", price="20", worst="50", start_seconds=200)
    world.profile("sft", Amdahl(0.98, 1.0), work_hours=30)
    slow = Slow(world, seed)
    for number, payer in enumerate(payers):
        grace = slow.draw.choice([0, 600])
        world.job(f"j{number}", gpus=(1, 8, 64), profile="sft", budget=payer, grace_seconds=grace)
    at_first = {name: Money.parse(before) for name, before in zip(NAMES, settled, strict=True)}
    kept = [
        (budget, members)
        for budget, members in families(world)
        if budget.hard_limit is None or total(at_first[name] for name in members) <= budget.hard_limit
    ]
    for _ in range(70):
        slow.turn()
        for budget, members in kept:
            rentals = [rental for rental in world.rentals.values() if rental.budget in members]
            cost = total(accrued(rental, world.now) for rental in rentals)
            if budget.hard_limit is not None:
                assert total(at_first[name] for name in members) + cost <= budget.hard_limit
            if budget.max_hourly_rate is not None:
                worst = sum(rental.worst.micros_per_hour for rental in rentals if rental.phase is not RentalPhase.ENDED)
                assert worst <= budget.max_hourly_rate.micros_per_hour


def open_periods(world: World) -> None:
    """Close the period of each budget that is over, as its life cycle does."""
    for name, budget in world.budgets.items():
        balance = budget.balance
        assert balance is not None
        end = budget.calendar.end(balance.period_start)
        if world.now >= end:
            past = PastPeriod(balance.period_start, spent(budget, world.rentals.values(), end))
            opened = replace(balance, period_start=end, settled=ZERO, history=(*balance.history, past))
            world.budgets[name] = replace(budget, balance=opened)


TURNS = st.sampled_from(
    [
        (Period.WEEK, "2026-06-29"),
        (Period.MONTH, "2026-07-01"),
        (Period.QUARTER, "2026-07-01"),
        (Period.YEAR, "2027-01-01"),
    ]
)
"""Periods, and the first day of one of them."""


@settings(max_examples=lanes.examples(10))
@given(
    seed=st.integers(0, 10**6),
    turn_of=TURNS,
    earlier_hours=st.sampled_from([9.13, 0.13, -3.87]),
    zones=st.lists(st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York"]), min_size=3, max_size=3),
    settled=st.lists(st.sampled_from(["0", "80"]), min_size=3, max_size=3),
    late=st.booleans(),
)
def test_no_period_breaks_a_parents_limit_when_it_begins_at_different_times_for_those_below(
    seed: int, turn_of: tuple[Period, str], earlier_hours: float, zones: list[str], settled: list[str], late: bool
) -> None:
    period, first_day = turn_of
    turns = parse_instant(f"{first_day}T00:00:00Z")
    world = World(now=after(turns, -earlier_hours * 3_600.0))
    for name, zone, before, parent in zip(("org", "x", "y"), zones, settled, (None, "org", "org"), strict=True):
        limit = "400" if parent is None else None
        world.budget(name, spent=before, hard_limit=limit, parent=parent, calendar=Calendar(zone, period))
    world.pool("a100", price="300", worst="400", start_seconds=60)
    slow = Slow(world, seed)
    for number, payer in enumerate(("x", "y", "x", "y")):
        world.job(f"j{number}", gpus=8, budget=payer, grace_seconds=60)
    first = {name: budget.balance.period_start for name, budget in world.budgets.items() if budget.balance is not None}
    before_turns = after(turns, -2 * 86_400.0)
    for turn in range(60):
        slow.turn()
        if not late or turn % 20 == 19:
            open_periods(world)
        of_old = of_new = ZERO
        for (name, budget), before in zip(world.budgets.items(), settled, strict=True):
            turned = budget.calendar.bounds(before_turns)[1]
            mine = [rental for rental in world.rentals.values() if rental.budget == name]
            costs_of_old = total(accrued(rental, min(world.now, turned)) for rental in mine)
            costs_of_new = total(accrued_in(rental, turned, world.now) for rental in mine if world.now >= turned)
            was_old = first[name] < turned
            of_old += costs_of_old + (Money.parse(before) if was_old else ZERO)
            of_new += costs_of_new + (ZERO if was_old else Money.parse(before))
        assert of_old <= Money.parse("400")
        assert of_new <= Money.parse("400")


@settings(max_examples=lanes.examples(20))
@given(worlds())
def test_a_parent_that_has_enough_and_no_limit_changes_nothing(world: World) -> None:
    for name, budget in world.budgets.items():
        world.budgets[name] = replace(budget, parent=None)
    alone = plan(world.snapshot())
    enough = total(budget.amount for budget in world.budgets.values())
    for name, budget in list(world.budgets.items()):
        world.budgets[name] = replace(budget, parent=BudgetId("top"))
    world.budgets[BudgetId("top")] = replace(world.budget("top"), amount=enough, selector=NOTHING)
    below = plan(world.snapshot())
    assert (below.commands, below.observed_commands, below.jobs) == (
        alone.commands,
        alone.observed_commands,
        alone.jobs,
    )
    assert {name: below.budgets[name] for name in alone.budgets} == alone.budgets
    assert below.again_at == alone.again_at


def test_room_that_a_parents_limit_leaves_is_used_by_whoever_needs_it() -> None:
    world = World()
    world.budget("org", hard_limit="40")
    world.budget("x", parent="org")
    world.budget("y", parent="org")
    world.pool("a100", price="20", start_seconds=200)
    world.job("train", gpus=8, budget="y")
    slow = Slow(world, 1)
    for _ in range(240):
        world.carry_out(plan(world.snapshot()))
        world.passes(45.0)
        slow.goes_on()
    cost = total(accrued(rental, world.now) for rental in world.rentals.values())
    assert Money.parse("36") < cost <= Money.parse("40")


def test_months_of_different_zones_do_not_lend_each_other_money() -> None:
    """While one has begun its month, the other may not spend again what both spent in the old one."""
    world = World(now=parse_instant("2026-06-30T15:30:00Z"))
    world.budget("org", hard_limit="100")
    world.budget("tokyo", parent="org", calendar=Calendar("Asia/Tokyo"))
    world.budget("london", parent="org", spent="55")
    tokyo = world.budgets[BudgetId("tokyo")]
    assert tokyo.balance is not None
    june = PastPeriod(Calendar("Asia/Tokyo").bounds(parse_instant("2026-06-15T00:00:00Z"))[0], Money.parse("40"))
    world.budgets[tokyo.id] = replace(tokyo, balance=replace(tokyo.balance, history=(june,)))
    world.pool("a100", price="60")
    world.job("train", gpus=8, budget="london")
    assert plan(world.snapshot()).commands == ()
    family = plan(world.snapshot()).budgets[BudgetId("org")].with_descendants
    assert family is not None
    assert family.spent == Money.parse("95")
    world.now = parse_instant("2026-07-01T00:30:00Z")
    assert len(plan(world.snapshot()).commands) == 1
