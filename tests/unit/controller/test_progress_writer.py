"""When a job's progress is written into its status, and what happens when it cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from charterer.cluster.errors import Invalid, Unreachable
from charterer.controller.execute import ExecutionContext, Stale
from charterer.controller.progress_writer import ProgressWriter
from charterer.domain.ids import JobId, StepKey, StepKind
from charterer.domain.job import Job
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.server.progress import ProgressBoard, ProgressReport
from tests.factory.jobs import job
from tests.factory.snapshots import snapshot
from tests.virtual_time import clock, run_for, run_in_virtual_time

SFT, DPO = job("sft"), job("dpo")


def now() -> Instant:
    return Instant(round(clock() * 1e6))


class Office:
    """A progress writer with its board. It plays the store and the API server: what is recorded, and what fails."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {each.id: each for each in jobs}
        self.written: list[tuple[str, float | None]] = []
        self.fails: dict[JobId, Exception] = {}
        self.tried = 0
        self.in_flight: set[StepKey] = set()
        self.board = ProgressBoard(flush_seconds=60.0)
        context = SimpleNamespace(decided=self, objects=self, now=now)
        self.writer = ProgressWriter(self.board, cast(ExecutionContext, context), self.in_flight)

    def snapshot(self) -> Snapshot:
        return snapshot(*self.jobs.values())

    def job(self, name: JobId) -> Job:
        return self.jobs[name]

    async def record_job(self, recorded: Job) -> None:
        self.tried += 1
        if recorded.id in self.fails:
            raise self.fails[recorded.id]
        assert recorded.progress is not None
        self.written.append((recorded.name, recorded.progress.fraction))

    def reports(self, of: Job, fraction: float) -> None:
        self.board.report(of.id, 1, ProgressReport(fraction=fraction), now())

    async def works(self, seconds: float) -> list[tuple[str, float | None]]:
        """The writer runs for that long; what it wrote meanwhile."""
        before = len(self.written)
        await run_for(seconds, self.writer.run())
        return self.written[before:]


def at_the_office(scene: Callable[[Office], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scene(Office(SFT, DPO))

    run_in_virtual_time(main())


def test_a_first_report_is_written_within_seconds_and_later_ones_once_a_minute() -> None:
    async def scene(office: Office) -> None:
        office.reports(SFT, 0.1)
        assert await office.works(6.0) == [("sft", 0.1)]
        office.reports(SFT, 0.3)
        assert await office.works(40.0) == []
        office.reports(SFT, 0.5)
        assert await office.works(30.0) == [("sft", 0.5)]

    at_the_office(scene)


def test_a_job_with_a_mutation_in_flight_is_written_after_it() -> None:
    async def scene(office: Office) -> None:
        office.in_flight.add(StepKey(StepKind.JOB, SFT.id))
        office.reports(SFT, 0.1)
        office.reports(DPO, 0.2)
        assert await office.works(6.0) == [("dpo", 0.2)]
        office.in_flight.clear()
        assert await office.works(6.0) == [("sft", 0.1)]

    at_the_office(scene)


def test_a_write_that_fails_delays_no_other_job_and_is_tried_again() -> None:
    async def scene(office: Office) -> None:
        for error in (Stale(), Unreachable("PATCH", "/sft", 0, "Unreachable", "no answer")):
            office.fails[SFT.id] = error
            office.reports(SFT, 0.1)
            office.reports(DPO, 0.2)
            assert ("sft", 0.1) not in await office.works(6.0)
        assert office.written == [("dpo", 0.2)]
        office.fails.clear()
        assert await office.works(6.0) == [("sft", 0.1)]

    at_the_office(scene)


def test_a_job_whose_progress_is_refused_each_time_is_tried_less_and_less() -> None:
    async def scene(office: Office) -> None:
        office.fails[SFT.id] = Invalid("PATCH", "/sft", 422, "Invalid", "no")
        office.reports(SFT, 0.1)
        await run_for(1800.0, office.writer.run())
        assert office.tried == 11

    at_the_office(scene)


def test_reports_of_a_job_that_is_gone_are_forgotten() -> None:
    async def scene(office: Office) -> None:
        office.reports(SFT, 0.1)
        del office.jobs[SFT.id]
        assert await office.works(6.0) == []
        assert office.board.latest(SFT.id) is None

    at_the_office(scene)
