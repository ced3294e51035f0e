"""The comparison with today's practice as rows, and the sentence that summarises them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

from rich.table import Table

from demo.columns import Column, Columns, Parts
from demo.money import shown
from demo.scenario import Scenario

_SAME_MONEY = "  the same, for no more money"
_WORDS, _COST, _LESS, _TIME, _WHEN = 37, 7, 8, 9, 11
"""Widths of the table's columns. With the gaps they add up to 80 at most."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Time and money of one way to run the hour, in workload seconds.

    A wait lasts from submission until the pods run.
    """

    mean_completion_seconds: float
    mean_wait_seconds: float
    dollars: float
    machines: int
    interruptions: int

    @classmethod
    def of(cls, column: Column) -> Self:
        """Compute the figures of a column."""
        return cls(
            column.mean_completion_seconds,
            column.mean_wait_seconds,
            column.dollars,
            column.machines,
            column.interruptions,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A way to run the hour. ``cost`` and ``completion`` compare it with today's practice, such as ``73% less``."""

    words: str
    simulated: bool
    figures: Figures
    cost: str
    completion: str


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulations of a scenario.

    ``parts`` is None if every pool is part of today's practice, or before it is simulated.
    """

    of: Scenario
    columns: Columns
    parts: Parts | None = None

    @property
    def headline(self) -> str:
        """One sentence that compares the three columns.

        It names the GPUs that Charterer may rent and today's practice may not.
        """
        columns, beyond = self.columns, self.of.beyond_asked
        today, same, budget = map(Figures.of, (columns.autoscaler, columns.same_money, columns.budget))
        jobs = f"With {beyond} too, jobs" if beyond else "Jobs"
        cheaper = f"{jobs} cost {less(budget, today)} than today and end {when(budget, today)}"
        return f"{cheaper}; for no more money they end {when(same, today)}"

    @property
    def rows(self) -> tuple[Row, ...]:
        """Today's practice, Charterer at the demo's budget and for no more money, then Charterer with fewer offers."""
        today, beyond, parts = self.columns.autoscaler, self.of.beyond_asked, self.parts
        ways: list[tuple[str, Column]] = [
            ("today: Karpenter, as asked for" if today.measured else "today: T4 on demand, as asked for", today),
            (f"Charterer, with {beyond} too" if beyond else "Charterer", self.columns.budget),
            (_SAME_MONEY, self.columns.same_money),
        ]
        if parts is not None:
            ways += [
                ("Charterer without spot", parts.without_spot),
                ("Charterer with T4 on demand only", parts.as_today),
                (_SAME_MONEY, parts.as_today_same_money),
            ]
        return tuple(_row(words, column, today) for words, column in ways)

    def json(self) -> str:
        """Encode the summary of a demo without a real run as JSON."""
        return json.dumps({"headline": self.headline, "rows": [asdict(row) for row in self.rows]}, indent=2) + "\n"


def _row(words: str, column: Column, today: Column) -> Row:
    figures, than = Figures.of(column), Figures.of(today)
    told = ("", "") if column is today else (less(figures, than), when(figures, than))
    return Row(words, not column.measured, figures, *told)


def less(figures: Figures, than: Figures) -> str:
    """Return how much less or more the figures cost."""
    return _compared(figures.dollars, than.dollars, "less", "more")


def when(figures: Figures, than: Figures) -> str:
    """Return how much earlier or later jobs end."""
    return _compared(figures.mean_completion_seconds, than.mean_completion_seconds, "earlier", "later")


def _compared(value: float, other: float, below: str, above: str) -> str:
    """Return the relative difference, such as ``26% earlier``."""
    return f"{abs(value / other - 1.0):.0%} {below if value <= other else above}"


def minutes(seconds: float) -> str:
    """Format seconds as minutes, such as 15.4 min."""
    return f"{seconds / 60:.1f} min"


def table(of: Sequence[Row], title: str) -> Table:
    """Make a table of rows for a terminal of 80 columns. All such tables have the same columns."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    widths = (_WORDS, _COST, _LESS, _TIME, _WHEN)
    for name, width in zip((title, "cost", "", "completed", ""), widths, strict=True):
        made.add_column(name, justify="left" if name == title else "right", width=width, no_wrap=True)
    for row in of:
        made.add_row(*_cells(row))
    return made


def markdown(of: Sequence[Row]) -> str:
    """Format rows as the table in README.md."""
    head = ["| the same hour of jobs, simulated | cost | | completed after | |", "|---|--:|--:|--:|--:|"]
    lines = ["| " + " | ".join(_cells(row)).strip() + " |" for row in of]
    return "\n".join([*head, *(" ".join(line.split()) for line in lines)]) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    figures = row.figures
    return row.words, shown(figures.dollars), row.cost, minutes(figures.mean_completion_seconds), row.completion
