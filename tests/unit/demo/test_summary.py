"""The result: exact about money, and a picture of it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from demo import baseline, picture
from demo.cloud import Bill
from demo.money import micros
from demo.summary import Summary, fastest, rendered, summarise
from tests.unit.demo import samples


def a_summary(ledger: int = 3_500_000, bill: Bill | None = None) -> Summary:
    of = samples.scenario()
    return summarise(
        of,
        samples.replayed(of),
        pod_seconds=40.0,
        asked=baseline.simulate(of),
        ledger_micros=ledger,
        bill=bill or Bill(3_500_000, machines=2, open_lines=0),
        demo_seconds=150.0,
        reports={200: 7, 409: 1},
    )


def complete(summary: Summary) -> Summary:
    return replace(summary, completed=summary.jobs)


def test_only_completed_jobs_count_into_the_mean() -> None:
    assert a_summary().mean_completion_seconds == 1_050.0
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
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(rendered(a_summary(ledger=3_500_001)))
    text = " ".join(console.export_text().split())
    for words in ("1 of 28 jobs completed", "17.5 min", "40 times faster", "1.0 s for a job", "= $0.000001"):
        assert words in text


def test_the_summary_is_there_for_other_programs() -> None:
    assert json.loads(a_summary().json())["bill_micros"] == 3_500_000


def test_narrowed_jobs_are_those_that_never_had_their_fastest_width() -> None:
    of = samples.scenario()
    jobs = samples.replayed(of)
    assert fastest(of, jobs["cifar10-53"]) == 16
    assert fastest(of, jobs["ncf-56"]) == 1
    before = a_summary().narrowed
    jobs["cifar10-53"].widths.append(16)
    after = summarise(
        of,
        jobs,
        pod_seconds=40.0,
        asked=baseline.simulate(of),
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


def test_the_picture_is_drawn_in_both_formats(tmp_path: Path) -> None:
    files = [tmp_path / "demo.png", tmp_path / "demo.svg"]
    picture.draw(samples.scenario(), [samples.a_view()], baseline.simulate(samples.scenario()), files)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files[1].read_bytes()


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        picture.draw(samples.scenario(), [], baseline.simulate(samples.scenario()), [tmp_path / "demo.png"])
