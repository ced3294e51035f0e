"""The picture: for each way to run the hour, the waits and GPUs of each job, and the dollars spent below."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from demo.columns import Column, ColumnJob, Columns
from demo.money import shown
from demo.scenario import Scenario
from demo.tables import T4
from demo.view import View

WAITING, SPENT, BUDGET, SIMULATED, SOLD_OUT = "#E69F00", "#08519C", "#D55E00", "#7F7F7F", "#CC79A7"
"""Colours from the palette of Okabe and Ito for colour-blind readers. Lines also differ in dashes."""
SHADES = {T4: ("#C6DBEF", "#9ECAE1", "#4292C6", "#08519C"), "": ("#C7E9C0", "#74C476", "#31A354", "#006D2C")}
"""Colours by GPU type ("" for any other), for 1, up to 4, up to 8 and more GPUs. More GPUs are darker."""
WIDEST = (1, 4, 8)
"""Upper limit of GPUs for each shade but the last."""
_DARK_FROM = 5
_LABEL_MINUTES = 6.0
_STOCK_OUT = "Cooling"


@dataclass(frozen=True, slots=True)
class Run:
    """The column of the real run at the demo's budget, and the observations during the run."""

    column: Column
    views: Sequence[View]

    def __post_init__(self) -> None:
        """Raises ValueError without any view."""
        if not self.views:
            raise ValueError("there is nothing to draw: the demo ended before anything was observed")


def draw(scenario: Scenario, columns: Columns, run: Run | None, headline: str, files: Sequence[Path]) -> None:
    """Draw to each file in the format of its suffix. If ``run`` is given, it replaces the simulated column.

    A PNG file has the headline as its title.
    """
    today = columns.autoscaler
    budget, made = (columns.budget, "simulated") if run is None else (run.column, "really run")
    panels = (
        ("Today: Karpenter, as asked", today, "really run")
        if today.measured
        else ("Today: cluster autoscaler, as asked", today, "simulated"),
        (f"Charterer, up to ${scenario.pays:,.0f} per hour saved", budget, made),
        ("Charterer, for no more money", columns.same_money, "simulated"),
    )
    with _styled():
        figure = Figure(figsize=(13.5, 9), layout="constrained")
        figure.suptitle(headline, x=0.01, ha="left", fontsize=13, fontweight="bold")
        rows = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=(3.4, 1))
        for (title, column, how), jobs, money in zip(panels, rows[0], rows[1], strict=True):
            jobs.set_title(f"{title} ({how})", loc="left", fontsize=10, fontweight="bold")
            _draw_jobs(jobs, column, [job.name for job in columns.autoscaler.jobs])
            _draw_money(money, column)
        _draw_budget(rows[1][1], scenario, panels[1][1])
        if run is not None:
            _draw_run(rows[1][1], run, columns.budget)
        _finish(figure, rows, panels, run is not None)
        for file in files:
            metadata = {"Date": None} if file.suffix == ".svg" else {"Title": headline}
            figure.savefig(file, dpi=130, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Training:
    """The training of a job: for each run in order, points of (seconds since the start, loss, number of GPUs)."""

    name: str
    runs: Sequence[Sequence[tuple[float, float, int]]]


def draw_training(jobs: Sequence[Training], files: Sequence[Path]) -> None:
    """Draw to each file the losses of successive runs, above the GPUs that each job had."""
    with _styled():
        figure = Figure(figsize=(10, 6.5), layout="constrained")
        figure.suptitle(
            "Losses go on where they were, across resizes", x=0.01, ha="left", fontsize=14, fontweight="bold"
        )
        losses, widths = figure.subplots(2, 1, sharex=True, height_ratios=(2.5, 1))
        for row, (job, colour) in enumerate(zip(jobs, (SPENT, BUDGET, "#009E73", SOLD_OUT, WAITING), strict=False)):
            points = [point for run in job.runs for point in run]
            losses.plot([at for at, _, _ in points], [loss for _, loss, _ in points], color=colour, lw=0.8, ls=":")
            for run in job.runs:
                times = [at for at, _, _ in run]
                losses.plot(times, [loss for _, loss, _ in run], color=colour, lw=1.8)
                losses.plot(times[0], run[0][1], "o", color=colour, ms=4)
                gpus = run[0][2]
                widths.barh(row, times[-1] - times[0], left=times[0], height=0.25 * gpus, color=colour, lw=0)
                widths.text(times[0], row, f" {gpus}", va="center", color="white", fontsize=8)
        losses.set_yscale("log")
        losses.yaxis.set_major_formatter("{x:g}")
        losses.set_xlim(left=0)
        losses.set_ylabel("loss (a point: a run begins)")
        widths.set_yticks(range(len(jobs)), [job.name for job in jobs])
        widths.set_ylim(len(jobs) - 0.4, -0.6)
        widths.set_xlabel("seconds; bars: GPUs of each job")
        for file in files:
            figure.savefig(file, dpi=130, metadata={"Date": None} if file.suffix == ".svg" else None)


def _styled() -> AbstractContextManager[None]:
    """Return the style of all pictures as a context."""
    return mpl.rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "demo",
            "svg.fonttype": "none",
            "text.parse_math": False,
        }
    )


