"""The reports of an interactive job's worker: when cells ran, since when none does, and how long starts take."""

from __future__ import annotations

import pytest

from charterer.domain.ids import JobId
from charterer.domain.interactive import Usage
from charterer.domain.reports import Progress
from charterer.domain.time import Instant, after
from charterer.server.listener import Refused
from charterer.server.progress import ProgressBoard, ProgressReport, SessionOfRun

JOB = JobId("nb")
START = Instant(1_700_000_000_000_000)


def at(seconds: float) -> Instant:
    return after(START, seconds)


class Worker:
    """The worker of one run, given its GPUs at ``since``; the board hears it."""

    def __init__(self, board: ProgressBoard, run: int = 1, *, asks: int = 1, since: float = 0.0) -> None:
        self.board, self.run, self.asks, self.since = board, run, asks, since

    def says(self, seconds: float, *, busy: bool | None) -> Progress:
        session = SessionOfRun(self.asks, at(self.since))
        self.board.report(JOB, self.run, ProgressReport(run=self.run, busy=busy), at(seconds), session=session)
        found = self.board.latest(JOB)
        assert found is not None
        return found

    def used(self, seconds: float, *, busy: bool | None) -> Usage:
        found = self.says(seconds, busy=busy).usage
        assert found is not None
        return found


def test_seconds_count_for_what_the_worker_said_before_them() -> None:
    worker = Worker(ProgressBoard())
    worker.says(30, busy=False)
    worker.says(40, busy=True)
    worker.says(100, busy=True)
    assert worker.used(130, busy=False) == Usage(1, at(130), busy_seconds=90.0, idle_seconds=10.0, start_seconds=30.0)


def test_idle_is_since_when_no_cell_runs_and_not_since_the_last_report() -> None:
    worker = Worker(ProgressBoard())
    assert worker.used(30, busy=False).idle_since == at(30)
    assert worker.used(40, busy=False).idle_since == at(30)
    assert worker.used(50, busy=True).idle_since is None
    assert worker.used(60, busy=False).idle_since == at(60)


def test_an_ask_ends_an_idle_time_since_a_cell_is_about_to_come() -> None:
    worker = Worker(ProgressBoard())
    worker.says(30, busy=False)
    worker.asks = 2
    assert worker.used(90, busy=False) == Usage(2, at(90), 0.0, 60.0, 30.0)


def test_a_run_begins_anew_and_the_sums_go_on() -> None:
    board = ProgressBoard()
    first = Worker(board)
    first.says(30, busy=True)
    first.says(130, busy=False)
    second = Worker(board, 2, asks=2, since=1000.0)
    assert second.used(1050, busy=False) == Usage(2, at(1050), 100.0, 0.0, 30.0 + 0.25 * 20.0)


def test_a_worker_that_never_says_whether_a_cell_runs_is_never_idle() -> None:
    board = ProgressBoard()
    board.report(JOB, 1, ProgressReport(step=3), at(5), session=SessionOfRun(1, at(0)))
    found = board.latest(JOB)
    assert found is not None
    assert (found.busy, found.usage) == (None, None)


def test_of_a_job_that_is_not_interactive_nothing_is_kept() -> None:
    board = ProgressBoard()
    board.report(JOB, 1, ProgressReport(busy=False), at(5))
    found = board.latest(JOB)
    assert found is not None
    assert found.usage is None


def test_a_new_process_goes_on_with_the_sums_and_counts_idle_time_from_when_it_began() -> None:
    board = ProgressBoard()
    board.adopt(
        JOB, Progress(1, None, None, None, at(100), busy=False, usage=Usage(3, at(50), 7.0, 50.0, 20.0)), at(400)
    )
    found = board.latest(JOB)
    assert found is not None
    assert found.usage == Usage(3, at(400), 7.0, 50.0, 20.0)
    assert Worker(board, asks=3).used(410, busy=False) == Usage(3, at(400), 7.0, 360.0, 20.0)


def test_a_cell_that_begins_or_ends_is_worth_a_write_once_a_minute() -> None:
    board = ProgressBoard()
    worker = Worker(board)
    worker.says(0, busy=False)
    (first,) = board.due(at(0))
    board.flushed(JOB, first[1], at(0))
    worker.says(10, busy=True)
    assert board.due(at(10)) == ()
    assert [progress.busy for _, progress in board.due(at(60))] == [True]


def test_busy_is_true_or_false() -> None:
    with pytest.raises(Refused, match="busy: 1 is not true or false: whether a cell runs"):
        ProgressReport.parse(b'{"busy": 1}')
    assert ProgressReport.parse(b'{"busy": false}').says_something
