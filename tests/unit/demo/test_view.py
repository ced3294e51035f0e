"""What the table shows of what was seen."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from demo.live import Screen, line, rendered
from demo.pace import Pace
from demo.pods import RunningRun
from demo.tables import T4
from demo.view import metric, view
from tests.unit.demo import samples

A100 = "NVIDIA-A100-SXM4-40GB"


def test_a_metric_is_found_by_its_labels() -> None:
    assert metric(samples.METRICS, "charterer_pool_gpus", state="idle") == 4.0
    assert metric(samples.METRICS, "charterer_pool_gpus", state="starting") is None
    assert metric("", "charterer_pool_gpus") is None


def test_the_exchange_rate_is_shown_for_an_hour_of_the_workload() -> None:
    assert samples.a_view().money.pays == pytest.approx(184.0 / 40)


def test_a_job_that_trains_shows_how_long_it_still_needs() -> None:
    of = samples.scenario()
    job = samples.replayed(of)["cifar10-53"].job
    row = next(row for row in samples.a_view().jobs if row.name == job.name)
    assert row.left == pytest.approx(630.0 + job.seconds(4) - 1_200.0)
    assert row.fraction == pytest.approx(570.0 / job.seconds(4))
    assert row.waited == pytest.approx(750.0)


def test_a_complete_job_stops_waiting() -> None:
    row = next(row for row in samples.a_view().jobs if row.name == "yolov3-52")
    assert (row.waited, row.left) == (1_050.0, None)


def test_only_machines_that_have_not_ended_are_rented() -> None:
    seen = samples.a_view()
    assert (seen.rented_gpus, seen.money.hourly) == (4, 3.912)


def test_decisions_are_events_about_our_own_kinds_in_the_order_of_their_times() -> None:
    assert [decision.reason for decision in samples.a_view().decisions] == ["Finished", "BudgetOptimal"]


def test_the_table_says_who_has_what_and_why() -> None:
    console = Console(file=io.StringIO(), width=140, height=50, record=True)
    console.print(rendered(samples.a_view(), 40, 50))
    text = console.export_text()
    for words in ("minute 20", "$3.50 spent", "$15.00 allowed", "pays up to $4.60 per job-hour saved", "cifar10-53"):
        assert words in text
    assert "a second saved costs $0.0012" in text
    assert "Cooling (StockOut)" in text
    assert re.search(r"[━─] +\d+%", text)
    assert "took 18 min" in text
    assert "12 min ago" in text


def test_before_there_are_jobs_nothing_is_said_of_what_an_hour_is_worth() -> None:
    view = samples.a_view()
    assert "pays up to $4.60 per job-hour saved" in line(view)
    assert "pays up to" not in line(replace(view, money=replace(view.money, pays=0.0)))


def test_what_a_job_costs_so_far_is_at_least_its_gpu_time_in_the_cheapest_pool() -> None:
    rows = {row.name: row for row in samples.a_view().jobs}
    assert rows["cifar10-53"].dollars == 0.6, "the operator's record is higher"
    of, held = samples.scenario(), 4 * 600
    cheapest = min(pool.hourly_price / pool.gpus_per_node for pool in of.pools)
    jobs = samples.replayed(of)
    told = view(of, jobs, 1_200.0, replace(samples.seen(), jobs=[samples.training_job("cifar10-53", cost="0.00")]))
    assert told.jobs[0].dollars == pytest.approx(held * cheapest / 3600)


def test_a_job_whose_pods_never_ran_has_held_no_gpus() -> None:
    jobs = samples.replayed(samples.scenario())
    assert jobs["ncf-56"].gpu_seconds(1_200.0) == 0.0
    assert jobs["yolov3-52"].gpu_seconds(1_200.0) == 4 * 910.0


def test_what_a_job_held_and_when_is_kept_over_its_runs() -> None:
    job = samples.replayed(samples.scenario())["bert-72"]
    job.follow(RunningRun(1, 4), 5.0, 30.0)
    assert job.held == [], "it is not known yet where the run is"
    job.gpu_types = {1: T4, 2: T4, 3: A100}
    for at, running in ((10.0, None), (20.0, RunningRun(1, 4)), (30.0, RunningRun(1, 4)), (40.0, None)):
        job.follow(running, at, 30.0)
    job.follow(RunningRun(2, 8), 50.0, 30.0)
    job.follow(RunningRun(3, 16), 60.0, 30.0)
    assert job.held == [(20.0, 4), (40.0, 0), (50.0, 8), (60.0, 0), (60.0, 16)]
    assert (job.began, job.widths) == (20.0, [4, 8, 16])
    assert job.types == [(20.0, T4), (50.0, T4), (60.0, A100)]
    assert job.training.current is not None
    assert job.training.current.speed == job.job.application.speedup(16, A100)
    assert job.gpu_seconds(70.0) == 4 * 20.0 + 8 * 10.0 + 16 * 10.0


def test_training_since_the_last_checkpoint_is_repeated_when_a_pod_is_disrupted_and_only_then() -> None:
    job = samples.replayed(samples.scenario())["yolov3-59"]
    job.gpu_types = {1: T4}
    condition = {"type": "DisruptionTarget", "status": "True"}
    evicted = {"metadata": {"labels": {"charterer.dev/run": "1"}}, "status": {"conditions": [condition]}}
    job.follow(RunningRun(1, 4), 0.0, 30.0)
    job.follow(None, 100.0, 30.0)
    assert job.repeated == 0.0
    job.follow(RunningRun(1, 4), 200.0, 30.0)
    job.pods = [evicted]
    job.follow(None, 200.0 + 30.0 + 300.0 + 120.0, 30.0)
    assert job.repeated == pytest.approx(120.0)


def test_messages_of_the_operator_are_told_in_the_times_and_rates_of_the_workload() -> None:
    told = Pace(30).told(
        "16 GPUs on t4-a would save 10 s for $1.20; pays up to $3,000.00 per job-hour saved, $120/h now"
    )
    assert told == "16 GPUs on t4-a would save 5 min for $1.20; pays up to $100.00 per job-hour saved, $4.00/h now"
    told = Pace(30).told(
        "4 GPUs on t4-a: 82 s for $2.66; 16 GPUs on t4-a would save 14 s for $6.12, $1,534.80 per hour saved, budget "
        "pays up to $585.30; t4-a is full, so a GPU-hour there counts $3.00 more than its bill"
    )
    assert told == (
        "4 GPUs on t4-a: 41 min for $2.66; 16 GPUs on t4-a would save 7 min for $6.12, $51.16 per hour saved, budget "
        "pays up to $19.51; t4-a is full, so a GPU-hour there counts $0.10 more than its bill"
    )


def test_a_low_terminal_shows_the_jobs_that_are_not_over_first() -> None:
    console = Console(file=io.StringIO(), width=140, record=True)
    console.print(rendered(samples.a_view(), 40, 10))
    text = console.export_text()
    assert text.index("cifar10-53") < text.index("yolov3-52")


def test_without_a_terminal_there_is_one_line_at_first_and_not_one_for_every_look() -> None:
    out = io.StringIO()
    with Screen(Console(file=out, width=300), 40) as screen:
        screen.show(samples.a_view())
        screen.show(samples.a_view())
    assert out.getvalue() == line(samples.a_view()) + "\n"
    assert "1 complete, 1 running, 0 waiting, 26 to come; nodes: t4 2, t4-spot 0; GPUs in use 0/4" in out.getvalue()
