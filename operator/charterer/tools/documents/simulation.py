"""A comparison of simulations: a table, and pictures of frontier, completion times, nodes and spending."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, isnan
from typing import TYPE_CHECKING, Any, Final

from charterer.domain.money import Money
from charterer.tools.documents.document import (
    Block,
    Document,
    DocumentTable,
    Heading,
    Paragraph,
    Picture,
    TableCell,
    TableColumn,
    Tone,
)
from charterer.tools.documents.pictures import (
    BLUE,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    drawing,
    encoded,
    label_points,
)
from charterer.tools.simulator.model.result import SimulationResult, merge_results
from charterer.tools.simulator.policies.baselines import SCALE_DOWN_SECONDS
from charterer.tools.simulator.policy_registry import PolicyChoice
from charterer.tools.simulator.replay import ReplayResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CAPTION = (
    "Left above: mean completion time against dollars, a point for each simulation, "
    "the rates that Charterer pays joined. "
    "Right above: the fraction of jobs that are complete after a time since their submission. Below: GPUs rented, and "
    "dollars spent on them, over time."
)
_NAVY: Final = "#003A5C"
_CHARTERER: Final = (SKY, BLUE, _NAVY)
"""Colours of Charterer's lines. All have one hue and are darker for higher rates, so that they differ in grey, too."""
_OTHERS: Final = (VERMILION, GREEN, ORANGE, PURPLE)
_BINS: Final = 120
"""Number of bins over which rented GPUs are averaged. A bin is three pixels wide."""
_DAYS_FROM_SECONDS: Final = 4 * 86_400.0
HOURS_A_MONTH = 365.25 * 24 / 12
"""Hours in a mean month of the calendar."""


@dataclass(frozen=True)
class Simulated:
    """The simulations of one policy. Jobs of different simulations share no pool."""

    choice: PolicyChoice
    parts: tuple[ReplayResult, ...]

    @cached_property
    def result(self) -> SimulationResult:
        """The merged result of all parts."""
        return merge_results([part.result for part in self.parts])

    @cached_property
    def gpus(self) -> Sequence[tuple[float, float]]:
        """GPUs rented, as steps of (seconds, GPUs)."""
        return self.result.rented_gpus

    @cached_property
    def spent(self) -> Sequence[tuple[float, float]]:
        """Dollars spent until each second at which the dollars per second change.

        The sum leaves out billing minimums, which only the table includes.
        """
        return integral([(at, hourly / 3600.0) for at, hourly in self.result.hourly])


def document(title: str, notes: Sequence[str], simulated: Sequence[Simulated], pictures: str = "") -> Document:
    """Make the document of these simulations, in the order in which the user named them."""
    columns = (
        TableColumn("policy"),
        TableColumn("mean completion", right=True),
        TableColumn("median", right=True),
        TableColumn("90 %", right=True),
        TableColumn("GPU-hours", right=True),
        TableColumn("in use", right=True, optional=True),
        TableColumn("dollars", right=True),
        TableColumn("restarts", right=True, optional=True),
        TableColumn("jobs", right=True),
    )
    rows = tuple(_row(run) for run in simulated)
    blocks: list[Block] = [
        Heading(f"Simulated: {title}"),
        DocumentTable(columns, rows),
        *_by_pool(simulated),
        *(Paragraph(sentence, Tone.BAD) for sentence in (*_left_out(simulated), *_never_idle_enough(simulated))),
        *(Paragraph(note, Tone.FAINT) for note in (*notes, *_assumptions(simulated))),
    ]
    if pictures:
        blocks.append(Picture(pictures, CAPTION))
    return Document(title, tuple(blocks))


