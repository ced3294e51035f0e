"""The load on a budget, the rate it is allowed, and the order of its queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import Balance, Budget, ClassHistory
from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.job import Finish, FinishKind
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.profile import Amdahl
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.actions.admission.queue import by_dollars, by_value, next_in_queue
from charterer.policy.budgets.demand import BudgetLoad, GroupDemand, budget_load
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import GroupKey
from charterer.policy.options.menu import Menus
from tests.worlds import MID_MONTH, World

DAY = 86_400.0


HORIZON = 15 * DAY


def load_of(world: World, budget: Budget, groups: Mapping[GroupKey, JobGroup], menus: Menus) -> BudgetLoad:
    return budget_load(groups, world.profiles, menus, budget, HORIZON, world.now)


def grouped(world: World) -> list[GroupDemand]:
    budget = world.budget()
    known = plan_inputs(world.snapshot(), Memo())
    groups = known.groups.get(BudgetId("research"), {})
    return list(load_of(world, budget, groups, known.menus[BudgetId("research")]).groups.values())


def test_the_jobs_in_sight_are_a_stock_of_the_work_that_they_have_left() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    world.job("new", gpus=8, profile="sft")
    world.job("half", gpus=8, profile="sft", hours_left=5.0)
    (group,) = grouped(world)
    assert group.basis is ArrivalsBasis.ASSUMED
    assert group.in_sight == pytest.approx(1.5)
    assert group.spend(1.0, 1.0, kappa=0.0, overhead=1.0) * HORIZON == pytest.approx(1.5)


def test_work_beyond_the_horizon_is_paid_for_later() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.0, 1.0), work_hours=720)
    world.job("long", gpus=1, profile="sft")
    (group,) = grouped(world)
    spends = group.demand(kappa=1.0, overhead=1.0, coming=0.0).spends
    for seconds, dollars, spent in zip(group.hull.seconds, group.hull.money, spends, strict=True):
        assert spent * HORIZON == pytest.approx(dollars * min(1.0, HORIZON / seconds))
    assert group.hull.seconds[0] > HORIZON


def test_kappa_corrects_the_jobs_to_come_and_the_overhead_those_in_sight() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    world.job("new", gpus=8, profile="sft")
    (group,) = grouped(world)
    plain, sure = group.demand(kappa=1.0, overhead=1.0), group.demand(kappa=1.0, overhead=1.0, coming=0.0)
    corrected = group.demand(kappa=3.0, overhead=2.0)
    assert corrected.slopes == plain.slopes
    for found, all_, in_sight in zip(corrected.spends, plain.spends, sure.spends, strict=True):
        assert found == pytest.approx(3.0 * (all_ - in_sight) + 2.0 * in_sight)


def test_in_the_long_run_there_are_only_jobs_to_come() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    world.job("new", gpus=8, profile="sft")
    (group,) = grouped(world)
    assert group.in_the_long_run().spend(1e9, 1.0, kappa=1.0, overhead=1.0) == group.arrivals > 0.0


def test_a_declared_class_of_which_no_job_has_come_yet_counts_for_its_own_budget_only() -> None:
    world = World()
    world.pool()
    made = world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=4.0, budget="research")
    menus = Menus(world.profiles, world.pools)
    (group,) = load_of(world, world.budget(), {}, menus).groups.values()
    assert (group.class_id, group.active, group.basis) == (made.id, 0, ArrivalsBasis.DECLARED)
    assert group.arrivals * 3600.0 == pytest.approx(4.0)
    assert not load_of(world, world.budget("another"), {}, menus).groups


def test_declared_arrivals_are_shared_by_the_groups_of_a_class() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=4.0)
    for number in range(3):
        world.job(f"j{number}", gpus=8, profile="sft")
    world.job("heavy", gpus=8, profile="sft", weight=2.0)
    rates = {group.weight: group.arrivals * 3600.0 for group in grouped(world)}
    assert rates == pytest.approx({1.0: 3.0, 2.0: 1.0})


@pytest.mark.parametrize("odd", ["fits no node", "asks for a type that nobody sells", "is suspended"])
@pytest.mark.parametrize("arrivals", [None, 2.0])
def test_a_job_that_cannot_be_served_changes_no_other_jobs_load(odd: str, arrivals: float | None) -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, arrivals_per_hour=arrivals)
    world.job("plain", gpus=(1, 8, 64), profile="sft", hours_left=5.0)
    (alone,) = (group for group in grouped(world) if group.active)
    if odd == "fits no node":
        world.job("odd", gpus=64_000, profile="sft", hours_left=1e5)
    elif odd == "is suspended":
        world.job("odd", gpus=64, profile="sft", suspend=True)
    else:
        world.job("odd", gpus=8, profile="sft", gpu_types=("h100",))
    (beside,) = (group for group in grouped(world) if group.active)
    assert (beside.arrivals, beside.in_sight, beside.work) == (alone.arrivals, alone.in_sight, alone.work)
    assert alone.arrivals > 0.0


def test_a_class_whose_jobs_are_all_gone_is_planned_for_as_the_balance_remembers_it() -> None:
    world = World()
    world.pool()
    profile = world.profile("sft", Amdahl(0.9, 1.0), work_hours=10, budget="research")
    gone = ClassHistory(60.0, 1.0, 1.0, 1.0, after(MID_MONTH, -1e8), MID_MONTH, 2 * 43.28, 2 * 10.1)
    budget = world.budget()
    assert budget.balance is not None
    old = replace(
        budget, created=after(MID_MONTH, -1e8), balance=replace(budget.balance, class_history={profile.id: gone})
    )
    (group,) = load_of(world, old, {}, Menus(world.profiles, world.pools)).groups.values()
    assert (group.active, group.basis) == (0, ArrivalsBasis.COUNTED)
    assert group.arrivals * DAY == pytest.approx(2.0, rel=0.1)
    assert 20 < group.counted < 100


def test_a_finished_job_that_the_balance_has_counted_does_not_count_again() -> None:
    world = World()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    for number in range(10):
        job = world.job(f"j{number}", gpus=8, profile="sft", age_seconds=2 * DAY * (number + 1) / 10)
        world.jobs[job.id] = replace(job, last_run=1, finish=Finish(FinishKind.COMPLETE, MID_MONTH, "Completed", ""))
    budget = replace(world.budget(amount="0"), created=after(MID_MONTH, -3 * DAY))
    balance = budget.balance
    assert balance is not None
    known = plan_inputs(world.snapshot(), Memo())
    cohorts, menus = known.groups[BudgetId("research")], known.menus[BudgetId("research")]

    def rate(of: Balance) -> float:
        return load_of(world, replace(budget, balance=of), cohorts, menus).arrivals.rate

    assert rate(balance) == pytest.approx(10 / (3 * DAY), rel=0.1)
    assert rate(replace(balance, counted_through=MID_MONTH)) == 0.0


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
        "wide": by_value(wide, wide.weight, option(8)),
        "narrow": by_value(narrow, narrow.weight, option(2)),
        "older": by_value(older, older.weight, option(2)),
        "heavy": by_value(heavy, heavy.weight, option(8)),
    }
    assert sorted(keys, key=lambda name: keys[name]) == ["heavy", "older", "narrow", "wide"]
    assert by_dollars(narrow, narrow.weight, 10.0) < by_dollars(narrow, narrow.weight, 20.0)
    assert by_dollars(heavy, heavy.weight, 10.0) < by_dollars(wide, wide.weight, 10.0)


@given(st.floats(0.0, 1.0), st.integers(1, 200))
def test_a_credit_counter_is_never_more_than_half_a_job_off(mix: float, jobs: int) -> None:
    wider = 0
    for before in range(jobs):
        wider += next_in_queue({"narrow": 1.0 - mix, "wide": mix}, {"narrow": before - wider, "wide": wider}) == "wide"
        assert abs(wider - mix * (before + 1)) <= 0.5 + 1e-9
