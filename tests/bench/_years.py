"""Simulated years of a budget: what is said of each month, in parallel processes, and the tables of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from statistics import fmean, pstdev

from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Rows

from charterer.policy.budgets.forecast import Forecast

ASKED_ON = (2, 5, 10, 15, 20, 25)
"""Days of each month on which the forecast is put on record."""


@dataclass(frozen=True)
class Month:
    """Dollars spent, the forecasts made of that by day, and the budget."""

    spend: float
    asked: tuple[tuple[int, Forecast], ...]
    budget: float


def options(description: str | None, years: int) -> argparse.ArgumentParser:
    """What can be said of simulated years; ``years`` of each case if nothing is."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=years, help=f"years of each case ({years})")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    return parser


def print_tables(
    arguments: argparse.Namespace, names: Sequence[str], simulate: Callable[[int, int], list[Month]]
) -> None:
    """``simulate`` the chosen cases, by number and seed, in parallel processes, and print their tables."""
    console = Console(width=132)
    cases = [number for number, name in enumerate(names) if arguments.only in name]
    years: dict[int, list[list[Month]]] = {number: [] for number in cases}
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with ProcessPoolExecutor(arguments.workers) as pool, Progress(console=console, transient=True) as bar:
        work = {pool.submit(simulate, number, seed): number for number in cases for seed in seeds}
        task = bar.add_task("simulated years", total=len(work))
        for future in as_completed(work):
            years[work[future]].append(future.result())
            bar.advance(task)
    simulated = [(names[number], years[number]) for number in cases]
    console.print(spends(simulated))
    console.print(forecasts(simulated))


def spends(simulated: Iterable[tuple[str, list[list[Month]]]]) -> Rows:
    """By case: what its years and periods spent against their budgets."""
    rows = Rows(
        "case", "year's spend", "years within 1 %", "within 5 %", "first ones", "sd of a period", "worst periods"
    )
    for name, years in simulated:
        months = [month.spend / month.budget - 1 for year in years for month in year]
        whole = [sum(m.spend for m in year) / sum(m.budget for m in year) - 1 for year in years]
        firsts = [year[0].spend / year[0].budget - 1 for year in years]
        rows.add_row(
            name,
            f"{100 * fmean(whole):+.2f} % ± {100 * pstdev(whole):.2f}",
            _share([abs(excess) <= 0.01 for excess in whole]),
            _share([abs(excess) <= 0.05 for excess in months]),
            _share([abs(excess) <= 0.05 for excess in firsts]),
            f"{100 * pstdev(months):.1f} %",
            f"{100 * min(months):+.0f} %, {100 * max(months):+.0f} %",
        )
    return rows


def forecasts(simulated: Iterable[tuple[str, list[list[Month]]]]) -> Rows:
    """By case and day of the period: how often the interval held, and how wide it was."""
    rows = Rows("case: nine in ten of", *(f"day {day}: holds, width" for day in ASKED_ON))
    for name, years in simulated:
        cells = []
        for day in ASKED_ON:
            made = [(month, forecast) for year in years for month in year for at, forecast in month.asked if at == day]
            holds = [forecast.low <= month.spend <= forecast.high for month, forecast in made]
            width = fmean((forecast.high - forecast.low) / month.budget for month, forecast in made) if made else 0.0
            cells.append(f"{_share(holds)}, ±{50 * width:.1f} %")
        rows.add_row(name, *cells)
    return rows


def _share(values: list[bool]) -> str:
    return f"{100 * fmean(values):.0f} %" if values else "-"
