"""Simulations side by side: a table, and pictures of the frontier, of completion times, of nodes and of spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from purser.report.document import Block, Cell, Column, Document, Heading, Paragraph, Picture, Table, Tone
from purser.report.pictures import COLOURS, DASHES, MARKERS, drawing, encoded
from purser.simulate.choices import Choice
from purser.simulate.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "Left above: mean completion time against dollars, a point for each simulation, the rates that Purser pays joined. "
    "Right above: the part of the jobs that are complete so long after their submission. Below: nodes rented, and "
    "dollars spent on them, over time."
)


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulation. ``node_hourly``: dollars an hour of a node."""

    choice: Choice
    result: Result
    node_hourly: float


def document(title: str, notes: Sequence[str], found: Sequence[Simulated], pictures: str = "") -> Document:
    """What is shown: the simulations in the order they were asked for."""
    columns = (
        Column("policy"),
        Column("mean completion", right=True),
        Column("median", right=True),
        Column("90 %", right=True),
        Column("GPU-hours", right=True),
        Column("dollars", right=True),
        Column("restarts", right=True, optional=True),
        Column("complete", right=True, optional=True),
    )
    rows = tuple(_row(one) for one in found)
    blocks: list[Block] = [Heading("Simulated"), Table(columns, rows), *(Paragraph(note, Tone.FAINT) for note in notes)]
    if pictures:
        blocks.append(Picture(pictures, CAPTION))
    return Document(title, tuple(blocks))


def plain(found: Sequence[Simulated]) -> list[Mapping[str, str | int | float | None]]:
    """The same for programs: seconds, GPU-hours and dollars as numbers."""
    return [
        {
            "policy": one.choice.text,
            "paysPerJobHour": one.choice.rate,
            "meanCompletionSeconds": _number(one.result.mean_completion_seconds),
            "medianCompletionSeconds": _number(one.result.quantile(0.5)),
            "p90CompletionSeconds": _number(one.result.quantile(0.9)),
            "rentedGPUHours": round(one.result.total_gpu_hours, 3),
            "dollars": round(one.result.spent.dollars, 6),
            "restarts": one.result.restarts,
            "jobs": len(one.result.jobs),
            "complete": len(one.result.completion_seconds),
        }
        for one in found
    ]


def draw(found: Sequence[Simulated], as_format: str) -> bytes:
    """The four diagrams, as SVG or PNG. CannotDraw without matplotlib."""
    with drawing(11.0, 8.0) as figure:
        (frontier, times), (nodes, spend) = figure.subplots(2, 2)
        _draw_frontier(frontier, found)
        shown = _few(found)
        for at, one in enumerate(shown):
            style = {"color": COLOURS[at], "linestyle": DASHES[at % len(DASHES)], "label": one.choice.label}
            ascending = [seconds / 3600 for seconds in one.result.completion_seconds]
            times.step(ascending, [(at + 1) / len(ascending) for at in range(len(ascending))], where="post", **style)
            hours = [second / 3600 for second, _ in one.result.rented]
            counts = [count for _, count in one.result.rented]
            nodes.step(hours, counts, where="post", **style)
            spend.plot(hours, _spent(hours, counts, one.node_hourly), **style)
        times.set_xscale("log")
        _name(times, "How long jobs take", "hours from submission to completion", "part of the jobs")
        _name(nodes, "What is rented", "hours", "nodes")
        _name(spend, "What it costs", "hours", "dollars")
        times.legend(loc="lower right", fontsize=8)
        if len(shown) < len(found):
            figure.supxlabel(f"{len(shown)} of {len(found)} simulations are drawn over time", fontsize=8)
        return encoded(figure, as_format)


def _draw_frontier(axes: Axes, found: Sequence[Simulated]) -> None:
    paying = sorted((one for one in found if one.choice.rate is not None), key=lambda one: one.result.spent.micros)
    others = [one for one in found if one.choice.rate is None]
    if paying:
        dollars = [one.result.spent.dollars for one in paying]
        means = [one.result.mean_completion_seconds / 3600 for one in paying]
        axes.plot(dollars, means, color=COLOURS[0], marker=MARKERS[0], label="purser")
    for at, one in enumerate(others, start=1):
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        point = one.result.spent.dollars, one.result.mean_completion_seconds / 3600
        axes.plot(*point, color=colour, marker=marker, linestyle="none", label=one.choice.label)
    _name(axes, "What money buys", "dollars", "mean completion time (hours)")
    axes.legend(fontsize=8)


def _few(found: Sequence[Simulated]) -> list[Simulated]:
    """As many as there are colours: what Purser is compared with, and rates that it pays, evenly from few to many."""
    others = [one for one in found if one.choice.rate is None][: len(COLOURS) // 2]
    paying = [one for one in found if one.choice.rate is not None]
    room = min(len(COLOURS) - len(others), len(paying))
    picked = {round(at * (len(paying) - 1) / max(room - 1, 1)) for at in range(room)}
    return [*(paying[at] for at in sorted(picked)), *others]


def _name(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)


def _spent(hours: Sequence[float], counts: Sequence[int], node_hourly: float) -> list[float]:
    """Dollars up to each moment."""
    total, spent = 0.0, [0.0]
    for at in range(1, len(hours)):
        total += counts[at - 1] * (hours[at] - hours[at - 1]) * node_hourly
        spent.append(total)
    return spent[: len(hours)]


def _row(one: Simulated) -> tuple[Cell, ...]:
    result = one.result
    done, jobs = len(result.completion_seconds), len(result.jobs)
    return (
        Cell(one.choice.label, Tone.STRONG if one.choice.rate is not None else Tone.PLAIN),
        Cell(_span(result.mean_completion_seconds)),
        Cell(_span(result.quantile(0.5))),
        Cell(_span(result.quantile(0.9))),
        Cell(f"{result.total_gpu_hours:,.1f}"),
        Cell(f"{result.spent.dollars:,.2f}"),
        Cell(f"{result.restarts:,}"),
        Cell(f"{done:,} of {jobs:,}", Tone.PLAIN if done == jobs else Tone.BAD),
    )


def _span(seconds: float) -> str:
    if isnan(seconds):
        return "-"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 3)
