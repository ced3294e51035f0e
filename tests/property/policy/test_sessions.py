"""Whatever is asked, run and killed, in any order: no GPU without an ask, none held for long unused, none refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from charterer.domain.ids import JobId
from charterer.domain.interactive import Interactive
from charterer.domain.job import Job
from charterer.domain.plan import Allocate, Rent
from charterer.domain.reports import Progress
from charterer.domain.time import Instant, seconds_between
from charterer.policy import plan
from charterer.server.progress import ProgressBoard, ProgressReport, SessionOfRun
from tests import lanes
from tests.worlds import MID_MONTH, World

NOTEBOOK = JobId("notebook")
IDLE_SECONDS = 120.0
REPORT_SECONDS = 30.0
STEPS = st.lists(
    st.one_of(
        st.sampled_from(["ask", "taken back", "cell", "none", "operator dies", "worker is silent"]),
        st.floats(1.0, 300.0),
    ),
    max_size=12,
)


@dataclass
class Sessions:
    """A notebook whose worker reports every half minute, and an operator that plans after each report.

    ``recorded``: the report in the status. ``said_busy``: whether a cell ran by the last report. ``free_since``: since
    when no cell ran as far as reports say, nor anything happened after which the idle time counts anew: what a silent
    worker did after it said that a cell runs is known by its next report only.
    """

    world: World = field(default_factory=World)
    board: ProgressBoard = field(default_factory=ProgressBoard)
    recorded: Progress | None = None
    busy: bool = False
    silent: bool = False
    said_busy: bool = False
    free_since: Instant = MID_MONTH

    def __post_init__(self) -> None:
        self.world.budget()
        self.world.pool()
        self.world.job("notebook", gpus=1, interactive=Interactive(idle_seconds=IDLE_SECONDS))

    @property
    def job(self) -> Job:
        return self.world.jobs[NOTEBOOK]

    @property
    def told(self) -> Interactive:
        assert self.job.interactive is not None
        return self.job.interactive

    def happens(self, what: str | float) -> None:
        if isinstance(what, float):
            left = what
            while left > 0.0:
                self.world.passes(min(left, REPORT_SECONDS))
                left -= REPORT_SECONDS
                self.turn()
            return
        if what == "ask":
            asks = max(self.told.asks, self.told.answered) + 1
            self.world.jobs[NOTEBOOK] = replace(self.job, interactive=replace(self.told, asks=asks))
        if what == "taken back":
            back = replace(self.told, asks=min(self.told.asks, self.told.answered))
            self.world.jobs[NOTEBOOK], self.busy = replace(self.job, interactive=back), False
        if what in ("cell", "none"):
            self.busy, self.silent = what == "cell" and self.job.allocation is not None, False
        if what == "operator dies":
            self.board = ProgressBoard()
            if self.recorded is not None:
                self.board.adopt(NOTEBOOK, self.recorded, self.world.now)
        if what == "worker is silent":
            self.silent, self.busy = True, False
        if what != "none":
            self.free_since = self.world.now
        self.turn()

    def turn(self) -> None:
        """The worker reports, the operator plans, nodes boot and pods start."""
        job = self.job
        if job.allocation is not None and not self.silent:
            session = SessionOfRun(self.told.asks, job.allocation.since)
            report = ProgressReport(run=job.allocation.run, busy=self.busy)
            self.board.report(NOTEBOOK, job.allocation.run, report, self.world.now, session=session)
            if self.said_busy:
                self.free_since = self.world.now
            self.said_busy = self.busy
        for _, progress in self.board.due(self.world.now):
            self.recorded = progress
            self.board.flushed(NOTEBOOK, progress, self.world.now)
        self.world.jobs[NOTEBOOK] = replace(job, progress=self.board.latest(NOTEBOOK) or self.recorded)
        if self.busy or job.allocation is None:
            self.free_since = self.world.now
        decided = plan(self.world.snapshot())
        self.check(decided.commands)
        self.world.carry_out(decided)
        if self.job.allocation is None:
            self.busy, self.silent, self.said_busy = False, False, False
        self.world.everything_starts()

    def check(self, commands: object) -> None:
        assert isinstance(commands, tuple)
        job = self.job
        placed = [command for command in commands if isinstance(command, Allocate)]
        assert len(placed) <= 1
        for command in placed:
            assert (job.allocation is None) is (command.allocation is not None), "a second run beside the first"
        if not self.told.wants_gpus:
            assert job.allocation is None or [command.allocation for command in placed] == [None], "not given back"
            assert [command for command in commands if isinstance(command, Rent)] == [], "rented, and nobody asked"
        unused = seconds_between(self.free_since, self.world.now)
        given_back = [command for command in placed if command.allocation is None]
        if job.allocation is not None and not self.silent and unused > IDLE_SECONDS + REPORT_SECONDS:
            assert given_back, f"held for {unused:.0f} s while no cell ran"
        if given_back:
            assert not self.busy, "given back while a cell ran"


@settings(max_examples=lanes.examples(40))
@given(STEPS)
@example(["ask", "cell", "worker is silent", 61.0])
def test_gpus_are_there_when_asked_for_and_only_as_long_as_they_are_used(steps: list[str | float]) -> None:
    sessions = Sessions()
    for what in steps:
        asked = sessions.told.asks
        sessions.happens(what)
        if sessions.told.asks > asked:
            for _ in range(3):  # to rent a node, to be given it, and after a run that was being ended
                sessions.turn()
            assert sessions.job.allocation is not None, "asked for, and not given"
    sessions.happens("none")
    for _ in range(2):
        sessions.happens(IDLE_SECONDS + 3 * REPORT_SECONDS)
    assert sessions.job.allocation is None or sessions.silent
    assert sessions.told.wants_gpus is sessions.silent
    assert [rental for rental in sessions.world.rentals.values() if rental.stays] == [] or sessions.silent
