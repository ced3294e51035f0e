"""Progress is kept in memory and is due for status rarely: a minute after the last time if it moved, or at the end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from charterer.domain.ids import JobId
from charterer.domain.reports import Progress
from charterer.domain.time import Instant, after
from charterer.server.progress import ProgressBoard, ProgressReport

JOB = JobId("a")
START = Instant(1_700_000_000_000_000)


def at(seconds: float) -> Instant:
    return after(START, seconds)


def flush(board: ProgressBoard, seconds: float) -> tuple[Progress, ...]:
    due = board.due(at(seconds))
    for job, progress in due:
        board.flushed(job, progress, at(seconds))
    return tuple(progress for _, progress in due)


def test_the_first_report_of_a_job_is_due_at_once() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.1, step=10, throughput=5.0), at(0))
    assert flush(board, 0) == (Progress(run=2, fraction=0.1, step=10, throughput=5.0, at=at(0)),)
    assert flush(board, 100) == ()


def test_a_job_is_due_at_most_once_a_minute() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.1), at(0))
    flush(board, 0)
    board.report(JOB, 2, ProgressReport(fraction=0.5), at(30))
    assert flush(board, 59) == ()
    assert [progress.fraction for progress in flush(board, 60)] == [0.5]


def test_a_small_change_is_not_worth_a_write_until_it_adds_up() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.100), at(0))
    flush(board, 0)
    board.report(JOB, 2, ProgressReport(fraction=0.105), at(100))
    assert flush(board, 100) == ()
    board.report(JOB, 2, ProgressReport(fraction=0.111), at(200))
    assert len(flush(board, 200)) == 1


def test_a_tenth_of_the_throughput_is_noticeable() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(throughput=100.0), at(0))
    flush(board, 0)
    board.report(JOB, 2, ProgressReport(throughput=95.0), at(100))
    assert flush(board, 100) == ()
    board.report(JOB, 2, ProgressReport(throughput=80.0), at(200))
    assert len(flush(board, 200)) == 1


def test_reaching_the_end_is_noticed() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.995), at(0))
    flush(board, 0)
    board.report(JOB, 2, ProgressReport(fraction=1.0), at(61))
    assert len(flush(board, 61)) == 1


def test_falling_back_to_a_checkpoint_is_accepted() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.5), at(0))
    board.report(JOB, 2, ProgressReport(fraction=0.4), at(1))
    latest = board.latest(JOB)
    assert latest is not None
    assert latest.fraction == 0.4


def test_what_a_report_leaves_out_keeps_its_value_within_the_run_only() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(fraction=0.5, throughput=100.0), at(0))
    board.report(JOB, 2, ProgressReport(fraction=0.6), at(1))
    assert board.latest(JOB) == Progress(run=2, fraction=0.6, step=None, throughput=100.0, at=at(1), reached=0.5)
    board.report(JOB, 3, ProgressReport(fraction=0.6), at(2))
    assert board.latest(JOB) == Progress(run=3, fraction=0.6, step=None, throughput=None, at=at(2), reached=0.6)


def test_only_index_0_speaks_for_the_run() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(index=1, fraction=0.9), at(0))
    board.report(JOB, 2, ProgressReport(index=0), at(0))
    assert board.latest(JOB) is None


def test_jobs_that_are_gone_are_forgotten() -> None:
    board = ProgressBoard()
    for name in "abc":
        board.report(JobId(name), 1, ProgressReport(fraction=0.5), at(0))
    board.retain({JobId("b")})
    assert [job for job, _ in board.due(at(0))] == [JobId("b")]


reports = st.builds(
    ProgressReport,
    index=st.integers(0, 1),
    fraction=st.none() | st.floats(0, 1),
    step=st.none() | st.integers(0, 1000),
    throughput=st.none() | st.floats(0, 1000),
)


@given(st.lists(st.tuples(reports, st.integers(1, 3), st.floats(0.1, 50)), max_size=60))
def test_without_run_ends_writes_of_a_job_are_a_minute_apart_and_never_repeat_themselves(
    steps: list[tuple[ProgressReport, int, float]],
) -> None:
    board, now = ProgressBoard(), 0.0
    writes: list[tuple[float, Progress]] = []
    for report, run, pause in steps:
        now += pause
        board.report(JOB, run, report, at(now))
        writes.extend((now, progress) for progress in flush(board, now))
    for (earlier, old), (later, new) in pairwise(writes):
        assert later - earlier >= 60 - 1e-5
        assert old != new


@given(st.lists(st.tuples(reports, st.integers(1, 3)), min_size=1, max_size=30))
def test_the_latest_is_what_was_said_last_of_each_number(said: list[tuple[ProgressReport, int]]) -> None:
    board = ProgressBoard()
    for second, (report, run) in enumerate(said):
        board.report(JOB, run, report, at(second))
    spoken = [(report, run) for report, run in said if report.index == 0 and report.says_something]
    latest = board.latest(JOB)
    if not spoken:
        assert latest is None
        return
    assert latest is not None
    assert latest.run == spoken[-1][1]
    if spoken[-1][0].done is not None:
        assert latest.fraction == spoken[-1][0].done


def advances(board: ProgressBoard) -> tuple[Instant | None, float]:
    latest = board.latest(JOB)
    assert latest is not None
    return latest.advanced, latest.longest_pause


def test_a_run_advances_when_its_step_or_its_fraction_moves_in_either_direction() -> None:
    board = ProgressBoard()
    for seconds, report in (
        (0, ProgressReport(step=5)),
        (10, ProgressReport(step=5)),
        (30, ProgressReport(step=6, fraction=1.0)),
        (40, ProgressReport(step=6, fraction=0.2)),
        (50, ProgressReport(throughput=3.0)),
        (60, ProgressReport()),
    ):
        board.report(JOB, 2, report, at(seconds))
    assert advances(board) == (at(40), 30.0)


def test_a_job_that_reports_neither_step_nor_fraction_never_advances() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(throughput=3.0), at(0))
    assert advances(board) == (None, 0.0)
    board.report(JOB, 2, ProgressReport(step=1), at(10))
    board.report(JOB, 2, ProgressReport(step=2), at(20))
    assert advances(board) == (at(20), 10.0)
    latest = board.latest(JOB)
    assert latest is not None
    assert latest.advances == 1


def test_the_longest_pause_is_of_the_job_and_never_lies_between_two_runs() -> None:
    board = ProgressBoard()
    board.report(JOB, 2, ProgressReport(step=5), at(0))
    board.report(JOB, 2, ProgressReport(step=6), at(70))
    board.report(JOB, 3, ProgressReport(step=6), at(1000))
    assert advances(board) == (at(1000), 70.0)
    board.report(JOB, 3, ProgressReport(step=7), at(1020))
    assert advances(board) == (at(1020), 70.0)


def test_how_far_the_job_was_before_is_of_all_its_runs() -> None:
    board = ProgressBoard()

    def behind(run: int, report: ProgressReport, seconds: float) -> bool:
        board.report(JOB, run, report, at(seconds))
        latest = board.latest(JOB)
        assert latest is not None
        return latest.behind

    assert not behind(1, ProgressReport(fraction=0.2, step=200), 0)
    assert not behind(1, ProgressReport(fraction=0.5, step=500), 10)
    assert behind(2, ProgressReport(fraction=0.4, step=400), 100)
    assert behind(2, ProgressReport(fraction=0.49, step=490), 110)
    assert not behind(2, ProgressReport(fraction=0.5, step=500), 120)
    assert behind(2, ProgressReport(fraction=0.45, step=450), 130), "its group fell back to a checkpoint"


def test_a_new_process_counts_from_when_it_reads_what_the_last_one_wrote() -> None:
    board, recorded = ProgressBoard(), Progress(2, 0.1, 5, None, at(0))
    board.adopt(JOB, recorded, at(500))
    assert advances(board) == (at(500), 0.0)
    assert flush(board, 1000) == ()
    board.adopt(JOB, recorded, at(900))
    board.report(JOB, 2, ProgressReport(step=5), at(950))
    assert advances(board) == (at(500), 0.0)
    board.report(JOB, 2, ProgressReport(step=6), at(960))
    assert advances(board) == (at(960), 460.0)