def plain(simulated: Sequence[Simulated]) -> list[Mapping[str, Any]]:
    """Return the results for programs: seconds, GPU-hours and dollars as numbers.

    ``never``: jobs that did not complete, which the means leave out.
    """
    return [
        {
            "policy": run.choice.text,
            "paysPerJobHour": run.choice.rate,
            "learns": run.choice.noise is not None,
            "meanCompletionSeconds": _number(run.result.mean_completion_seconds),
            "medianCompletionSeconds": _number(run.result.quantile(0.5)),
            "p90CompletionSeconds": _number(run.result.quantile(0.9)),
            "rentedGPUHours": round(run.result.total_gpu_hours, 3),
            "usedGPUHours": round(run.result.used_gpu_hours, 3),
            "dollars": round(run.result.spent.dollars, 6),
            "restarts": run.result.restarts,
            "jobs": len(run.result.jobs),
            "complete": len(run.result.completion_seconds),
            "never": list(run.result.never_completed),
            "interruptions": run.result.counts.interruptions,
            "pools": {
                str(pool): {"rentedGPUHours": round(hours, 3), "dollars": round(run.result.spent_in[pool].dollars, 6)}
                for pool, hours in run.result.rented_gpu_hours.items()
            },
        }
        for run in simulated
    ]


def draw(simulated: Sequence[Simulated], as_format: str, budget: Money | None = None) -> bytes:
    """Draw the four diagrams, as SVG or PNG. ``budget``: dollars per month. Raises CannotDraw without matplotlib."""
    with drawing(11.0, 8.4) as figure:
        (frontier, times), (gpus, spend) = figure.subplots(2, 2)
        _draw_frontier(frontier, simulated)
        shown = _few(simulated)
        ended = max(run.result.ended_at for run in simulated)
        unit, seconds = _unit(ended)
        bin_seconds = max(ended / _BINS, 1.0)
        for run, look in shown:
            style = {**look, "label": _legend(run)}
            ascending = [time / 3600 for time in run.result.completion_seconds]
            fractions = [number / len(run.result.jobs) for number in range(len(ascending) + 1)]
            if ascending:
                times.step([*ascending[:1], *ascending], fractions, where="post", lw=1.6, **style)
            gpus.step(*_against(means(run.gpus, bin_seconds), seconds), where="post", lw=1.4, **style)
            spend.plot(*_against(run.spent, seconds), lw=1.6, **style)
        if budget is not None:
            _draw_budget(spend, budget, seconds)
        _logarithmic(times)
        _name(times, "How long jobs take", "hours from submission to completion", "fraction of jobs complete")
        _name(gpus, "What is rented", f"{unit} since the first submission", f"GPUs (mean over {span(bin_seconds)})")
        _name(spend, "What it costs", f"{unit} since the first submission", "US dollars so far")
        handles, labels = spend.get_legend_handles_labels()
        some = (
            f"{len(shown)} of {len(simulated)} simulations are drawn as lines" if len(shown) < len(simulated) else None
        )
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, title=some, title_fontsize=9)
        return encoded(figure, as_format)


