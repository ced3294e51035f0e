"""What jobs are given, and what a month spends, at smaller and smaller budgets:  python -m tests.bench.binding

The same jobs in the full simulator at one amount after the other: the world of ``year``, with right curves and a budget
that begins on the first of January without a history. An amount is a multiple of what the jobs would cost on one GPU
each, on the average. At the largest one the budget does not bind: nothing faster is left to buy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product, repeat
from statistics import fmean

from rich.console import Console
from rich.table import Table as Rows

from charterer.incremental import Memo
from charterer.policy.planner import plan
from tests.bench import year

AMOUNTS = (6.0, 3.0, 2.0, 1.5, 1.2)
_DAYS_A_MONTH = 30.5


@dataclass(frozen=True)
class Figures:
    """``amount``: dollars a month; ``spends``: by month. ``gpus``: what a running job holds, on the average over time.

    ``hours``: from submission to completion, the mean of the jobs.
    """

    amount: float
    spends: tuple[float, ...]
    gpus: float
    hours: float


def measure(dollars: float, seed: int, months: int) -> Figures:
    """So many months at one amount."""
    case = year.Case("binding", dollars=dollars)
    memo = Memo()
    result = year.simulated(case, seed, lambda snapshot: plan(snapshot, memo), _DAYS_A_MONTH * months + 1.5)
    lives = [(job, job.finished - job.started) for job in result.jobs if job.started is not None and job.finished]
    return Figures(
        case.amount,
        tuple(spent.dollars for _, spent in result.periods[:months]),
        sum(job.gpu_seconds for job, _ in lives) / sum(life for _, life in lives),
        result.mean_completion_seconds / 3600.0,
    )


def _row(dollars: float, years: Sequence[Figures]) -> tuple[str, ...]:
    off = [[100 * (spent / one.amount - 1) for spent in one.spends] for one in years]
    return (
        f"{dollars:g} x",
        f"${years[0].amount:,.0f}",
        f"{fmean(one.gpus for one in years):.1f}",
        f"{fmean(one.hours for one in years):.1f} h",
        *(", ".join(f"{month:+.1f} %" for month in column) for column in zip(*off, strict=True)),
    )


def main() -> None:
    """Print a row for each amount."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="worlds of each amount (2)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--months", type=int, default=2, help="months of each world (2)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    rows = Rows(
        "amount",
        "dollars a month",
        "GPUs of a running job",
        "a job takes",
        *(f"month {month + 1}: spend" for month in range(arguments.months)),
    )
    with ProcessPoolExecutor(arguments.workers) as pool:
        amounts, worlds = zip(*product(AMOUNTS, seeds), strict=True)
        figures = [*pool.map(measure, amounts, worlds, repeat(arguments.months))]
    for number, dollars in enumerate(AMOUNTS):
        rows.add_row(*_row(dollars, figures[number * len(seeds) :][: len(seeds)]))
    Console(width=132).print(rows)


if __name__ == "__main__":
    main()
