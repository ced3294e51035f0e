"""What is known of the step times of one class on one GPU type: statistics of its reports, and the last fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

from charterer.estimate.fitting import fit
from charterer.estimate.observation import Configuration
from charterer.estimate.throughput import (
    MEMORY_REPORTS,
    REPORT_SCATTER,
    SCATTER_REPORTS,
    BatchCell,
    Misfit,
    Normal,
    StepTimeFit,
)

GROWN = 1.3
"""The fit is done anew once there are so many times the reports it was done with."""
NEW_CELLS = 0.1
"""So is it for a new width, and once more than a tenth of the configurations are new: of the first ten, for each."""
MOST_CELLS = 128
"""Configurations kept per class and GPU type: of more, the one that ran longest ago is forgotten."""


@dataclass(slots=True)
class StepTimes:
    """What is known of one class on one GPU type: statistics of its reports, and the last fit to them.

    ``reports``: how many there were. ``fresh``: new configurations since the last fit (a new width
    counts as many). Fitted anew only for enough of those, or for ``GROWN`` times the reports.
    """

    largest_local: int
    cells: dict[Configuration, BatchCell] = field(default_factory=dict)
    reports: int = 0
    scatter: float = REPORT_SCATTER
    fit: StepTimeFit | None = None
    fitted_reports: int = 0
    fresh: float = 0.0

    def add(self, where: Configuration, seconds: float) -> None:
        """One more report."""
        cell = self.cells.pop(where, None)
        if cell is None:
            cell = BatchCell()
            new_width = self.fit is None or where.shape not in self.fit.effects
            self.fresh += MOST_CELLS if new_width else 1.0
        cell.add(log(seconds), self.scatter)
        self.cells[where] = cell  # the latest is last
        if self.fit is not None:
            self.fit.heard(where, cell, self.scatter**2)
        if len(self.cells) > MOST_CELLS:
            del self.cells[next(iter(self.cells))]
        self.reports += 1

    @property
    def outgrown(self) -> bool:
        """Whether the last fit is to be done anew."""
        return (
            self.fit is None
            or self.fresh > NEW_CELLS * len(self.cells)
            or self.reports >= self.fitted_reports + min(max((GROWN - 1.0) * self.fitted_reports, 1.0), MEMORY_REPORTS)
        )

    def refit(self, prior: Sequence[Normal], misfit: Misfit) -> StepTimeFit:
        """Fit to all reports."""
        degrees = sum(max(cell.weight - 1.0, 0.0) for cell in self.cells.values())
        squares = sum(cell.weight * cell.variance for cell in self.cells.values())
        self.scatter = ((SCATTER_REPORTS * REPORT_SCATTER**2 + squares) / (SCATTER_REPORTS + degrees)) ** 0.5
        self.fit = fit(self.cells, self.largest_local, prior, misfit, self.scatter**2, self.fit)
        self.fitted_reports, self.fresh = self.reports, 0.0
        return self.fit
