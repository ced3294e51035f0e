"""The step times that were reported from one configuration (a cell), and all step times of a class on one GPU
type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from charterer.estimate.observation import Configuration, Shape

if TYPE_CHECKING:
    from charterer.estimate.throughput import StepTimeFit


# The step times that were reported from one configuration (a cell), and how they differ from the model's.
#
# Kernels are chosen by the size of a batch, and measured step times bend between powers of two: if a batch size is
# slower than the model says, one that is 6 % larger is mostly slower too. So for each width, the effects u on log
# seconds of m samples per GPU in each of s passes are one Gaussian process (kriging; Matheron 1963):
#
#   mean 0,    cov(u(m, s), u(m', s')) = variance · exp(-(|log m - log m'| + |log s - log s'|) / CELL_RANGE)
#
# So reports at one batch size inform about its neighbours. A batch size that is far from all that ran keeps the whole
# variance.


Array = NDArray[np.floating[Any]]

MEMORY_REPORTS = 100.0
"""Number of reports that a configuration remembers. At the usual scatter of 5 % its mean is then known to 0.5 %, less
than the model's own error, and code that became faster or slower shows soon."""
REPORT_SCATTER = 0.05
"""Standard deviation of log seconds between reports of one configuration, assumed until the class's own scatter has
been seen."""
SCATTER_REPORTS = 4.0
"""Number of reports that ``REPORT_SCATTER`` counts as."""
OUTLIER_SCATTERS = 4.0
"""Greatest distance of a report from the mean, in standard deviations. A report that is farther off counts as if it
were at this distance."""
CELL_RANGE = log(2.0) / 2.0
"""Difference of log batch at which the correlation is 1/e: kernels have sizes that are powers of two, and halfway to
the next power little is left in common. In tables measured on T4 and A100, 1/e lies between ratios of 1.25 and 1.35."""


@dataclass(slots=True)
class BatchCell:
    """The reports of one configuration, as mean and variance of the log seconds per step.

    ``weight``: number of reports remembered, at most ``MEMORY_REPORTS``; ``count``: number of all reports.
    """

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    count: int = 0

    def add(self, value: float, scatter: float) -> None:
        """Add a report of log seconds; an outlier is moved to ``OUTLIER_SCATTERS`` times ``scatter`` from the mean."""
        self.count += 1
        distance = value - self.mean
        if self.weight >= SCATTER_REPORTS:
            limit = OUTLIER_SCATTERS * scatter
            distance = min(max(distance, -limit), limit)
        self.weight = min(self.weight + 1.0, MEMORY_REPORTS)
        fraction = 1.0 / self.weight
        self.mean += fraction * distance
        self.variance = (1.0 - fraction) * (self.variance + fraction * distance * distance)


@dataclass(slots=True)
class CellEffect:
    """Mean and standard deviation of a cell's own effect on log seconds, as learned from all reports of its width."""

    mean: float
    deviation: float


def cell_positions(cells: Sequence[Configuration]) -> Array:
    """Positions of n cells of a width (n × 2): the logarithms of samples per GPU and pass, and of passes."""
    return np.asarray(np.log(np.array([(where.local, where.passes) for where in cells], dtype=float).reshape(-1, 2)))


def correlation(first: Array, second: Array) -> Array:
    """The correlations (n × m) of the effects at n and at m positions of a width."""
    return np.asarray(np.exp(-np.abs(first[:, None] - second[None]).sum(axis=2) / CELL_RANGE))


@dataclass(slots=True)
class CellEffects:
    """The effects of one width's cells. ``variance``: variance of each effect before any report. ``observed``: cells
    that ran."""

    variance: float
    observed: tuple[Configuration, ...] = ()
    _residuals: Array = field(default_factory=lambda: np.zeros(0))
    _precision: Array = field(default_factory=lambda: np.zeros((0, 0)))
    _effects: dict[Configuration, CellEffect] = field(default_factory=dict)

    def of(self, configurations: Sequence[Configuration]) -> list[CellEffect]:
        """The effects of cells, in the order given. A cell always gets the same CellEffect object, which ``learn``
        updates."""
        known = [(where, self._effects.get(where)) for where in configurations]
        missing = {where: CellEffect(0.0, 0.0) for where, effect in known if effect is None}
        if missing:
            self._update(missing)
            self._effects.update(missing)
        return [missing[where] if effect is None else effect for where, effect in known]

    def learn(self, observed: Sequence[Configuration], residuals: Sequence[float], scatter: Sequence[float]) -> None:
        """Replace the observations.

        For each observed cell, ``residuals`` has its mean log seconds minus those of the model, and ``scatter`` the
        variance of that mean.
        """
        self.observed = tuple(observed)
        at = cell_positions(self.observed)
        self._precision = np.linalg.inv(self.variance * correlation(at, at) + np.diag(scatter))
        self._residuals = np.array(residuals)
        self._update(self._effects)

    def _update(self, effects: Mapping[Configuration, CellEffect]) -> None:
        if not effects:
            return
        covariances = self.variance * correlation(cell_positions(list(effects)), cell_positions(self.observed))
        gains = covariances @ self._precision
        means = gains @ self._residuals
        deviations = np.sqrt(np.maximum(self.variance - (gains * covariances).sum(axis=1), 0.0))
        for effect, mean, deviation in zip(effects.values(), means.tolist(), deviations.tolist(), strict=True):
            effect.mean, effect.deviation = mean, deviation


# The step times reported of one class on one GPU type, and the last fit to them.


GROWN = 1.3
"""Ratio by which the reports of a width must have grown since the last fit before the next fit is due. Reports are
counted by width. If they were counted together, a new width beside a thousand reports of other widths would keep the
estimate of its first few reports for a hundred more."""
NEW_CELLS = 0.1
"""Fraction of configurations that may be new before the next fit is due. One new width is always enough."""
MOST_CELLS = 128
"""Configurations kept for a class and GPU type. Beyond that, the one that ran longest ago is forgotten."""


@dataclass(slots=True)
class StepTimes:
    """Statistics of the reports of one class on one GPU type, and the last fit to them.

    ``reports``: number of reports.
    ``new_reports``: for each width, number of reports since the last fit.
    ``new_cells``: number of configurations that are new since the last fit; a new width counts as ``MOST_CELLS``.
    ``scatter``: standard deviation of log seconds between reports of one configuration.
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
