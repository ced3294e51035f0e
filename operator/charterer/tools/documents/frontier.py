"""Pictures of what more or less money buys: completion time, and the saving by one more dollar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, log2
from textwrap import fill
from typing import TYPE_CHECKING, Literal

from charterer.domain.money import Money
from charterer.tools.documents.pictures import (
    BLUE,
    DASHES,
    GREY,
    MARKERS,
    VERMILION,
    drawing,
    encoded,
    label_points,
    time_unit,
)
from charterer.tools.frontier import Frontier, FrontierPoint
from charterer.tools.simulator.history.savings import LowerEnvelope

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The picture of a month's jobs in simulations: under Charterer at several amounts, and as their owners asked for them.


@dataclass(frozen=True, slots=True)
class MonthPoints:
    """Dollars and mean seconds of the jobs: under Charterer at each simulated rate, and as their owners asked for them.

    ``named`` has labels, each with its point on Charterer's curve.
    """

    budget: str
    charterer: Sequence[tuple[float, float]]
    asked: tuple[float, float]
    named: Sequence[tuple[str, tuple[float, float]]]


def draw_month(month: MonthPoints) -> bytes:
    """Draw an SVG. Raises CannotDraw without matplotlib."""
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
    """Describe the picture in words."""
    return (
        f"Budget {month.budget}: mean time from submitting a job to its completion against the dollars of all jobs, by "
        "Charterer at different exchange rates (line) and as their owners asked for them (square)."
    )


_STEPS = 160
_LEAST, _MOST = 0.25, 4.0
_TITLE_CHARACTERS = 38
"""Maximum number of characters in a line of a diagram's title."""
_MOST_TICKS = 7
"""Maximum number of amounts that fit side by side on the axis."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class FrontierCurve:
    """A budget's frontier ``of``. ``before`` is another frontier to compare with, such as the present one in a what-if.

    ``asked`` is another amount on the same frontier. A what-if compares it with the budget's amount.
    """

    name: str
    of: Frontier
    before: Frontier | None = None
    asked: Money | None = None

    @property
    def base(self) -> float:
        """The budget's amount, or if that is zero the smallest amount that suffices."""
        return self.of.amount.dollars or self.of.cheapest.dollars

    @property
    def span(self) -> tuple[float, float]:
        """The drawn range in dollars: a quarter to four times the amount, extended to include ``asked``."""
        asked = self.base if self.asked is None else self.asked.dollars or self.base
        return min(self.base * _LEAST, asked / 1.5), max(self.base * _MOST, asked * 1.5)


def draw(curves: Sequence[FrontierCurve], as_format: str) -> bytes:
    """Draw two diagrams side by side for each budget, as SVG or PNG.

    Raises ValueError without curves, and CannotDraw without matplotlib.
    """
    if not curves:
        raise ValueError("there is no budget with jobs whose frontier could be drawn")
    with drawing(11.0, 4.0 * len(curves)) as figure:
        rows = figure.subplots(len(curves), 2, squeeze=False)
        for (times, dollars), curve in zip(rows, curves, strict=True):
            _draw_times(times, curve)
            _draw_dollars(dollars, curve)
        return encoded(figure, as_format)


def caption(curve: FrontierCurve) -> str:
    """Describe a budget's diagrams in words."""
    return (
        f"Budget {curve.name}: mean time from submitting a job to its completion against dollars {curve.of.a_period} "
        "(left), and the minutes of jobs' lives that one more dollar saves (right), from a quarter to four times the "
        "amount."
    )


def _sampled(frontier: Frontier, span: tuple[float, float]) -> list[FrontierPoint]:
    low, high = span
    return [frontier.at(Money.of(low * (high / low) ** (step / _STEPS))) for step in range(_STEPS + 1)]


def _title(curve: FrontierCurve, says: str) -> str:
    """Make a title of the budget's name and the subject, wrapped to the diagram's width."""
    return fill(f"{_shortened(curve.name)}: {says}", _TITLE_CHARACTERS)


def _shortened(name: str) -> str:
    return name if len(name) < _TITLE_CHARACTERS else f"{name[: _TITLE_CHARACTERS - 2]}…"


def _draw_times(axes: Axes, curve: FrontierCurve) -> None:
    axes.set_title(_title(curve, "what money buys"))
    unit, seconds = _unit(curve)
    axes.set_ylabel(f"mean completion time ({unit})")

    def height(point: FrontierPoint) -> float:
        return inf if point.mean_seconds is None else point.mean_seconds / seconds

    _draw_lines(axes, curve, height, "default", "jobs queue at all of these amounts")
    axes.set_ylim(bottom=0)
    _amounts(axes, curve)


def _draw_dollars(axes: Axes, curve: FrontierCurve) -> None:
    axes.set_title(_title(curve, "what one more dollar saves"))
    axes.set_ylabel("minutes of job life per dollar")
    axes.set_yscale("log")
    _plain_ticks(axes)
    _draw_lines(axes, curve, _minutes, "steps-post", "one more dollar saves nothing\nat any of these amounts")
    _amounts(axes, curve)


