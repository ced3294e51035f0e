"""Runs the simulation and shows its columns as tables and a picture, before the cluster is ready."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rich.console import Console

from demo import comparison, picture
from demo.building import ROOT
from demo.columns import Columns, Parts
from demo.comparison import Simulated
from demo.programs import DemoError
from demo.scenario import Scenario

_MOST_BYTES = 1 << 24
"""Longest line in bytes that the simulation prints."""


def pictures(out: Path) -> list[Path]:
    """The files of the demo's picture."""
    return [out / "demo.png", out / "demo.svg"]


async def look(of: Scenario, today: Path | None, out: Path, console: Console, say: Callable[[str], None]) -> Simulated:
    """Simulate, print tables and draw the picture. The three main columns appear as soon as they are ready.

    ``today`` is a file with the column of today's practice, if it was really run. ``say`` prints a step.
    """
    with console.status("[dim]simulating[/dim]"):
        async with _lines(of, today, out / "simulated.log") as lines:
            columns = Columns.read(await anext(lines))
            three = Simulated(of, columns)
            files = pictures(out)
            await asyncio.to_thread(picture.draw, of, columns, None, three.headline, files)
            console.print(comparison.table(three.rows, "simulated"))
            console.print(f"{three.headline}.", style="bold", highlight=False)
            say(f"picture: {files[0]} ({_how(columns)})")
            line = await anext(lines)
    result = three if line == "null\n" else Simulated(of, columns, Parts.read(line))
    if rest := result.rows[len(three.rows) :]:
        console.print(comparison.table(rest, "where less is sold, simulated"))
    (out / "summary.json").write_text(result.json())
    return result


def _how(columns: Columns) -> str:
    """Return a text that says which columns of the picture are simulated."""
    return "the second and third column are simulated" if columns.autoscaler.measured else "all columns are simulated"


def _tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-500:]


@asynccontextmanager
async def _lines(of: Scenario, today: Path | None, log: Path) -> AsyncIterator[AsyncIterator[str]]:
    """Yield the output of `demo.simulated` as an iterator of lines.

    The iterator raises DemoError if the program fails.
    """
    arguments = [f"--cloud={of.cloud}", f"--pace={of.pace.factor}", f"--jobs={len(of.jobs)}", f"--share={of.share}"]
    arguments += [] if of.most_pays is None else [f"--most-pays={of.most_pays}"]
    arguments += [] if today is None else [f"--today={today}"]
    with log.open("wb") as errors:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "demo.simulated", *arguments),
            cwd=ROOT,
            stdout=PIPE,
            stderr=errors,
            limit=_MOST_BYTES,
        )

    async def lines() -> AsyncIterator[str]:
        assert program.stdout is not None
        async for line in program.stdout:
            yield line.decode()
        raise DemoError(f"demo.simulated ended with code {await program.wait()}: {_tail(log)}")

    try:
        yield lines()
    finally:
        with suppress(ProcessLookupError):
            program.kill()
        await program.wait()
