"""The hour in the simulator: what a cluster autoscaler does, and how the same money is found."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise

import pytest

from demo.columns import Column, Columns, Parts
from demo.pace import Pace
from demo.scenario import IDLE_SECONDS, ReplayJob, Scenario, an_hour
from demo.simulated import same_money, simulate, simulate_parts
from demo.tables import T4, Application

A100 = "NVIDIA-A100-SXM4-40GB"
LINEAR = Application("cifar10", 1, {T4: ((1, 3600.0), (16, 225.0)), A100: ((1, 1200.0), (16, 75.0))})
HOUR = an_hour(30)
T4_NODE = next(pool for pool in HOUR.pools if pool.name == "t4")


@dataclass(frozen=True)
class Made(Scenario):
    """The demo's scenario with jobs of the test's own."""

    made_jobs: tuple[ReplayJob, ...] = ()

    @cached_property
    def jobs(self) -> tuple[ReplayJob, ...]:
        return self.made_jobs


def made(*jobs: tuple[float, int, float], cloud: str = "fake") -> Made:
    """Jobs as (submitted, asked, work in seconds on one T4)."""
    replayed = tuple(ReplayJob(f"job-{n}", LINEAR, at, work, asked) for n, (at, asked, work) in enumerate(jobs))
    return Made(HOUR.window, HOUR.epochs, HOUR.pace, cloud=cloud, made_jobs=replayed)


def test_a_cluster_autoscaler_gives_each_job_what_was_asked_and_keeps_the_node_for_ten_idle_minutes() -> None:
    of = made((0.0, 4, 3600.0))
    column = simulate(of).autoscaler
    (job,) = column.jobs
    starts = T4_NODE.start_seconds[0]
    over = HOUR.pace.workload_seconds(HOUR.hand_over_seconds)
    assert job.began == pytest.approx(starts + over)
    ended = starts + over + of.restart_seconds + 900.0
    assert job.ended == pytest.approx(ended)
    assert [gpus for _, gpus in job.widths] == [4, 0]
    assert [at for at, _ in job.widths] == pytest.approx([starts, ended])
    assert column.dollars == pytest.approx(T4_NODE.hourly_price * (ended + IDLE_SECONDS) / 3600, rel=0.02)
    assert column.spent[-1][1] == column.dollars


def test_jobs_for_which_the_cheaper_zone_has_no_nodes_run_in_the_dearer_one() -> None:
    columns = simulate(made((0.0, 32, 3600.0), (1.0, 32, 3600.0), cloud="karpenter"))
    assert columns.autoscaler.machines == 16
    assert all(job.ended is not None for job in columns.autoscaler.jobs)


def test_another_date_gives_the_same_figures() -> None:
    """Also in the last hour of a month, where the budget has another time zone."""
    of = made((0.0, 4, 3600.0), (60.0, 8, 1800.0))
    other = datetime(2026, 2, 28, 23, 30, tzinfo=UTC)
    assert simulate(of, now=other).json() == simulate(of).json()


def test_without_spot_nothing_is_taken_back_and_on_todays_hardware_all_run_on_t4() -> None:
    of = made((0.0, 4, 3600.0), (60.0, 8, 1800.0))
    parts = simulate_parts(of, 10.0)
    assert parts is not None
    assert Parts.read(parts.json()).json() == parts.json()
    assert {kind for column in (parts.as_today, parts.as_today_same_money) for kind in kinds(column)} == {T4}
    assert kinds(parts.without_spot) == {A100}
    assert parts.without_spot.dollars > simulate(of).budget.dollars
    assert parts.as_today_same_money.dollars <= 10.0 * 1.01


def kinds(column: Column) -> set[str]:
    return {kind for job in column.jobs for _, kind in job.gpu_types}


def test_where_only_what_today_rents_is_sold_there_are_no_parts() -> None:
    assert simulate_parts(made((0.0, 4, 3600.0), cloud="karpenter"), 10.0) is None


def test_all_three_columns_have_the_same_jobs_and_are_read_back_as_they_were_written() -> None:
    columns = simulate(made((0.0, 4, 3600.0), (60.0, 8, 1800.0)))
    for column in (columns.autoscaler, columns.same_money, columns.budget):
        assert [(job.name, job.submitted) for job in column.jobs] == [("job-0", 0.0), ("job-1", pytest.approx(60.0))]
        assert all(before <= after for (_, before), (_, after) in pairwise(column.spent))
    again = Columns.read(columns.json())
    assert again.json() == columns.json()
    assert again.budget.mean_completion_seconds == columns.budget.mean_completion_seconds


def test_where_today_was_really_run_that_column_takes_the_place_of_the_simulated_one() -> None:
    measured = Column([], 30.0, 3, [], measured="2026-11-22, Karpenter v1.14.0")
    columns = simulate(made((0.0, 4, 3600.0)), Column.of(json.loads(measured.json())))
    assert columns.autoscaler == measured
    assert columns.same_money.dollars <= 30.0 * 1.01


def costing(dollars: float) -> Column:
    return Column([], dollars, 1, [])


def test_the_same_money_is_found_and_never_exceeded_by_more_than_a_hundredth() -> None:
    found = same_money(lambda share: costing(50.0 * share**0.7), costing(50.0), 74.0)
    assert 0.97 * 74.0 <= found.dollars <= 1.01 * 74.0


def test_where_nothing_faster_can_be_bought_the_same_money_is_not_spent() -> None:
    found = same_money(lambda share: costing(min(50.0 * share, 61.0)), costing(50.0), 74.0)
    assert found.dollars == 61.0


def test_less_money_is_found_too() -> None:
    found = same_money(lambda share: costing(50.0 * share), costing(50.0), 20.0)
    assert found.dollars == pytest.approx(20.0, rel=0.01)


def test_the_pace_does_not_change_what_the_autoscaler_costs() -> None:
    slow = made((0.0, 4, 3600.0), (700.0, 8, 3600.0))
    fast = replace(slow, pace=Pace(10), hand_over_seconds=HOUR.pace.workload_seconds(HOUR.hand_over_seconds) / 10)
    one, other = (simulate(of).autoscaler for of in (slow, fast))
    assert one.mean_completion_seconds == pytest.approx(other.mean_completion_seconds, rel=0.01)
    assert one.dollars == pytest.approx(other.dollars, rel=0.05)
