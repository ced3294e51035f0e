"""The load on a budget, the rate it is allowed, and the order of its queue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import Balance, ClassHistory
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.profile import Amdahl
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.actions.admission.queue_order import by_dollars, by_value, next_in_queue
from charterer.policy.budgets.demand import GroupDemand, group_demands
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.options.menu import Menus
from tests.worlds import MID_MONTH, World

DAY = 86_400.0


def grouped(world: World) -> list[GroupDemand]:
    budget = world.budget()
    known = plan_inputs(world.snapshot(), Memo())
    return list(
        group_demands(
            known.groups.get(BudgetId("research"), {}),
            world.profiles,
            known.menus[BudgetId("research")],
            budget,
            world.now,
        ).values()
    )


def test_without_history_the_load_is_the_jobs_in_sight_at_their_price() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    for number in range(3):
        world.job(f"j{number}", gpus=8, profile="sft")
    (group,) = grouped(world)
    demand = group.demand()
    assert group.arrivals is None
    assert demand.load * demand.spends[0] == pytest.approx(3 * 16 / 3600)


def test_a_declared_class_of_which_no_job_has_come_yet_counts_for_its_own_budget_only() -> None:
    world = World()
    world.pool()
    made = world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=4.0, budget="research")
    menus = Menus(world.profiles, world.pools)
    (group,) = group_demands({}, world.profiles, menus, world.budget(), world.now).values()
    assert (group.class_id, group.active) == (made.id, 0)
    assert group.arrivals_per_hour(0) == pytest.approx(4.0)
    assert not group_demands({}, world.profiles, menus, world.budget("another"), world.now)


def test_declared_arrivals_are_shared_by_the_groups_of_a_class() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=4.0)
    for number in range(3):
        world.job(f"j{number}", gpus=8, profile="sft")
    world.job("heavy", gpus=8, profile="sft", weight=2.0)
    rates = {group.weight: group.arrivals_per_hour(0) for group in grouped(world)}
    assert rates == pytest.approx({1.0: 3.0, 2.0: 1.0})


def test_a_class_whose_jobs_are_all_gone_is_planned_for_as_the_balance_remembers_it() -> None:
    world = World()
    world.pool()
    profile = world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, budget="research")
    gone = ClassHistory(60.0, 1.0, 1.0, 1.0, after(MID_MONTH, -1e8), MID_MONTH, 2 * 43.28, 2 * 10.1)
    budget = world.budget()
    assert budget.balance is not None
    balance = replace(budget.balance, class_history={profile.id: gone})
    menus = Menus(world.profiles, world.pools)
    (group,) = group_demands({}, world.profiles, menus, replace(budget, balance=balance), world.now).values()
    assert group.active == 0
    assert group.arrivals_per_hour(0) * 24 == pytest.approx(2.0, rel=0.01)
    assert 20 < group.counted < 100


def test_a_finished_job_that_the_balance_has_counted_does_not_count_again() -> None:
    world = World()
    world.pool()
    budget = world.budget()
    balance = budget.balance
    assert balance is not None
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    for number in range(10):
        job = world.job(f"j{number}", gpus=8, profile="sft", age_seconds=2 * DAY * (number + 1) / 10)
        world.jobs[job.id] = replace(job, last_run=1, finish=Finish(FinishKind.COMPLETE, MID_MONTH, "Completed", ""))
    known = plan_inputs(world.snapshot(), Memo())

    def rate(of: Balance) -> float | None:
        cohorts = known.groups[BudgetId("research")]
        found = group_demands(
            cohorts, world.profiles, known.menus[BudgetId("research")], replace(budget, balance=of), world.now
        )
        return next((group.arrivals for group in found.values()), None)

    assert rate(balance) == pytest.approx(9 / (2 * DAY), rel=0.01)
    assert rate(replace(balance, counted_through=MID_MONTH)) is None


def test_every_class_with_a_job_that_wants_to_run_is_there() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0))
    world.job("known", gpus=(1, 8, 8), profile="sft")
    world.job("unknown", gpus=8)
    world.job("asleep", gpus=4, suspend=True)
    assert [(str(group.class_id), group.active) for group in grouped(world)] == [("team/sft", 1), ("uid/unknown", 1)]


def option(gpus: int) -> Option:
    return Option(PoolId("a"), gpus, 1.0, Price(gpus * 3_600_000))


def test_the_queue_puts_the_most_weight_for_a_dollar_first_and_the_older_of_equals() -> None:
    world = World()
    wide, narrow = world.job("wide", age_seconds=50), world.job("narrow")
    older, heavy = world.job("older", age_seconds=99), world.job("heavy", weight=5.0)
    keys = {
        "wide": by_value(wide, option(8)),
        "narrow": by_value(narrow, option(2)),
        "older": by_value(older, option(2)),
        "heavy": by_value(heavy, option(8)),
    }
    assert sorted(keys, key=lambda name: keys[name]) == ["heavy", "older", "narrow", "wide"]
    assert by_dollars(narrow, 10.0) < by_dollars(narrow, 20.0)
    assert by_dollars(heavy, 10.0) < by_dollars(wide, 10.0)


@given(st.floats(0.0, 1.0), st.integers(1, 200))
def test_a_credit_counter_is_never_more_than_half_a_job_off(mix: float, jobs: int) -> None:
    wider = 0
    for before in range(jobs):
        wider += next_in_queue({"narrow": 1.0 - mix, "wide": mix}, {"narrow": before - wider, "wide": wider}) == "wide"
        assert abs(wider - mix * (before + 1)) <= 0.5 + 1e-9
