"""The step times reported of one class on one GPU type, and the last fit to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import TYPE_CHECKING

from charterer.estimate.batch_cell import MEMORY_REPORTS, REPORT_SCATTER, SCATTER_REPORTS, BatchCell
from charterer.estimate.observation import Configuration, Shape

if TYPE_CHECKING:
    from charterer.estimate.throughput import StepTimeFit

GROWN = 1.3
"""Ratio by which the reports of a width must have grown since the last fit for the next one. Counted by width, because
a new one has few: beside a thousand reports of others it would be known by its first few for a hundred more."""
NEW_CELLS = 0.1
"""Fraction of the configurations that may be new before the next fit is due; one new width is always enough."""
MOST_CELLS = 128
"""Configurations kept per class and GPU type; beyond that the one that ran longest ago is forgotten."""


@dataclass(slots=True)
class StepTimes:
    """Statistics of the reports of one class on one GPU type, and the last fit to them.

    ``reports``: how many there were. ``new_reports``: how many since the last fit, by width. ``new_cells``:
    configurations that are new since then (a new width counts as ``MOST_CELLS``). ``scatter``: standard deviation of
    log seconds between reports of one configuration.
    """

    largest_local: int
    cells: dict[Configuration, BatchCell] = field(default_factory=dict)
    reports: int = 0
    scatter: float = REPORT_SCATTER
    fit: StepTimeFit | None = None
    new_reports: dict[Shape, int] = field(default_factory=dict)
    new_cells: float = 0.0

    def add(self, where: Configuration, seconds: float) -> None:
        """Add a report of seconds per step."""
        cell = self.cells.pop(where, None)
        if cell is None:
            cell = BatchCell()
            new_width = self.fit is None or where.shape not in self.fit.effects
            self.new_cells += MOST_CELLS if new_width else 1.0
        cell.add(log(seconds), self.scatter)
        self.cells[where] = cell  # the latest is last
        if self.fit is not None:
            self.fit.follow(where.shape, self.cells, self.scatter**2)
        if len(self.cells) > MOST_CELLS:
            del self.cells[next(iter(self.cells))]
        self.reports += 1
        self.new_reports[where.shape] = self.new_reports.get(where.shape, 0) + 1

    @property
    def outgrown(self) -> bool:
        """Whether a new fit is due."""
        effects = {} if self.fit is None else self.fit.effects
        return (
            self.fit is None
            or self.new_cells > NEW_CELLS * len(self.cells)
            or any(
                number >= min(max((GROWN - 1.0) * effects[shape].count, 1.0), MEMORY_REPORTS)
                for shape, number in self.new_reports.items()
                if shape in effects
            )
        )

    def observed_scatter(self) -> float:
        """Standard deviation of log seconds between reports of one configuration, from all of them."""
        degrees = sum(max(cell.weight - 1.0, 0.0) for cell in self.cells.values())
        squares = sum(cell.weight * cell.variance for cell in self.cells.values())
        return sqrt((SCATTER_REPORTS * REPORT_SCATTER**2 + squares) / (SCATTER_REPORTS + degrees))

    def keep(self, fit: StepTimeFit) -> None:
        """Keep a fit to all reports."""
        self.fit = fit
        self.new_reports.clear()
        self.new_cells = 0.0
