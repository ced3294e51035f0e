"""The operator's real progress application over TLS, on a free port, for one job's pod; and the pod's environment."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from charterer.domain.ids import JobId
from charterer.domain.time import Instant, instant
from charterer.server.http import HeldAnswers, progress_app, serve
from charterer.server.progress import CurrentRun, ProgressBoard, ProgressReport, SessionOfRun
from charterer.server.tls import StoredSecret, ensure_tls
from charterer.server.tokens import Authenticator
from tests.unit.server.support import ALLOCATION, JOB, POD_UID, Adviser, Directory, Reviewer, token

SECONDS = 60.0
"""Until a process counts as hanging, on a machine that is busy."""
SOURCE = Path(__file__).resolve().parents[3] / "trainer" / "src"


class HearingBoard(ProgressBoard):
    """A board that also says when something new is on it."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    def report(
        self,
        job: JobId,
        run: int,
        report: ProgressReport,
        at: Instant,
        *,
        leader: int = 0,
        session: SessionOfRun | None = None,
    ) -> None:
        super().report(job, run, report, at, leader=leader, session=session)
        self.changed.set()


@dataclass
class Operator:
    """What the pod of run 2 talks to. ``environ`` is what Charterer puts into that pod."""

    environ: dict[str, str]
    directory: Directory = field(default_factory=Directory)
    reviewer: Reviewer = field(default_factory=Reviewer)
    board: HearingBoard = field(default_factory=HearingBoard)
    adviser: Adviser = field(default_factory=Adviser)

    @property
    def token_file(self) -> Path:
        return Path(self.environ["CHARTERER_TOKEN_FILE"])

    def say(self, *, stopping: bool = False, allocation: Mapping[str, int] = ALLOCATION) -> None:
        """What the pod hears at its next call."""
        self.directory.runs[JOB] = CurrentRun(2, frozenset({POD_UID}), allocation, stopping)

    async def fraction(self, wanted: float) -> None:
        """Until the board shows that fraction."""
        async with asyncio.timeout(SECONDS):
            while (latest := self.board.latest(JOB)) is None or latest.fraction != wanted:
                self.board.changed.clear()
                await self.board.changed.wait()


@asynccontextmanager
async def operator(folder: Path) -> AsyncIterator[Operator]:
    """The endpoint of an operator, which tells its pods to call every second."""

    async def nothing() -> StoredSecret | None:
        return None

    async def stored(_: Mapping[str, bytes], __: str | None) -> bool:
        return True

    tls = await ensure_tls(nothing, stored, ["localhost"], datetime.now(UTC))
    told = Operator({})

    def now() -> Instant:
        return instant(datetime.now(UTC))

    guard = Authenticator(told.reviewer, told.directory)
    app = progress_app(
        guard, told.directory, told.board, now, told.adviser, HeldAnswers(lambda _: None), again_seconds=1
    )
    site = await serve(app, "localhost", 0, tls.server_context())
    told.environ |= {
        "CHARTERER_PROGRESS_URL": f"https://localhost:{site.port}",
        "CHARTERER_CA": tls.ca_pem,
        "CHARTERER_TOKEN_FILE": str(folder / "token"),
        "CHARTERER_RUN": "2",
        "PET_NODE_RANK": "0",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "4",
    }
    told.token_file.write_text(token() + "\n")
    try:
        yield told
    finally:
        await site.close()


def left(folder: Path) -> list[str]:
    """What lies in a folder, but for the sums of checkpoints that are there."""
    names = os.listdir(folder)
    return sorted(name for name in names if not (name.endswith(".crc32") and name[1:].rsplit(".", 2)[0] in names))


async def start(script: str, environ: Mapping[str, str], *arguments: str) -> asyncio.subprocess.Process:
    """A training process with only the trainer library to import; its output is the test's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHARTERER_", "PET_", "JAX_"))}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        *arguments,
        env={**kept, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def line(process: asyncio.subprocess.Process) -> str:
    """The next line that the process prints."""
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        return (await process.stdout.readline()).decode().strip()


async def end(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """Its exit code and what it wrote to standard error."""
    async with asyncio.timeout(SECONDS):
        _, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()