def timeline_csv(views: Sequence[View]) -> str:
    """Format the views as CSV: workload seconds, GPUs, dollars spent and allowed, dollars per job-hour saved."""
    rows = ["at,rented_gpus,used_gpus,spent,allowed,pays"]
    for view in views:
        money = view.money
        pays = "" if money.pays is None else f"{money.pays:.2f}"
        rows.append(f"{view.at:.0f},{view.rented_gpus},{view.used_gpus},{money.spent:.6f},{money.allowed:.2f},{pays}")
    return "\n".join(rows) + "\n"


def stretches(job: ColumnJob, until: float) -> Iterator[tuple[float, float, int]]:
    """Yield (from, to, GPUs) in seconds, from submission to the end of the job or ``until``.

    GPUs are 0 while it waits.
    """
    widths = [(at, int(gpus)) for at, gpus in job.widths]
    if job.ended is not None and widths and not widths[-1][1]:
        end, widths = widths[-1][0], widths[:-1]
    else:
        end = until if job.ended is None else job.ended
    points = [(job.submitted, 0), *widths, (end, 0)]
    for (since, gpus), (to, _) in pairwise(points):
        if since < min(to, end):
            yield since, min(to, end), gpus


def _shade(gpus: int, gpu_type: str) -> str:
    return SHADES.get(gpu_type, SHADES[""])[bisect_left(WIDEST, gpus)]


def _draw_jobs(axes: Axes, column: Column, names: Sequence[str]) -> None:
    """Draw a row for each job in the order of ``names``, the first at the top."""
    last = max((job.ended or 0.0 for job in column.jobs), default=0.0)
    for job in column.jobs:
        row = names.index(job.name)
        for since, to, gpus in stretches(job, last):
            colour = _shade(gpus, job.gpu_type(since)) if gpus else WAITING
            axes.barh(row, (to - since) / 60, left=since / 60, height=0.8 if gpus else 0.35, color=colour, lw=0)
            if gpus and (to - since) / 60 >= _LABEL_MINUTES:
                ink = "white" if gpus >= _DARK_FROM else "black"
                axes.text((since + to) / 120, row, str(gpus), ha="center", va="center", fontsize=6.5, color=ink)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    mean = f"{column.mean_completion_seconds / 60:.1f} min"
    axes.text(
        0.985,
        0.915,
        f"{mean} from submission\nto completion, on average",
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=11,
        fontweight="bold",
    )


def _draw_money(axes: Axes, column: Column) -> None:
    axes.plot([at / 60 for at, _ in column.spent], [dollars for _, dollars in column.spent], color=SPENT, lw=1.8)
    axes.text(
        0.985,
        0.04,
        f"{shown(column.dollars)} in all",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        fontsize=11,
        fontweight="bold",
    )
    axes.grid(axis="y", alpha=0.25)
    axes.set_xlabel("minutes of the workload")


def _draw_budget(axes: Axes, scenario: Scenario, column: Column) -> None:
    """Draw the dollars that the budget allows, until the column's end."""
    end = scenario.window[1] - scenario.window[0]
    last = max(end, column.spent[-1][0])
    allowed = [0.0, scenario.allowed(end), scenario.allowed(last)]
    axes.plot([0, end / 60, last / 60], allowed, color=BUDGET, lw=1.6, ls=(0, (6, 2)))


def _draw_run(axes: Axes, run: Run, simulated: Column) -> None:
    """Draw the curves of the real run only: its simulation for comparison, and the times when a zone was sold out."""
    times, dollars = [at / 60 for at, _ in simulated.spent], [spent for _, spent in simulated.spent]
    axes.plot(times, dollars, color=SIMULATED, lw=1.4, ls=(0, (2, 1.5)))
    for before, after in pairwise(run.views):
        if any(pool.state == _STOCK_OUT for pool in before.pools):
            axes.axvspan(before.at / 60, after.at / 60, color=SOLD_OUT, alpha=0.25, lw=0)


def _finish(figure: Figure, rows: Any, panels: Sequence[tuple[str, Column, str]], really_run: bool) -> None:
    """Set the axes that all panels share, and draw the legend."""
    ends = [at for _, column, _ in panels for at, _ in column.spent[-1:]]
    rows[1][0].set_xlim(0, max(ends) / 60 * 1.01)
    rows[1][0].xaxis.set_major_locator(MultipleLocator(15))
    rows[1][0].set_ylim(bottom=0)
    rows[1][0].set_ylabel("US dollars spent")
    handles: list[Any] = [Patch(color=WAITING, label="waits")]
    handles += [
        Patch(color=shades[2], label=words)
        for shades, words in zip(SHADES.values(), ("on T4 (darker: more GPUs)", "on A100"), strict=True)
    ]
    handles += [
        mpl.lines.Line2D([], [], color=SPENT, lw=1.8, label="spent"),
        mpl.lines.Line2D([], [], color=BUDGET, lw=1.6, ls=(0, (6, 2)), label="budget"),
    ]
    if really_run:
        handles += [
            mpl.lines.Line2D([], [], color=SIMULATED, lw=1.4, ls=(0, (2, 1.5)), label="the same, simulated"),
            Patch(color=SOLD_OUT, alpha=0.25, label="a pool has no more nodes"),
        ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