def integral(steps: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the integral of a step function of seconds, at 0 and at each step. The integral is linear in between."""
    points, total = [(0.0, 0.0)], 0.0
    for (since, value), (until, _) in pairwise([(0.0, 0.0), *steps]):
        total += value * (until - since)
        points.append((until, total))
    return points


def means(steps: Sequence[tuple[float, float]], bin_seconds: float) -> list[tuple[float, float]]:
    """Return a step function's mean over each bin as (bin start in seconds, mean), and 0 after the last bin.

    Without bins, a curve over many days would have too many steps to be readable.
    """
    if not steps:
        return []
    sums = integral(steps)
    edges = [number * bin_seconds for number in range(ceil(steps[-1][0] / bin_seconds) + 1)]
    areas = [_at(sums, edge) for edge in edges]
    points = [
        (edge, (after - before) / bin_seconds) for edge, before, after in zip(edges, areas, areas[1:], strict=False)
    ]
    return [*points, (edges[-1], 0.0)]


def _at(line: Sequence[tuple[float, float]], x: float) -> float:
    """Return the value of a piecewise linear function at x. The function is constant outside of its points."""
    at = bisect_left(line, x, key=lambda point: point[0])
    if at in (0, len(line)):
        return line[min(at, len(line) - 1)][1]
    (left, low), (right, high) = line[at - 1], line[at]
    return low + (high - low) * (x - left) / (right - left)


def _unit(seconds: float) -> tuple[str, float]:
    """Return the unit for a time axis of this length, and the unit's seconds."""
    return ("days", 86_400.0) if seconds > _DAYS_FROM_SECONDS else ("hours", 3600.0)


def _against(steps: Sequence[tuple[float, float]], unit: float) -> tuple[list[float], list[float]]:
    return [at / unit for at, _ in steps], [value for _, value in steps]


def _draw_budget(axes: Axes, budget: Money, unit: float) -> None:
    """Draw the budget, spent evenly, up to the top of the spending curve."""
    rate = budget.dollars / HOURS_A_MONTH / 3600 * unit
    ends = min(axes.get_xlim()[1], axes.get_ylim()[1] / rate) if rate else axes.get_xlim()[1]
    label = f"budget: {budget} a month, spent evenly"
    axes.plot([0, ends], [0, ends * rate], color=GREY, ls=DASHES[2], lw=1.6, label=label)


def _logarithmic(axes: Axes) -> None:
    """Use a logarithmic axis of hours with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_frontier(axes: Axes, simulated: Sequence[Simulated]) -> None:
    paying, others = _sides(simulated)
    if paying:
        points = [(run.result.spent.dollars, run.result.mean_completion_seconds / 3600) for run in paying]
        axes.plot(
            *zip(*points, strict=True), color=BLUE, marker=MARKERS[0], label="charterer, by $ paid per job-hour saved"
        )
        label_points(axes, _rate_labels(paying, points), BLUE)
    for at, run in enumerate(others):
        point = run.result.spent.dollars, run.result.mean_completion_seconds / 3600
        colour, marker = _OTHERS[at % len(_OTHERS)], MARKERS[1 + at % (len(MARKERS) - 1)]
        axes.plot(*point, color=colour, marker=marker, ms=7, linestyle="none", label=_legend(run))
    _name(axes, "What money buys", "US dollars", "mean completion time (hours)")
    axes.set_xlim(0, axes.get_xlim()[1] * 1.08)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.08)
    axes.legend(fontsize=8)


def _rate_labels(
    paying: Sequence[Simulated], points: Sequence[tuple[float, float]]
) -> list[tuple[str, tuple[float, float]]]:
    """Return a label for each point. Rates whose points differ by at most 1 % share a label."""
    groups: list[tuple[list[float], tuple[float, float]]] = []
    for run, point in zip(paying, points, strict=True):
        rate = run.choice.rate or 0.0
        if groups and all(abs(here - there) <= 0.01 * there for here, there in zip(point, groups[-1][1], strict=True)):
            groups[-1][0].append(rate)
        else:
            groups.append(([rate], point))
    return [(f"${rates[0]:g}" + (f" to ${rates[-1]:g}" if len(rates) > 1 else ""), point) for rates, point in groups]


def _legend(run: Simulated) -> str:
    """Return the policy's name, and the number of jobs missing from its line or point."""
    never = len(run.result.never_completed)
    return f"{run.choice.label} ({never:,} jobs never completed)" if never else run.choice.label


def _sides(simulated: Sequence[Simulated]) -> tuple[list[Simulated], list[Simulated]]:
    """Return Charterer's simulations by rate, and those of other policies."""
    paying = [run for run in simulated if run.choice.rate is not None]
    return sorted(paying, key=lambda run: run.choice.rate or 0.0), [run for run in simulated if run.choice.rate is None]


def _few(simulated: Sequence[Simulated]) -> list[tuple[Simulated, dict[str, Any]]]:
    """Return the simulations to draw as lines, with colour and dashes.

    Charterer's are blue, darker for higher rates.
    """
    paying, others = _sides(simulated)
    room = min(len(_CHARTERER), len(paying))
    picked = sorted({round(at * (len(paying) - 1) / max(room - 1, 1)) for at in range(room)})
    looks = zip(_CHARTERER, DASHES, strict=False)
    drawn = [(paying[at], {"color": colour, "ls": dash}) for at, (colour, dash) in zip(picked, looks, strict=False)]
    compared = zip(others, zip(_OTHERS, DASHES, strict=True), strict=False)
    return [*drawn, *((run, {"color": colour, "ls": dash}) for run, (colour, dash) in compared)]


def _name(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)


def _row(run: Simulated) -> tuple[TableCell, ...]:
    result = run.result
    done, jobs, never = len(result.completion_seconds), len(result.jobs), len(result.never_completed)
    rented = result.total_gpu_hours
    return (
        TableCell(run.choice.label, Tone.STRONG if run.choice.rate is not None else Tone.PLAIN),
        TableCell(span(result.mean_completion_seconds)),
        TableCell(span(result.quantile(0.5))),
        TableCell(span(result.quantile(0.9))),
        TableCell(f"{rented:,.1f}"),
        TableCell(f"{result.used_gpu_hours / rented:.0%}" if rented else "-"),
        TableCell(f"{result.spent.dollars:,.2f}"),
        TableCell(f"{result.restarts:,}"),
        TableCell(f"{done:,} of {jobs:,} ran; {never:,} never", Tone.BAD) if never else TableCell(f"all {jobs:,} ran"),
    )


def _by_pool(simulated: Sequence[Simulated]) -> list[Block]:
    """Make a table of GPU-hours and interruptions in each pool. Empty for a single pool."""
    pools = list(dict.fromkeys(pool for run in simulated for pool in run.result.rented_gpu_hours))
    if len(pools) < 2:
        return []
    columns = (
        TableColumn("GPU-hours in"),
        *(TableColumn(str(pool), right=True) for pool in pools),
        TableColumn("runs interrupted", right=True),
    )
    rows = [
        (
            TableCell(run.choice.label, Tone.STRONG if run.choice.rate is not None else Tone.PLAIN),
            *(TableCell(f"{run.result.rented_gpu_hours.get(pool, 0.0):,.1f}") for pool in pools),
            TableCell(f"{run.result.counts.interruptions:,}"),
        )
        for run in simulated
    ]
    return [DocumentTable(columns, tuple(rows))]


_NAMED = 3
"""Number of left-out jobs whose names are printed."""


def _left_out(simulated: Sequence[Simulated]) -> list[str]:
    """Return sentences on jobs missing from each policy's means, and the means over jobs that completed everywhere."""
    sentences = [
        f"{run.choice.label}: {len(never):,} of {len(run.result.jobs):,} jobs never completed ({_some(never)}), "
        "and its times leave them out."
        for run in simulated
        if (never := run.result.never_completed)
    ]
    if not sentences:
        return []
    sentences.append(
        "A job never completes if it is wider than all nodes that the policy may have (--max-nodes, fixed:NODES, a "
        "pool's stock and quota), or if spot nodes end before it has saved anything."
    )
    times = [
        {job.name: job.completion_seconds for job in run.result.jobs if job.completion_seconds is not None}
        for run in simulated
    ]
    everywhere = set(times[0]).intersection(*times[1:])
    if everywhere and len(simulated) > 1:
        means = ", ".join(
            f"{span(sum(of_run[name] for name in everywhere) / len(everywhere))} ({run.choice.label})"
            for run, of_run in zip(simulated, times, strict=True)
        )
        sentences.append(f"Mean completion of the {len(everywhere):,} jobs that completed under every policy: {means}.")
    return sentences


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _never_idle_enough(simulated: Sequence[Simulated]) -> list[str]:
    """Return a warning if all jobs together end before the policy as-asked would release its first idle node."""
    asked = next((run.result.jobs for run in simulated if run.choice.text == "as-asked"), ())
    ends = [job.finished for job in asked if job.finished is not None]
    if not ends or (took := max(ends) - min(job.submitted for job in asked)) > SCALE_DOWN_SECONDS:
        return []
    idle = f"{SCALE_DOWN_SECONDS / 60:g} idle minutes: no node is given back before the last job ends"
    advice = "Compare with as-asked:0. Where time runs faster, as in the demo, divide them, too: as-asked:20"
    return [f"All jobs together take {span(took)} under as-asked, less than its {idle}. {advice}."]


def _assumptions(simulated: Sequence[Simulated]) -> list[str]:
    """Return a sentence on the cost of idle nodes under the policy as-asked, if that policy was simulated."""
    asked = next((run for run in simulated if run.choice.text == "as-asked"), None)
    if asked is None or not asked.result.total_gpu_hours:
        return []
    idle = 1.0 - asked.result.used_gpu_hours / asked.result.total_gpu_hours
    return [
        f"as-asked ends a node after {SCALE_DOWN_SECONDS / 60:g} idle minutes, as a cluster autoscaler does by "
        f"default; {idle:.0%} of what it rents is not in use. as-asked:60 ends a node after 60 idle seconds."
    ]


def span(seconds: float) -> str:
    """Format seconds as minutes. Two hours and more are formatted as hours."""
    if isnan(seconds):
        return "-"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.2f} h"


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 3)
