"""What the table shows of what was seen."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo.live import Screen, line, rendered
from demo.view import metric
from tests.unit.demo import samples


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
    for words in ("minute 20", "$3.50 spent", "$20.00 allowed", "pays up to $4.60 per job-hour saved", "cifar10-53"):
        assert words in text
    assert "a second saved costs $0.0012" in text
    assert "Cooling" in text


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
    assert "1 complete, 1 running, 0 waiting, 26 to come; nodes: t4-a 2, t4-b 0; GPUs in use 0/4" in out.getvalue()
