"""The picture: GPUs rented and used, and money spent against the budget, over the workload's time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from demo.baseline import Baseline
from demo.scenario import Scenario
from demo.view import View

RENTED, USED, BUDGET, ASKED = "#56B4E9", "#0072B2", "#D55E00", "#7F7F7F"
"""Colours from the palette of Okabe and Ito, for colour-blind readers; lines differ in dashes, too."""

_LEGEND: Mapping[str, Any] = {"frameon": False, "loc": "lower right", "bbox_to_anchor": (1.0, 0.99), "ncols": 3}


def draw(scenario: Scenario, views: Sequence[View], asked: Baseline, files: Sequence[Path]) -> None:
    """Draw to each file, in the format of its suffix. ValueError without any view."""
    if not views:
        raise ValueError("there is nothing to draw: the demo ended before anything was observed")
    with mpl.rc_context(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "demo"}
    ):
        figure = Figure(figsize=(9, 6.4), layout="constrained")
        gpus, money = figure.subplots(2, 1, sharex=True)
        _draw_gpus(gpus, views, asked)
        _draw_money(money, scenario, views, asked)
        end = max(views[-1].at, *(node.ended for node in asked.nodes)) / 60
        money.set_xlim(0, end * 1.01)
        money.xaxis.set_major_locator(MultipleLocator(15))
        money.set_xlabel("time of the workload (minutes)")
        for file in files:
            figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)


def timeline_csv(views: Sequence[View]) -> str:
    """The picture's numbers as CSV: workload seconds, GPUs, dollars spent and allowed, dollars per job-hour saved."""
    rows = ["at,rented_gpus,used_gpus,spent,allowed,pays"]
    for view in views:
        money = view.money
        pays = "" if money.pays is None else f"{money.pays:.2f}"
        rows.append(f"{view.at:.0f},{view.rented_gpus},{view.used_gpus},{money.spent:.6f},{money.allowed:.2f},{pays}")
    return "\n".join(rows) + "\n"


def _minutes(views: Sequence[View]) -> list[float]:
    return [view.at / 60 for view in views]


def _draw_gpus(axes: Axes, views: Sequence[View], asked: Baseline) -> None:
    minutes = _minutes(views)
    times, rented = _asked_gpus(asked)
    axes.fill_between(
        minutes, [view.rented_gpus for view in views], step="post", color=RENTED, alpha=0.45, lw=0, label="rented"
    )
    axes.step(minutes, [view.used_gpus for view in views], where="post", color=USED, lw=1.6, label="in use")
    axes.step(
        times, rented, where="post", color=ASKED, lw=1.2, ls=(0, (2, 1.5)), label="rented if as asked (simulated)"
    )
    axes.set_ylabel("GPUs")
    axes.set_ylim(bottom=0)
    axes.set_title("GPUs", loc="left", fontweight="bold")
    axes.legend(**_LEGEND)
    axes.grid(axis="y", alpha=0.25)


def _draw_money(axes: Axes, scenario: Scenario, views: Sequence[View], asked: Baseline) -> None:
    minutes = _minutes(views)
    axes.plot(minutes, [view.money.spent for view in views], color=USED, lw=1.8, label="spent (the cloud's bill)")
    end, last = scenario.window[1] - scenario.window[0], max(view.at for view in views)
    axes.plot(
        [0, end / 60, last / 60],
        [0, scenario.allowed(end), scenario.allowed(last)],
        color=BUDGET,
        lw=1.6,
        ls=(0, (6, 2)),
        label=f"budget (${scenario.hourly_budget:.0f} for the hour's jobs)",
    )
    asked_until = max(node.ended for node in asked.nodes)
    times = [asked_until * step / 200 for step in range(201)]
    axes.plot(
        [at / 60 for at in times],
        [_asked_dollars(asked, at) for at in times],
        color=ASKED,
        lw=1.2,
        ls=(0, (2, 1.5)),
        label="spent if as asked (simulated)",
    )
    axes.set_ylabel("US dollars")
    axes.set_ylim(bottom=0)
    axes.set_title("Money", loc="left", fontweight="bold")
    axes.legend(**_LEGEND)
    axes.grid(axis="y", alpha=0.25)


def _asked_gpus(asked: Baseline) -> tuple[list[float], list[int]]:
    """The rented GPUs of the simulation after each change, and the minutes of the changes."""
    changes: dict[float, int] = {0.0: 0}
    for node in asked.nodes:
        changes[node.launched] = changes.get(node.launched, 0) + node.pool.gpus_per_node
        changes[node.ended] = changes.get(node.ended, 0) - node.pool.gpus_per_node
    times, gpus, now = [], [], 0
    for at in sorted(changes):
        now += changes[at]
        times.append(at / 60)
        gpus.append(now)
    return times, gpus


def _asked_dollars(asked: Baseline, at: float) -> float:
    """Dollars that the simulation's nodes have cost up to the second ``at``."""
    return sum(node.dollars * _fraction(at, node.launched, node.ended) for node in asked.nodes)


def _fraction(at: float, begin: float, end: float) -> float:
    return min(1.0, max(0.0, (at - begin) / (end - begin)))