def _plain_ticks(axes: Axes) -> None:
    """Label a logarithmic axis with plain numbers: 1, 2 and 5 of each decade. An axis of less than a decade gets more
    labels.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    class Ticks(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            few = super().tick_values(vmin, vmax)
            within = [tick for tick in few if vmin <= tick <= vmax]
            return few if len(within) > 1 else MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)

    axes.yaxis.set_major_locator(Ticks(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _draw_lines(
    axes: Axes,
    curve: FrontierCurve,
    height: Callable[[FrontierPoint], float],
    drawstyle: Literal["default", "steps-post"],
    nothing: str,
) -> None:
    """Draw the frontiers and the point of the amount. If no height is finite, show the text ``nothing``."""
    axes.set_xscale("log")
    axes.set_xlim(*curve.span)
    looks = [(curve.of, BLUE, 0, "in the long run")]
    if curve.before is not None:
        looks = [(curve.before, GREY, 1, "as it is"), (curve.of, BLUE, 0, "what-if")]
    finite = False
    for frontier, colour, dash, label in looks:
        points = [(point.amount.dollars, height(point)) for point in _sampled(frontier, curve.span)]
        finite = finite or any(value < inf for _, value in points)
        axes.plot(*zip(*points, strict=True), color=colour, ls=DASHES[dash], lw=1.8, label=label, drawstyle=drawstyle)
    if not finite:
        axes.text(0.5, 0.5, nothing, transform=axes.transAxes, ha="center", va="center")
        axes.set_yticks([], minor=False)
        axes.set_yticks([], minor=True)
    if curve.asked is None:
        _draw_amount(axes, curve.of, curve.of.amount, height, VERMILION, "the amount")
    else:
        _draw_amount(axes, curve.of, curve.of.amount, height, GREY, "as it is")
        _draw_amount(axes, curve.of, curve.asked, height, VERMILION, "what if")


def _unit(curve: FrontierCurve) -> tuple[str, float]:
    """Return the unit in which the longest finite time is at least 2, and the unit's seconds. If no time is finite, the
    unit is hours.
    """
    frontiers = (curve.of,) if curve.before is None else (curve.of, curve.before)
    times = [point.mean_seconds or 0.0 for frontier in frontiers for point in _sampled(frontier, curve.span)]
    return time_unit(max(times) or 2.0 * 3600.0)


def _draw_amount(
    axes: Axes, frontier: Frontier, amount: Money, height: Callable[[FrontierPoint], float], colour: str, words: str
) -> None:
    point = frontier.at(amount)
    value = height(point)
    label = f"{words}, {_thousands(amount.dollars)}"
    if not amount.micros:
        axes.text(0.02, 0.95, f"{words} is $0", transform=axes.transAxes, color=colour, va="top")
    elif value < inf:
        axes.plot([amount.dollars], [value], "o", color=colour, ms=7, label=label, zorder=3)
    else:
        why = "jobs queue" if point.mean_seconds is None else "nothing more to save"
        axes.axvline(amount.dollars, color=colour, ls=DASHES[1], lw=1.6, label=f"{label}: {why}")


def _amounts(axes: Axes, curve: FrontierCurve) -> None:
    """Draw the axis of dollars, shade the range in which jobs queue, and put the legend below the diagram."""
    frontier = curve.of
    cheapest, fastest = frontier.cheapest.dollars, frontier.fastest.dollars
    low, high = curve.span
    halvings, doublings = floor(log2(curve.base / low) + _ROUNDING), floor(log2(high / curve.base) + _ROUNDING)
    every = -(-(halvings + doublings + 1) // _MOST_TICKS)
    ticks = [curve.base * 2.0**power for power in range(-halvings, doublings + 1, every)]
    axes.set_xticks(ticks, [_thousands(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    times = "twice" if every == 1 else f"{2**every} times"
    axes.set_xlabel(f"budget (US dollars {frontier.a_period}; each tick is {times} the one before)")
    if cheapest > low:
        axes.axvspan(low, min(cheapest, high), color=GREY, alpha=0.18, lw=0, label="too small: jobs queue")
    if fastest < high:
        axes.axvline(max(fastest, low), color=GREY, ls=DASHES[2], lw=1.2, label="above: nothing faster to buy")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=8)


def _minutes(point: FrontierPoint) -> float:
    """Return minutes per dollar, or infinity if jobs queue or nothing is saved. Infinite points are not drawn."""
    return point.seconds_per_dollar / 60 if point.seconds_per_dollar else inf


def _thousands(dollars: float) -> str:
    """Format dollars in three digits, such as ``$950``, ``$20.4k``, ``$1.04M``."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if dollars >= 0.9995 * size * (10 if unit == "k" else 1):
            value = dollars / size
            decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"${value:,.{decimals}f}{unit}"
    return f"${dollars:,.0f}" if dollars >= 10 else f"${dollars:,.2f}"
