"""κ: what jobs really cost for each dollar predicted; and what running jobs are committed to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.budget import Cause, ClassHistory, Costs
from charterer.domain.ids import ClassId, JobId, PoolId
from charterer.domain.money import Money, Price
from charterer.domain.profile import Amdahl
from charterer.domain.reports import Progress
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.budgets.assignment import calibrate, cost_factor, usual_squared_cv
from charterer.policy.budgets.inputs import plan_inputs
from charterer.policy.jobs.groups import NOTHING, ClassInProgress, CommittedCost
from tests.worlds import MID_MONTH, World

AS_PREDICTED = ClassHistory(10.0, 1_000.0, 1_000.0, 1_000.0, MID_MONTH, MID_MONTH)
SFT = ClassId("team", "sft")


def test_nothing_known_corrects_nothing() -> None:
    assert cost_factor(None).value == cost_factor(AS_PREDICTED).value == 1.0
    assert cost_factor(None, CommittedCost(left=10.0)).value == 1.0


def test_three_pseudo_jobs_hold_back_the_first_surprise() -> None:
    history = ClassHistory(1.0, 100.0, 200.0, 400.0, MID_MONTH, MID_MONTH)
    assert cost_factor(history).value == pytest.approx((200 + 300) / (100 + 300))


def test_a_running_job_counts_with_what_it_will_cost() -> None:
    half_done_and_twice_as_dear = CommittedCost(jobs=1, predicted=100.0, actual=200.0, left=100.0)
    assert cost_factor(None, half_done_and_twice_as_dear).value == pytest.approx(500 / 400)


@given(st.floats(0.1, 10.0), st.integers(1, 500))
def test_kappa_lies_between_one_and_the_truth_and_comes_nearer_with_every_job(truth: float, jobs: int) -> None:
    def after_jobs(count: int) -> float:
        return cost_factor(ClassHistory(count, 50.0 * count, 50.0 * count * truth, 1.0, MID_MONTH, MID_MONTH)).value

    value = after_jobs(jobs)
    assert min(1.0, truth) - 1e-9 <= value <= max(1.0, truth) + 1e-9
    assert abs(after_jobs(jobs + 1) - truth) <= abs(value - truth) + 1e-9


def test_unequal_jobs_make_kappa_less_certain() -> None:
    unequal = ClassHistory(10.0, 1_000.0, 1_000.0, 10_000.0, MID_MONTH, MID_MONTH)
    assert cost_factor(unequal).error > cost_factor(AS_PREDICTED).error


def test_a_class_of_few_jobs_is_taken_to_be_as_unequal_as_all_classes_are() -> None:
    unequal = ClassHistory(300.0, 1_000.0, 1_000.0, 10_000.0, MID_MONTH, MID_MONTH)
    usual = usual_squared_cv([unequal, AS_PREDICTED])
    assert 7.0 < usual < 9.0
    assert cost_factor(None, NOTHING, usual).squared_cv == usual
    assert 0.7 * usual < cost_factor(AS_PREDICTED, NOTHING, usual).squared_cv < usual
    assert cost_factor(replace(AS_PREDICTED, jobs=3_000.0), NOTHING, usual).squared_cv < 0.02 * usual


def running() -> World:
    """A job that has run for two hours at $16/h, and was predicted to cost $80."""
    world = World()
    world.budget()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    world.job("train", gpus=8, profile="sft")
    world.rental()
    world.runs_on("train", "a100-1", gpus=8, speed=4.0)
    world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], predicted=Money.parse("80"))
    world.passes(7200.0)
    return world


def in_progress(world: World) -> ClassInProgress:
    return ClassInProgress(plan_inputs(world.snapshot(), Memo()).facts.values())


def test_a_silent_job_is_taken_to_cost_what_was_predicted_times_kappa() -> None:
    world = running()
    job = in_progress(world)
    assert job.spent(world.now) == pytest.approx(32.0)
    assert job.committed(world.now, 1.0).left == pytest.approx(48.0)
    assert job.committed(world.now, 1.5).left == pytest.approx(88.0)
    assert job.committed(world.now, 0.1).left == 0.0


def test_a_job_that_reports_is_believed_once_it_is_a_twentieth_through() -> None:
    world = running()

    def left(fraction: float) -> float:
        told = Progress(1, fraction, None, None, world.now)
        world.jobs[JobId("train")] = replace(world.jobs[JobId("train")], progress=told, remaining=4.0 * 3600)
        return in_progress(world).committed(world.now, 1.0).left

    assert left(0.5) == pytest.approx(16.0)
    assert left(0.01) == pytest.approx(48.0)


def test_a_job_that_was_told_to_stop_costs_its_gpus_until_its_run_is_on_record() -> None:
    world = running()
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    world.jobs[job.id] = replace(job, allocation=None, replaced=(job.allocation,))
    world.passes(1800.0)
    assert in_progress(world).spent(world.now) == pytest.approx(40.0)
    world.stops("train")
    assert in_progress(world).spent(world.now) == pytest.approx(40.0)


def test_a_job_that_waits_for_other_gpus_still_counts_in_kappa_and_is_no_commitment() -> None:
    world = running()
    before = in_progress(world).committed(world.now, 1.0)
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    world.jobs[job.id] = replace(job, allocation=None, replaced=(job.allocation,))
    stopped = in_progress(world).committed(world.now, 1.0)
    assert (stopped.jobs, stopped.predicted, stopped.actual) == (before.jobs, before.predicted, before.actual)
    assert before.left == pytest.approx(48.0)
    assert stopped.left == 0.0


def test_nodes_that_no_job_held_make_every_dollar_dearer() -> None:
    world = running()
    budget = next(iter(world.budgets.values()))
    known = plan_inputs(world.snapshot(), Memo())
    blocks = known.rentals.by_pool.values()
    found = calibrate(budget, known.groups[budget.id].values(), blocks, Money.parse("96"), Price.parse("80"), world.now)
    assert found.overhead == pytest.approx((96 + 240) / (32 + 240))
    assert found.factor(SFT) == pytest.approx(found.of(SFT).value * found.overhead)
    assert (found.rate * 3600, found.left) == pytest.approx((16.0, 48.0))


@pytest.mark.parametrize(("paid", "measured"), [("0", False), ("3.91", False), ("241", True)])
def test_the_overhead_is_measured_once_more_was_paid_than_is_assumed(paid: str, measured: bool) -> None:
    world = running()
    (budget,) = world.budgets.values()
    known = plan_inputs(world.snapshot(), Memo())
    blocks = known.rentals.by_pool.values()
    found = calibrate(budget, known.groups[budget.id].values(), blocks, Money.parse(paid), Price.parse("80"), world.now)
    assert found.overhead_measured is measured


def test_idle_hours_of_committed_nodes_are_no_overhead_of_the_jobs_elsewhere() -> None:
    """A month of two committed nodes, of which a third was idle, beside jobs that held 80 of 100 dollars."""
    world = running()
    budget = next(iter(world.budgets.values()))
    known = plan_inputs(world.snapshot(), Memo())
    reserved, plain = PoolId("reserved"), PoolId("a100")
    spent_on = {
        (reserved, Cause.JOB): Money.parse("14000"),
        (reserved, Cause.IDLE): Money.parse("7000"),
        (plain, Cause.JOB): Money.parse("768"),
        (plain, Cause.IDLE): Money.parse("200"),
    }
    assert budget.balance is not None
    balance = replace(budget.balance, jobs_cost=Money.parse("14768"), costs=Costs(by_pool=spent_on))
    paid = Money.parse("22000")
    found = calibrate(
        replace(budget, balance=balance),
        known.groups[budget.id].values(),
        known.rentals.by_pool.values(),
        paid,
        Price.parse("80"),
        world.now,
        frozenset([reserved]),
    )
    assert found.overhead == pytest.approx((1000 + 240) / (800 + 240))


def test_a_class_that_cost_twice_as_much_is_given_less() -> None:
    def given_gpus(actual: float) -> int:
        world = World()
        budget = world.budget(amount="40000")
        world.pool()
        world.profile("sft", Amdahl(0.99, 1.0), work_hours=20, arrivals_per_hour=2.0)
        world.job("train", gpus=(1, 8, 64), profile="sft")
        known = ClassHistory(100.0, 10_000.0, actual, 10_000.0, after(world.now, -1e6), world.now)
        assert budget.balance is not None
        world.budgets[budget.id] = replace(budget, balance=replace(budget.balance, class_history={SFT: known}))
        verdict = plan(world.snapshot()).jobs[JobId("train")]
        assert verdict.option is not None
        return verdict.option.gpus

    assert given_gpus(20_000.0) < given_gpus(10_000.0)


def test_a_prediction_is_written_with_the_first_allocation_only() -> None:
    world = World()
    world.budget()
    world.pool()
    world.profile("sft", Amdahl(0.9, 1.0), work_hours=10)
    world.job("train", gpus=8, profile="sft")
    world.rental()
    world.carry_out(plan(world.snapshot()))
    job = world.jobs[JobId("train")]
    assert job.allocation is not None
    option = job.allocation.option
    expected = option.price.dollars_per_second * 36_000 / option.speed + option.entry_cost.dollars
    assert job.predicted is not None
    assert job.predicted.dollars == pytest.approx(expected, rel=1e-6)
