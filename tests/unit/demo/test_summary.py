"""The result: exact about money, and a picture of it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from demo import picture
from demo.cloud import Bill
from demo.columns import Column, ColumnJob, really_run
from demo.comparison import Simulated
from demo.money import micros
from demo.summary import Summary, fastest, jobs_csv, rendered, summarise
from demo.view import View
from tests.picture_text import unreadable, written_figures
from tests.unit.demo import samples


def a_summary(ledger: int = 3_500_000, bill: Bill | None = None) -> Summary:
    of = samples.scenario()
    return summarise(
        of,
        samples.replayed(of),
        simulated=Simulated(of, samples.columns(of)),
        run=really_run(samples.replayed(of), [(0.0, 0.0)], 61.5, 22),
        cloud="the fake cloud",
        ledger_micros=ledger,
        bill=bill or Bill(3_500_000, machines=2, open_lines=0),
        demo_seconds=150.0,
        reports={200: 7, 409: 1},
    )


def complete(summary: Summary) -> Summary:
    return replace(summary, completed=summary.jobs)


def test_only_completed_jobs_count_into_the_mean() -> None:
    assert a_summary().run.mean_completion_seconds == 1_050.0
    assert a_summary().completed == 1


def test_a_demo_whose_jobs_did_not_all_complete_has_failed() -> None:
    assert not a_summary().succeeded
    assert complete(a_summary()).succeeded


def test_one_micro_dollar_between_ledger_and_bill_is_a_failure() -> None:
    off = complete(a_summary(ledger=3_500_001))
    assert off.difference_micros == 1
    assert not off.succeeded


def test_a_machine_that_is_still_billed_is_a_failure() -> None:
    assert not complete(a_summary(bill=Bill(3_500_000, machines=2, open_lines=1))).succeeded


def test_the_summary_says_what_the_numbers_are() -> None:
    text = printed(a_summary(ledger=3_500_001))
    for words in (
        "1 of 28 jobs completed",
        "today Charterer really run difference no more money",
        "mean completion 20.0 min 17.0 min 17.5 min +2.9% 16.0 min",
        "spent $80.00 $60.00 $61.50 +2.5% $79.50",
        "machines rented 20 20 22 +2 20",
        "budget for the hour no budget $13.88 $13.88",
        "40 times faster",
        "No machine was real and nothing was paid: prices were 40 times as high as the workload's",
        "= $0.000001",
    ):
        assert words in text


def test_where_today_was_really_run_the_summary_says_when_and_on_what() -> None:
    told = "2026-11-22, Karpenter v1.14.0"
    text = printed(replace(a_summary(), today=told, cloud="Karpenter"))
    assert "Today: plain Jobs on a NodePool of Karpenter with its defaults, each with the GPUs" in text
    assert f"really run ({told})" in text
    assert "with nodes of Karpenter." in text
    assert "a cluster autoscaler" not in text


def test_a_bill_that_is_not_the_clouds_own_is_named_and_shown_beside_what_the_machines_cost() -> None:
    bill = Bill(3_500_000, machines=2, open_lines=0, made_of="the sum over the claims", metered_micros=3_450_000)
    text = printed(a_summary(bill=bill))
    assert "the sum over the claims $3.500000 for" in text
    assert "from launch to end the machines cost $3.45" in text


def test_a_job_that_got_gpus_again_was_stopped_or_moved() -> None:
    jobs = [
        ColumnJob("once", 0.0, 10.0, 90.0, [(10.0, 4), (90.0, 0)]),
        ColumnJob("stopped", 0.0, 10.0, 90.0, [(10.0, 4), (20.0, 0), (30.0, 4), (90.0, 0)]),
        ColumnJob("moved", 0.0, 10.0, 90.0, [(10.0, 4), (20.0, 8), (30.0, 4), (90.0, 0)]),
        ColumnJob("waits", 0.0, None, None, []),
    ]
    assert Column(jobs, 1.0, 1, []).interruptions == 3


def printed(summary: Summary) -> str:
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(rendered(summary))
    return " ".join(console.export_text().split())


def test_the_headline_compares_simulated_columns_whatever_the_machine_made_of_the_real_run() -> None:
    told = (
        "With A100 and spot too, jobs cost 25% less than today and end 15% earlier; "
        "for no more money they end 20% earlier"
    )
    summary = a_summary()
    slow = replace(summary, run=replace(summary.run, mean_completion_seconds=1_530.0))
    assert summary.headline == slow.headline == told
    assert summary.reality == "Really run here: 17.5 min and $61.50, 23% less than today; jobs ended 12% earlier."
    assert "jobs ended 27% later. Jobs took 50% longer than simulated" in slow.reality
    assert "this machine was slow or busy" in slow.reality


def test_the_numbers_of_each_job_are_there_for_all_columns() -> None:
    of = samples.scenario()
    first, job, *_ = jobs_csv(samples.replayed(of), samples.columns(of)).splitlines()
    assert first.startswith("job,submitted,began,completed,gpus,asked_gpus,autoscaler_began,autoscaler_completed,")
    assert job.startswith("yolov3-52,60,200,1110,4,4,")
    assert len(job.split(",")) == len(first.split(","))


def test_a_job_waits_until_it_has_gpus_and_again_between_its_runs() -> None:
    job = ColumnJob("a", 10.0, 20.0, 95.0, [(20.0, 4), (40.0, 0), (50.0, 8), (90.0, 0)])
    assert list(picture.stretches(job, 100.0)) == [(10.0, 20.0, 0), (20.0, 40.0, 4), (40.0, 50.0, 0), (50.0, 90.0, 8)]
    waiting = ColumnJob("b", 10.0, None, None, [])
    assert list(picture.stretches(waiting, 100.0)) == [(10.0, 100.0, 0)]


def test_the_summary_is_there_for_other_programs() -> None:
    assert json.loads(a_summary().json())["bill_micros"] == 3_500_000


def test_narrowed_jobs_are_those_that_never_had_their_fastest_width() -> None:
    of = samples.scenario()
    jobs = samples.replayed(of)
    assert fastest(of, jobs["cifar10-53"]) == 16
    assert fastest(of, jobs["ncf-56"]) == 1
    assert fastest(of, jobs["yolov3-52"]) == 16
    before = a_summary().narrowed
    jobs["cifar10-53"].widths.append(16)
    after = summarise(
        of,
        jobs,
        simulated=Simulated(of, samples.columns(of)),
        run=really_run(jobs, [(0.0, 0.0)], 61.5, 22),
        cloud="the fake cloud",
        ledger_micros=0,
        bill=Bill(0, 0, 0),
        demo_seconds=1.0,
        reports={},
    ).narrowed
    assert after == before - 1


def test_dollars_finer_than_a_micro_dollar_are_refused() -> None:
    assert micros("12.345678") == 12_345_678
    with pytest.raises(ValueError, match="micro-dollars"):
        micros("0.0000001")


def drawn(files: list[Path], views: list[View]) -> None:
    of = samples.scenario()
    real = really_run(samples.replayed(of), [(view.at, view.money.spent) for view in views], 61.5, 22)
    picture.draw(of, samples.columns(of), picture.Run(real, views), "What to remember", files)


def test_the_picture_has_a_row_for_each_job_in_both_formats_and_its_words_are_text(tmp_path: Path) -> None:
    files = [tmp_path / "demo.png", tmp_path / "demo.svg"]
    drawn(files, [samples.a_view()])
    assert files[0].read_bytes().startswith(b"\x89PNG")
    shown = files[1].read_text()
    for words in (
        "What to remember",
        "imagenet-79",
        "Charterer, up to $6 per hour saved (really run)",
        "20.0 min",
        "$80.00 in all",
    ):
        assert words in shown


def test_before_the_real_run_the_picture_says_that_all_columns_are_simulated(tmp_path: Path) -> None:
    of, files = samples.scenario(), [tmp_path / "demo.png", tmp_path / "demo.svg"]
    picture.draw(of, samples.columns(of), None, "What to remember", files)
    shown = files[1].read_text()
    assert shown.count("(simulated)") == 3
    assert "really run" not in shown
    assert "the same, simulated" not in shown
    with Image.open(files[0]) as image:
        assert image.info["Title"] == "What to remember"


def test_every_word_of_the_picture_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = written_figures(monkeypatch)
    drawn([Path("demo.png")], [samples.a_view()])
    assert [unreadable(figure) for figure in figures] == [[]]


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        drawn([tmp_path / "demo.png"], [])
