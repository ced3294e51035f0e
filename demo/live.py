"""The live table in a terminal, or single lines without a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.money import shown
from demo.view import JobRow, View

_LINE_SECONDS = 10.0
_FIXED_LINES = 23
"""Lines of the screen besides the rows of the jobs' table."""

_COLOURS = {"Running": "green", "Queued": "yellow", "Starting": "cyan", "Resizing": "cyan", "Failed": "red"}
_OVER = ("Complete", "Failed")
_BAR = 9
_PHASES = ("Requested", "Starting", "Ready", "Draining")


def minutes(seconds: float | None) -> str:
    """Format workload seconds as minutes."""
    return "–" if seconds is None else f"{seconds / 60:.0f} min"


def rendered(view: View, factor: int, height: int) -> RenderableType:
    """Render the whole screen."""
    rows = max(4, height - _FIXED_LINES)
    blocks = (_headline(view, factor), _jobs(view, rows), _pools(view), _decisions(view))
    return Group(*(Padding(block, (0, 0, 1, 0)) for block in blocks))


def line(view: View) -> str:
    """Format the view as one line."""
    running = view.in_state("Running")
    nodes = ", ".join(f"{pool.name} {sum(pool.phases.get(phase, 0) for phase in _PHASES)}" for pool in view.pools)
    return (
        f"{minutes(view.at):>7}  jobs: {view.complete} complete, {len(running)} running, "
        f"{len(view.jobs) - view.complete - len(running)} waiting, {view.unsubmitted} to come; nodes: {nodes}; "
        f"GPUs in use {view.used_gpus}/{view.rented_gpus}; spent {shown(view.money.spent)}{_rate(view)}"
    )


def _rate(view: View) -> str:
    pays = view.money.pays
    return "" if not pays else f"; pays up to {shown(pays)} per job-hour saved"


def _headline(view: View, factor: int) -> Text:
    money = view.money
    return Text.assemble(
        ("Charterer demo ", "bold"),
        (
            f"minute {view.at / 60:.0f} of the workload ({factor} times faster here; times are workload time)\n",
            "dim",
        ),
        ("budget ", "bold"),
        f"{shown(money.spent)} spent, {shown(money.allowed)} allowed by now; {shown(money.hourly)}/h now",
        f"{_rate(view)}\n",
        ("GPUs   ", "bold"),
        f"{view.used_gpus} in use of {view.rented_gpus} rented",
    )


def _jobs(view: View, rows: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("job", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("GPUs", "want", "asked"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("pool", no_wrap=True)
    table.add_column("progress", no_wrap=True)
    for name in ("submitted", "left", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", no_wrap=True, overflow="ellipsis", ratio=1)
    shown_rows = _most_telling(view.jobs, rows)
    for job in shown_rows:
        table.add_row(
            job.name,
            Text(job.state, _COLOURS.get(job.state, "dim")),
            str(job.gpus or ""),
            str(job.want or ""),
            str(job.asked),
            job.pool,
            _bar(job.fraction),
            f"took {minutes(job.waited)}" if job.state in _OVER else f"{minutes(job.waited)} ago",
            minutes(job.left),
            shown(job.dollars),
            Text(job.why),
        )
    if hidden := len(view.jobs) - len(shown_rows):
        table.add_row(Text(f"and {hidden} more, {view.unsubmitted} to come", "dim"))
    return table


def _bar(fraction: float) -> Text:
    """Draw a bar with its percentage. The bar is readable without colour."""
    full = round(fraction * _BAR)
    return Text.assemble(("━" * full, "green"), ("─" * (_BAR - full), "dim"), f" {fraction:4.0%}")


def _most_telling(jobs: Iterable[JobRow], rows: int) -> list[JobRow]:
    """Select the first ``rows`` jobs, unfinished ones before finished ones, in order of submission."""
    ordered = sorted(jobs, key=lambda job: (job.state in _OVER, -job.waited))
    return ordered[:rows]


def _pools(view: View) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("pool", "node price", *(phase.lower() for phase in _PHASES), "most", "state"):
        table.add_column(name, justify="left" if name in ("pool", "state") else "right")
    for pool in view.pools:
        phases = [str(pool.phases.get(phase, 0) or "") for phase in _PHASES]
        cooling = pool.state == "Cooling"
        state = Text(f"{pool.state} ({pool.because or 'no nodes'})" if cooling else pool.state, "yellow" * cooling)
        table.add_row(pool.name, f"{shown(pool.hourly)}/h", *phases, str(pool.most), state)
    return table


def _decisions(view: View) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("at", "object", "event"):
        table.add_column(name, no_wrap=True)
    table.add_column("message of the operator (its times and rates in those of the workload)", ratio=1)
    for decision in view.decisions:
        table.add_row(decision.at, decision.about, decision.reason, Text(decision.note))
    return table


class Screen:
    """Shows views on a console: a live table in a terminal, otherwise a line every ten seconds."""

    def __init__(self, console: Console, factor: int) -> None:
        self._console = console
        self._factor = factor
        self._last_line = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, view: View) -> None:
        if self._live is not None:
            self._live.update(rendered(view, self._factor, self._console.height), refresh=True)
        elif time.monotonic() - self._last_line >= _LINE_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(line(view), highlight=False, soft_wrap=True)
