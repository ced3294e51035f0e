"""Sessions of interactive jobs: what is recorded of their use, and which ask is answered when one is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.domain.interactive import Interactive, Usage
from charterer.domain.job import Job, RunOutcome, RunRecord
from charterer.domain.job_records import ends_session, idle_since, with_report, with_run_given, with_session_over
from charterer.domain.money import Money
from charterer.domain.reports import Progress
from tests.factory import allocation, at, job

HERE = allocation("a100-1")
"""Four GPUs at $19.80 an hour."""
RECORD = RunRecord(1, RunOutcome.STOPPED, HERE.option, HERE.placements, at(0), at(100), "")


def session(progress: Progress | None = None, *, asks: int, answered: int = 0) -> Job:
    return job(allocation=HERE, last_run=1, progress=progress, interactive=Interactive(asks, answered=answered))


def report(seconds: float, usage: Usage, run: int = 1) -> Progress:
    return Progress(run, None, None, None, at(seconds), busy=usage.idle_since is None, usage=usage)


def told(of: Job) -> Interactive:
    assert of.interactive is not None
    return of.interactive


def test_dollars_of_a_report_are_those_of_the_seconds_since_the_one_on_record() -> None:
    first = with_report(session(asks=1), report(100, Usage(1, at(90), 60.0, 30.0)))
    assert (told(first).busy_cost, told(first).idle_cost) == (Money.parse("0.33"), Money.parse("0.165"))
    again = with_report(first, report(100, Usage(1, at(90), 60.0, 30.0)))
    assert told(again) == told(first)
    later = with_report(first, report(500, Usage(2, None, 360.0, 30.0)))
    assert (told(later).busy_cost, told(later).idle_cost, told(later).served) == (
        Money.parse("1.98"),
        Money.parse("0.165"),
        2,
    )


def test_a_report_of_a_run_that_is_on_record_costs_nothing_more() -> None:
    late = with_report(replace(session(asks=1), allocation=None), report(100, Usage(1, None, 60.0, 30.0)))
    assert told(late).busy_cost == Money(0)


def test_a_run_is_there_for_all_asks_until_then_and_its_end_answers_no_later_one() -> None:
    given = with_run_given(session(asks=4, answered=1))
    later = replace(given, interactive=replace(told(given), asks=6))
    over = with_session_over(later)
    assert (told(over).answered, told(over).wants_gpus) == (4, True)
    assert told(with_session_over(given)).wants_gpus is False


def test_what_an_earlier_run_said_is_not_said_of_this_one() -> None:
    usage = Usage(1, at(50), 0.0, 0.0)
    assert idle_since(session(report(60, usage), asks=1)) == at(50)
    assert idle_since(session(report(60, usage, run=0), asks=1)) is None


@pytest.mark.parametrize(
    ("outcome", "idle", "over"),
    [
        (RunOutcome.STOPPED, False, True),
        (RunOutcome.INTERRUPTED, True, True),
        (RunOutcome.INTERRUPTED, False, False),
        (RunOutcome.FAILED, True, False),
        (RunOutcome.NOT_STARTED, False, False),
    ],
)
def test_which_end_of_a_run_ends_its_session(outcome: RunOutcome, idle: bool, over: bool) -> None:
    usage = Usage(1, at(50) if idle else None, 0.0, 0.0)
    running = session(report(60, usage), asks=1)
    assert ends_session(running, replace(RECORD, outcome=outcome)) is over
    assert ends_session(replace(running, interactive=None), replace(RECORD, outcome=outcome)) is False
    assert ends_session(running, replace(RECORD, outcome=outcome, number=0)) is False
