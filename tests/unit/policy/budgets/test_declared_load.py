"""A declared load counts as far as jobs bear it out: no class takes a budget from the others by words alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.budget import ClassHistory
from charterer.domain.ids import BudgetId, ClassId, JobId
from charterer.domain.plan import BudgetVerdict, Plan, ReasonCode
from charterer.domain.profile import Amdahl, PowerLaw
from charterer.domain.time import after
from charterer.policy import plan
from charterer.policy.budgets.demand import seen_lately
from charterer.policy.planner import solve_budgets
from tests.lanes import repeats
from tests.worlds import MID_MONTH, NAMESPACE, World

GREEDY = ClassId(NAMESPACE, "greedy")
DAY = 86_400.0


def honest() -> World:
    """A budget with money for a wide run of its one job."""
    world = World()
    world.budget(amount="60000")
    world.pool("a100", max_nodes=1000)
    world.profile("sft", Amdahl(0.99, 1.0), work_hours=20)
    world.job("honest", gpus=(1, 8, 64), profile="sft", age_seconds=3 * DAY)
    return world


def claims(world: World, *, arrivals: float = 1e6, work_hours: float = 1e8) -> None:
    """A class of the same budget declares a gigantic load."""
    made = world.profile(
        "greedy", PowerLaw(0.8, 1.0), arrivals_per_hour=arrivals, work_hours=work_hours, budget="research"
    )
    world.profiles[GREEDY] = replace(made, claims_arrivals=True, claims_work=True)


def width(decided: Plan) -> int:
    option = decided.jobs[next(name for name in decided.jobs if name == "honest")].option
    assert option is not None
    return option.gpus


def verdict(decided: Plan) -> BudgetVerdict:
    return decided.budgets[BudgetId("research")]


def counted(decided: Plan) -> float:
    return sum(each.arrivals_per_hour for each in decided.classes if each.class_id == GREEDY)


def test_a_class_without_a_job_takes_nothing_whatever_it_declares() -> None:
    world = honest()
    alone = plan(world.snapshot())
    claims(world)
    together = plan(world.snapshot())
    assert verdict(together) == verdict(alone)
    assert width(together) == width(alone) > 8


def test_one_small_job_of_a_class_that_declares_a_gigantic_load_leaves_others_their_widths() -> None:
    world = honest()
    alone = width(plan(world.snapshot()))
    claims(world)
    world.job("bait", gpus=1, profile="greedy")
    decided = plan(world.snapshot())
    assert verdict(decided).feasible
    assert width(decided) >= alone / 2


def test_the_same_load_taken_at_its_word_starves_the_others() -> None:
    world = honest()
    claims(world, arrivals=1e3, work_hours=100.0)
    world.profiles[GREEDY] = replace(world.profiles[GREEDY], claims_arrivals=False, claims_work=False)
    world.job("bait", gpus=1, profile="greedy")
    decided = plan(world.snapshot())
    assert not verdict(decided).feasible
    assert width(decided) == 1


def test_a_load_that_jobs_bear_out_counts_as_it_was_declared() -> None:
    world = honest()
    claims(world, arrivals=0.5, work_hours=0.04)
    for number in range(4):
        world.job(f"j{number}", gpus=1, profile="greedy", age_seconds=number * 7200.0)
    assert counted(plan(world.snapshot())) == pytest.approx(0.5)


def test_a_declared_load_grows_with_what_its_job_has_cost() -> None:
    world = honest()
    claims(world, arrivals=1.0, work_hours=10.0)
    world.rental()
    world.job("j", gpus=1, profile="greedy", age_seconds=600.0)
    world.runs_on("j", "a100-1", gpus=1)
    first = counted(plan(world.snapshot()))
    world.passes(6 * 3600.0)
    later = counted(plan(world.snapshot()))
    assert first == pytest.approx(300.0 / 36_000.0, rel=0.05)
    assert later == pytest.approx(2.0 / 6.17, rel=0.05)


def test_what_was_seen_fades_when_no_jobs_come() -> None:
    created = [after(MID_MONTH, -hours * 3600.0) for hours in range(10)]
    seen = [seen_lately(None, created, after(MID_MONTH, days * DAY)) for days in (0, 1, 7, 28, 90)]
    rates = [0.0 if found is None else found.rate(600.0) for found in seen]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(10 / (9 * 3600.0), rel=0.1)
    assert rates[-1] < rates[0] / 10_000


def test_finished_jobs_bear_a_load_out_too() -> None:
    history = ClassHistory(20.0, 20.0, 20.0, 20.0, after(MID_MONTH, -10 * DAY), MID_MONTH, 20.0, 14.0)
    seen = seen_lately(history, (), MID_MONTH)
    assert seen is not None
    assert seen.rate(600.0) * DAY == pytest.approx(2.2, rel=0.1)
    assert seen_lately(None, (), MID_MONTH) is None


def test_classes_of_short_jobs_are_seen_within_the_time_that_their_jobs_take() -> None:
    world = honest()
    claims(world, arrivals=1e6, work_hours=0.01)
    world.job("j", gpus=1, profile="greedy")
    assignments = next(iter(solve_budgets(world.snapshot()))).assignments.values()
    assignment = next(assignment for assignment in assignments if assignment.group.class_id == GREEDY)
    shortest = assignment.group.hull.seconds[0]
    assert shortest < 600.0
    assert assignment.arrivals == pytest.approx(2.0 / shortest, rel=0.01)


@pytest.mark.parametrize("work_hours", [0.0001, 0.01, 0.1, 10.0])
@pytest.mark.parametrize("age", [0.0, 60.0, 600.0, 3600.0])
def test_a_job_bears_out_at_most_three_times_its_own_load_however_short_its_class_declares_its_jobs(
    work_hours: float, age: float
) -> None:
    world = honest()
    claims(world, arrivals=1e6, work_hours=work_hours)
    world.job("j", gpus=1, profile="greedy", age_seconds=age)
    assignments = next(iter(solve_budgets(world.snapshot()))).assignments.values()
    assignment = next(assignment for assignment in assignments if assignment.group.class_id == GREEDY)
    hull = assignment.group.hull
    assert assignment.arrivals * hull.money[0] <= 3.0 * hull.rates[0]


def too_dear_jobs(world: World, *, targeted: bool) -> None:
    """Jobs that would cost a hundred times what they may."""
    target_hours = 24.0 if targeted else None
    for number in range(200):
        world.job(f"hopeless-{number}", gpus=(1, 8, 64), profile="sft", max_cost="0.50", target_hours=target_hours)


@pytest.mark.parametrize("targeted", [False, True])
def test_jobs_that_can_never_start_within_their_max_cost_take_nothing(targeted: bool) -> None:
    world = honest()
    alone = plan(world.snapshot())
    too_dear_jobs(world, targeted=targeted)
    together = plan(world.snapshot())
    assert (verdict(together), width(together)) == (verdict(alone), width(alone))
    why = together.jobs[JobId("hopeless-0")].reason
    assert why.code is ReasonCode.MAX_COST
    assert "spec.maxCost is $0.50" in why.message


def many_claims(world: World, classes: int) -> list[str]:
    """Classes of one namespace, each of which declares a gigantic load."""
    names = [f"greedy-{number}" for number in range(classes)]
    for name in names:
        made = world.profile(name, PowerLaw(0.8, 1.0), arrivals_per_hour=1e6, work_hours=1e8, budget="research")
        world.profiles[made.id] = replace(made, claims_arrivals=True, claims_work=True)
    return names


@pytest.mark.parametrize("number", [100, *repeats(1000)])
def test_very_many_classes_of_one_namespace_take_nothing_by_words_alone(number: int) -> None:
    world = honest()
    alone = plan(world.snapshot())
    many_claims(world, number)
    together = plan(world.snapshot())
    assert (verdict(together), width(together)) == (verdict(alone), width(alone))


@pytest.mark.parametrize("age", [0.0, 600.0, DAY])
@pytest.mark.parametrize("declared", [True, False])
def test_jobs_that_never_want_gpus_take_nothing_whatever_their_classes_declare(age: float, declared: bool) -> None:
    world = honest()
    alone = plan(world.snapshot())
    for name in many_claims(world, 100):
        if not declared:
            class_id = ClassId(NAMESPACE, name)
            world.profiles[class_id] = replace(world.profiles[class_id], arrivals_per_hour=None, mean_work=None)
        for number in range(6):
            world.job(f"{name}-{number}", gpus=1, profile=name, suspend=True, age_seconds=age + number)
    together = plan(world.snapshot())
    assert (verdict(together), width(together)) == (verdict(alone), width(alone))


@pytest.mark.parametrize("age", [0.0, 60.0, 600.0, 3600.0])
def test_jobs_of_many_declared_classes_weigh_at_most_five_times_as_much_as_themselves(age: float) -> None:
    def load(*, declared: bool) -> float:
        world = honest()
        world.now = after(world.now, age)
        for name in many_claims(world, 10):
            if not declared:
                class_id = ClassId(NAMESPACE, name)
                world.profiles[class_id] = replace(world.profiles[class_id], arrivals_per_hour=None, mean_work=None)
            rental = world.rental()
            world.job(name, gpus=1, profile=name, age_seconds=age)
            world.runs_on(name, rental.id, gpus=1)
            job = world.jobs[JobId(name)]
            assert job.allocation is not None
            began = replace(job.allocation, since=after(world.now, -age))
            world.jobs[job.id] = replace(job, allocation=began)
        assignments = next(iter(solve_budgets(world.snapshot()))).assignments.values()
        groups = [assignment.group for assignment in assignments if assignment.group.class_id.name != "sft"]
        return sum(group.demand(kappa=1.0, overhead=1.0).spends[0] for group in groups)

    assert load(declared=True) <= 5.0 * load(declared=False)


@pytest.mark.parametrize("least", [0.0, 5e-324, 1e-11, 1.0])
def test_jobs_that_last_no_time_at_all_come_in_a_second_at_least(least: float) -> None:
    seen = seen_lately(None, (MID_MONTH,), MID_MONTH)
    assert seen is not None
    assert seen.rate(least) == pytest.approx(1.0, rel=1e-3)
