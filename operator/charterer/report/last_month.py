"""The picture of a month's jobs, simulated again: what Charterer makes of each amount of money, and the jobs as asked
for beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charterer.report.pictures import BLUE, MARKERS, VERMILION, drawing, encoded, label_points, time_unit
from charterer.simulate.history.savings import LowerEnvelope


@dataclass(frozen=True, slots=True)
class MonthPoints:
    """Dollars and mean seconds of the jobs: by Charterer at each rate tried, as asked for, and ``named`` points.

    ``named``: a few points on Charterer's curve, with their names.
    """

    budget: str
    charterer: Sequence[tuple[float, float]]
    asked: tuple[float, float]
    named: Sequence[tuple[str, tuple[float, float]]]


def draw_month(month: MonthPoints) -> bytes:
    """An SVG. CannotDraw: no matplotlib."""
    kept = LowerEnvelope.of(month.charterer).points
    unit, seconds = time_unit(month.asked[1])

    def scaled(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
        return [dollars for dollars, _ in points], [time / seconds for _, time in points]

    with drawing(8.0, 4.2) as figure:
        axes = figure.subplots()
        axes.set_title(f"{month.budget}: the last month's jobs for other amounts")
        axes.set_xlabel("US dollars for all of them")
        axes.set_ylabel(f"mean completion time ({unit})")
        axes.plot(*scaled(kept), color=BLUE, lw=1.8, label="by Charterer")
        axes.plot(*scaled([point for _, point in month.named]), MARKERS[0], color=BLUE, ms=7, zorder=3)
        axes.plot(*scaled([month.asked]), MARKERS[1], color=VERMILION, ms=8, label="as asked for", zorder=3)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(lambda value, _: f"${value:,.0f}")
        axes.xaxis.set_minor_formatter(lambda value, _: f"${value:,.0f}" if f"{value:.0e}"[0] in "25" else "")
        axes.legend()
        label_points(axes, [(name, (dollars, time / seconds)) for name, (dollars, time) in month.named], BLUE)
        return encoded(figure, "svg")


def month_caption(month: MonthPoints) -> str:
    """The picture in words."""
    return (
        f"Budget {month.budget}: mean time from submitting a job to its completion against the dollars of all jobs, by "
        "Charterer at different exchange rates (line) and as their owners asked for them (square)."
    )
