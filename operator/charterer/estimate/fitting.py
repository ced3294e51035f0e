"""Fitting step times: the most likely unknowns and effects of widths, given the reports and a prior.

The negative logarithm of the posterior is half a sum of squares: one for each configuration's residual, one for each
unknown's distance from its prior, and one for each effect of a width. ``scipy.optimize.least_squares`` minimises it
(maximum a posteriori), and the inverse of JᵀJ at the minimum is the covariance of all parameters. Slow passes and
slow synchronisation can both explain the same few reports, so there may be more than one minimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from charterer.estimate.cells import Array, BatchCell, StepTimes, cell_positions, correlation
from charterer.estimate.observation import Configuration, Shape
from charterer.estimate.throughput import (
    SIZE,
    LinearPrior,
    Misfit,
    Normal,
    StepFeatures,
    StepTimeFit,
    Unknown,
    WidthEffect,
    log_step_times,
    step_gradients,
)

_TOLERANCE = 1e-6
"""Relative change of the cost, or of the parameters, at which the fit ends. The cost is about the number of cells,
and a change of 1e-4 of the cost is too small to change any decision."""
_MOST_EVALUATIONS = 300
"""Largest number of evaluations, after which a fit ends where it is; 10 to 20 are usual."""
_NO_SUMS: Mapping[Unknown, LinearPrior] = {}
_UNLIKELY = 3.0
"""Number of standard deviations of χ². If the cost of a fit is farther above its expected value, the fit starts again
from other points."""


def fit(
    cells: Mapping[Configuration, BatchCell],
    largest_local: int,
    prior: Sequence[Normal],
    misfit: Misfit,
    scatter: float,
    last: StepTimeFit | None = None,
    sums: Mapping[Unknown, LinearPrior] = _NO_SUMS,
) -> StepTimeFit:
    """The most likely unknowns given the reports and a prior for each (mean, variance), with their covariance.

    ``scatter``: variance of one report.
    ``sums``: priors of sums of unknowns; each replaces the prior of the unknown that is its key.
    ``last``: an earlier fit to start from.

    The fit starts from ``last`` or from the prior. If the reports are unlikely at the minimum found, the fit also
    starts from the prior and from slower synchronisation, and returns the likeliest result. Reports are unlikely if
    twice the cost is too large for a χ² variable with one degree of freedom for each cell.
    """
    problem = _FitProblem(cells, largest_local, prior, misfit, scatter, sums)
    parameters, cost = problem.minimise(problem.expected() if last is None else problem.remembered(last))
    if cost > len(cells) + _UNLIKELY * sqrt(2.0 * len(cells)):
        starts = [problem.expected(1.0), *([] if last is None else [problem.expected()])]
        parameters, cost = min([(parameters, cost), *map(problem.minimise, starts)], key=lambda point: point[1])
    return problem.result(parameters)


def refit(
    times: StepTimes, prior: Sequence[Normal], misfit: Misfit, sums: Mapping[Unknown, LinearPrior] = _NO_SUMS
) -> StepTimeFit:
    """Fit to all reports of a class on a GPU type, and keep the result in ``times``."""
    times.scatter = times.observed_scatter()
    result = fit(times.cells, times.largest_local, prior, misfit, times.scatter**2, times.fit, sums)
    times.keep(result)
    return result


class _FitProblem:
    """Residuals and their Jacobian. The parameters are the unknowns, then two effects for each width that ran."""

    def __init__(
        self,
        cells: Mapping[Configuration, BatchCell],
        largest_local: int,
        prior: Sequence[Normal],
        misfit: Misfit,
        scatter: float,
        sums: Mapping[Unknown, LinearPrior],
    ) -> None:
        self._cells, self._largest_local, self._misfit, self._scatter = cells, largest_local, misfit, scatter
        self._shapes = list(dict.fromkeys(where.shape for where in cells))
        self._features = StepFeatures.of(cells, largest_local)
        self._values = np.array([cell.mean for cell in cells.values()])
        position = {shape: SIZE + 2 * index for index, shape in enumerate(self._shapes)}
        self._total = np.array([position[where.shape] for where in cells], dtype=int)
        self._whitening = self._whiten()
        usual = [effect for shape in self._shapes for effect in misfit.mean_effect(shape)]
        normals = [
            sums[unknown].normal if unknown in sums else normal for unknown, normal in zip(Unknown, prior, strict=True)
        ]
        self._mean = np.array([mean for mean, _ in normals] + usual)
        variances = [variance for _, variance in normals] + [misfit.width, misfit.sync] * len(self._shapes)
        self._deviation = np.sqrt(variances)
        self._prior_slopes = np.eye(len(self._deviation))
        for unknown, linear in sums.items():
            for other, slope in linear.slopes.items():
                self._prior_slopes[unknown, other] = slope
        self._rows = np.arange(len(cells))
        self._evaluated: tuple[Array, Array, Array] | None = None

    def _whiten(self) -> list[tuple[NDArray[np.intp], Array]]:
        """For each width, its cells, and the matrix that makes their residuals independent and of variance 1."""
        cells = list(self._cells.items())
        found: list[tuple[NDArray[np.intp], Array]] = []
        for column in dict.fromkeys(self._total.tolist()):
            rows = np.flatnonzero(self._total == column)
            of_width = [cells[row] for row in rows.tolist()]
            at = cell_positions([where for where, _ in of_width])
            scatter = np.diag([self._scatter / cell.weight for _, cell in of_width])
            covariance = self._misfit.cell * correlation(at, at) + scatter
            found.append((rows, np.linalg.inv(np.linalg.cholesky(covariance))))
        return found

    def expected(self, slower_sync: float = 0.0) -> Array:
        """The prior mean of the parameters, with the speed set so that the residuals of the reports are zero on
        average.

        ``slower_sync``: number of prior standard deviations that are added to the two synchronisation times.
        """
        start: Array = np.linalg.solve(self._prior_slopes, self._mean)
        for unknown in (Unknown.LOCAL_SYNC, Unknown.NODE_SYNC):
            start[unknown] += slower_sync * self._deviation[unknown]
        if self._cells:
            start[Unknown.COMPUTE] += np.mean(self._values - log_step_times(start[:SIZE], self._features))
        return start

    def remembered(self, last: StepTimeFit) -> Array:
        """The parameters of a former fit."""
        start = self._mean.copy()
        start[:SIZE] = last.unknowns
        for index, shape in enumerate(self._shapes):
            if (known := last.effects.get(shape)) is not None:
                start[SIZE + 2 * index : SIZE + 2 * index + 2] = known.effect
        return start

    def minimise(self, start: Array) -> tuple[Array, float]:
        """The parameters at the nearest minimum, and twice its cost."""
        found = least_squares(
            self._residuals,
            start,
            self._jacobian,
            method="lm",
            x_scale=self._deviation,
            ftol=_TOLERANCE,
            xtol=_TOLERANCE,
            max_nfev=_MOST_EVALUATIONS,
        )
        return found.x, 2.0 * float(found.cost)

    def result(self, parameters: Array) -> StepTimeFit:
        """The fit with these parameters."""
        jacobian = self._jacobian(parameters)
        information = jacobian.T @ jacobian
        covariance = np.linalg.inv(information)
        variances = np.diag(self._prior_slopes @ covariance @ self._prior_slopes.T)[:SIZE]
        informed = np.clip(1.0 - variances / self._deviation[:SIZE] ** 2, 0.0, 1.0)
        counts: dict[Shape, int] = dict.fromkeys(self._shapes, 0)
        for where, cell in self._cells.items():
            counts[where.shape] += cell.count
        effects = {}
        for index, shape in enumerate(self._shapes):
            at = SIZE + 2 * index
            given_unknowns = np.linalg.inv(information[at : at + 2, at : at + 2])
            effects[shape] = WidthEffect(
                (float(parameters[at]), float(parameters[at + 1])),
                (float(given_unknowns[0, 0]), float(given_unknowns[1, 1])),
                (at, at + 1),
                counts[shape],
            )
        unknowns = tuple(parameters[:SIZE].tolist())
        fitted = StepTimeFit(unknowns, covariance, tuple(informed.tolist()), self._largest_local, self._misfit, effects)
        fitted.by_model(list(self._cells))
        for shape in self._shapes:
            fitted.follow(shape, self._cells, self._scatter)
        return fitted

    def _residuals(self, parameters: Array) -> Array:
        return self._evaluate(parameters)[0]

    def _jacobian(self, parameters: Array) -> Array:
        return self._evaluate(parameters)[1]

    def _evaluate(self, parameters: Array) -> tuple[Array, Array]:
        if self._evaluated is not None and np.array_equal(self._evaluated[0], parameters):
            return self._evaluated[1:]
        means, gradient, by_sync_total = step_gradients(parameters[:SIZE], self._features, parameters[self._total + 1])
        count, size = len(means), len(parameters)
        residuals = np.empty(count + size)
        off = means + parameters[self._total] - self._values
        residuals[count:] = (self._prior_slopes @ parameters - self._mean) / self._deviation
        jacobian = np.zeros((count + size, size))
        slopes = np.zeros((count, size))
        slopes[:, :SIZE] = gradient
        slopes[self._rows, self._total] = 1.0
        slopes[self._rows, self._total + 1] = by_sync_total
        for rows, whitening in self._whitening:
            residuals[rows] = whitening @ off[rows]
            jacobian[rows] = whitening @ slopes[rows]
        jacobian[count:] = self._prior_slopes / self._deviation[:, None]
        self._evaluated = parameters.copy(), residuals, jacobian
        return residuals, jacobian
