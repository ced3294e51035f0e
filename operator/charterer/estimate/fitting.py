"""Fitting step times: the most likely unknowns and effects of widths, given the reports and a prior.

That is the maximum a posteriori by Gauss-Newton with damping (Levenberg 1944, Marquardt 1963), the widths' effects
eliminated from each of its steps; its curvature gives the uncertainty of every prediction, measured or not. Slow passes
and slow synchronisation can explain the same few reports, so that there may be more than one maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from operator import mul, sub

from charterer.estimate.linear import Matrix, cholesky, inverse, solve
from charterer.estimate.observation import Configuration, Shape
from charterer.estimate.throughput import (
    NO_EFFECT,
    SIZE,
    BatchCell,
    Effect,
    Misfit,
    Normal,
    StepTimeFit,
    Unknown,
    WidthEffect,
    log_step,
    step_and_slopes,
)

_MOST_STEPS = 100
_SETTLED = 1e-4
"""A step that promises to make the reports likelier by so little (twice the logarithm) is the last."""
_POOR, _GOOD = 0.25, 0.75
"""Steps are shortened after one that kept so little of what it promised, and lengthened again after one that kept so
much."""
_UNLIKELY = 3.0
"""Reports so many standard deviations less likely than expected have their fit begun anew from elsewhere."""
_FARTHEST = 12.0
_MOST_OVERLAP = log(9.0)


def fit(
    cells: Mapping[Configuration, BatchCell],
    largest_local: int,
    prior: Sequence[Normal],
    misfit: Misfit,
    scatter: float,
    last: StepTimeFit | None = None,
) -> StepTimeFit:
    """The most likely unknowns given the reports and a prior for each (mean, variance), and how sure they are.

    ``scatter``: variance of one report. ``last``: a former fit, to begin from. The likeliest that was found: from there
    or from what is expected, and where that leaves the reports unlikely (twice the negative logarithm is then χ² with
    a degree of freedom for each cell) from slower synchronisation too.
    """
    task = _FitProblem(cells, largest_local, prior, misfit, scatter)
    best = task.descend(task.expected() if last is None else task.remembered(last))
    if best.cost > len(cells) + _UNLIKELY * sqrt(2.0 * len(cells)):
        others = [task.expected(1.0), *([] if last is None else [task.expected()])]
        best = min([best, *map(task.descend, others)], key=_cost)
    _, curvature, widths = best.eliminated(0.0)
    covariance = inverse(cholesky(curvature))
    informed = tuple(min(max(1.0 - covariance[at][at] / variance, 0.0), 1.0) for at, (_, variance) in enumerate(prior))
    effects = {shape: replace(one, effect=best.widths[shape].effect) for shape, one in widths.items()}
    found = StepTimeFit(tuple(best.x), covariance, informed, largest_local, misfit, effects, {})
    for where, cell in cells.items():
        found.heard(where, cell, scatter)
    return found


@dataclass(slots=True)
class _Width:
    """A width's part of the quadratic approximation: the curvature and gradient of its effects, and how slopes of the
    unknowns go with them."""

    effect: Effect
    of_all: float
    of_both: float
    of_sync: float
    pulled: list[float]
    slopes: tuple[list[float], list[float]]
    count: int = 0

    def eliminated(self, damping: float) -> WidthEffect:
        """The effects at their best for these unknowns, and how that follows others."""
        every, sync = self.of_all * (1.0 + damping), self.of_sync * (1.0 + damping)
        scale = 1.0 / (every * sync - self.of_both * self.of_both)
        of_all, of_both, of_sync = sync * scale, -self.of_both * scale, every * scale
        first, second = self.pulled
        effect = (
            self.effect[0] + of_all * first + of_both * second,
            self.effect[1] + of_both * first + of_sync * second,
        )
        pairs = list(zip(*self.slopes, strict=True))
        follows = (
            [of_all * one + of_both * two for one, two in pairs],
            [of_both * one + of_sync * two for one, two in pairs],
        )
        return WidthEffect(effect, (of_all, of_sync), of_both, follows, self.count)


@dataclass(slots=True)
class _FitPoint:
    """Unknowns and widths' effects, and what they are like: ``cost`` (twice the negative logarithm of how likely) and
    its quadratic approximation, with half the gradient and curvature of the unknowns, and those of the widths."""

    x: Sequence[float]
    cost: float
    toward: list[float]
    curvature: Matrix
    widths: dict[Shape, _Width]

    def eliminated(self, damping: float) -> tuple[list[float], Matrix, dict[Shape, WidthEffect]]:
        """Gradient and curvature of the unknowns with the widths' effects at their best, and those (Schur complement).

        ``damping``: all steps are shorter by it, the effects' too.
        """
        toward, curvature = list(self.toward), [list(row) for row in self.curvature]
        for at in range(SIZE):
            curvature[at][at] *= 1.0 + damping
        found = {}
        for shape, width in self.widths.items():
            best = found[shape] = width.eliminated(damping)
            of_all, of_sync = best.follows
            for at, (one, two) in enumerate(zip(*width.slopes, strict=True)):
                if one:
                    toward[at] -= of_all[at] * width.pulled[0] + of_sync[at] * width.pulled[1]
                    row = curvature[at]
                    for other in range(at + 1):
                        row[other] -= one * of_all[other] + two * of_sync[other]
        return toward, curvature, found

    def step(self, damping: float) -> tuple[list[float], dict[Shape, Effect]]:
        """Where the approximation is best."""
        toward, curvature, best = self.eliminated(damping)
        moves = solve(cholesky(curvature), toward)
        x = [min(max(one + by, -_FARTHEST), _FARTHEST) for one, by in zip(self.x, moves, strict=True)]
        x[Unknown.OVERLAP] = min(x[Unknown.OVERLAP], _MOST_OVERLAP)
        moves = list(map(sub, x, self.x))
        return x, {shape: _followed(one, moves) for shape, one in best.items()}

    def promised(self, there: _FitPoint) -> float:
        """What going there gains as far as the approximation holds: if it is its best, else somewhat less than that."""
        found: float = sum(map(mul, self.toward, map(sub, there.x, self.x)))
        for shape, width in self.widths.items():
            found += sum(map(mul, width.pulled, map(sub, there.widths[shape].effect, width.effect)))
        return found

    def between(self, there: _FitPoint, part: float) -> tuple[list[float], dict[Shape, Effect]]:
        """Such a part of the way there."""
        effects = {}
        for shape, width in self.widths.items():
            every, sync = _between(width.effect, there.widths[shape].effect, part)
            effects[shape] = every, sync
        return _between(self.x, there.x, part), effects


def _between(one: Iterable[float], other: Iterable[float], part: float) -> list[float]:
    return [a + part * (b - a) for a, b in zip(one, other, strict=True)]


def _followed(best: WidthEffect, moves: Sequence[float]) -> Effect:
    """A width's effects once the unknowns have moved; its synchronisation is as little as these out of this world."""
    total, sync = (one - sum(map(mul, by, moves)) for one, by in zip(best.effect, best.follows, strict=True))
    return total, min(max(sync, -_FARTHEST), _FARTHEST)


@dataclass(frozen=True, slots=True)
class _FitProblem:
    """What is fitted to what."""

    cells: Mapping[Configuration, BatchCell]
    largest_local: int
    prior: Sequence[Normal]
    misfit: Misfit
    scatter: float

    def expected(self, slower_sync: float = 0.0) -> _FitPoint:
        """What was expected before any report, in proportion to all of them.

        ``slower_sync``: by how many standard deviations synchronisation is slower than that.
        """
        x = [mean for mean, _ in self.prior]
        for at in (Unknown.LOCAL_SYNC, Unknown.NODE_SYNC):
            x[at] += slower_sync * sqrt(self.prior[at][1])
        if self.cells:
            off = sum(cell.mean - log_step(x, where, self.largest_local) for where, cell in self.cells.items())
            x[Unknown.COMPUTE] += off / len(self.cells)
        return self.at(x, {where.shape: self._usual(where.shape) for where in self.cells})

    def remembered(self, last: StepTimeFit) -> _FitPoint:
        """A former fit."""
        known = {shape: one.effect for shape, one in last.effects.items()}
        return self.at(last.unknowns, {w.shape: known.get(w.shape, self._usual(w.shape)) for w in self.cells})

    def _usual(self, shape: Shape) -> Effect:
        return self.misfit.usual.get(shape, NO_EFFECT)

    def descend(self, here: _FitPoint) -> _FitPoint:
        """The nearest maximum of the likelihood."""
        damping = 0.0
        for _ in range(_MOST_STEPS):
            there = self.at(*here.step(damping))
            promised = here.promised(there)
            kept = (here.cost - there.cost) / promised if promised > 0.0 else 0.0
            if kept < _GOOD:  # perhaps across a valley: look at the bottom of the parabola through here and there
                there = min(there, self.at(*here.between(there, 1.0 / (2.0 - kept))), key=_cost)
            if kept < _POOR:
                damping = max(damping * 5.0, 0.05)
            elif kept > _GOOD:
                damping = damping * 0.2 if damping > 0.01 else 0.0
            here = min(there, here, key=_cost)
            if abs(promised) * (1.0 + damping) < _SETTLED:
                break
        return here

    def at(self, x: Sequence[float], effects: Mapping[Shape, Effect]) -> _FitPoint:
        """What these are like."""
        toward = [(mean - one) / variance for one, (mean, variance) in zip(x, self.prior, strict=True)]
        curvature = [[0.0] * SIZE for _ in range(SIZE)]
        for at, (_, variance) in enumerate(self.prior):
            curvature[at][at] = 1.0 / variance
        cost = sum((one - mean) ** 2 / variance for one, (mean, variance) in zip(x, self.prior, strict=True))
        of_all, of_sync = self.misfit.width, self.misfit.sync
        widths: dict[Shape, _Width] = {}
        for shape, effect in effects.items():
            usual = self._usual(shape)
            off = (effect[0] - usual[0], effect[1] - usual[1])
            cost += off[0] ** 2 / of_all + off[1] ** 2 / of_sync
            pulled = [-off[0] / of_all, -off[1] / of_sync]
            widths[shape] = _Width(effect, 1.0 / of_all, 0.0, 1.0 / of_sync, pulled, ([0.0] * SIZE, [0.0] * SIZE))
        for where, cell in self.cells.items():
            width = widths[where.shape]
            mean, slope, share = step_and_slopes(x, where, self.largest_local, width.effect[1])
            weight = 1.0 / (self.misfit.cell + self.scatter / cell.weight)
            far = cell.mean - mean - width.effect[0]
            cost += weight * far * far
            width.of_all += weight
            width.of_both += weight * share
            width.of_sync += weight * share * share
            width.pulled[0] += weight * far
            width.pulled[1] += weight * share * far
            width.count += cell.count
            first, second = width.slopes
            for at, one in enumerate(slope):
                if one:
                    part = weight * one
                    toward[at] += part * far
                    first[at] += part
                    second[at] += part * share
                    row = curvature[at]
                    for other in range(at + 1):
                        row[other] += part * slope[other]
        return _FitPoint(x, cost, toward, curvature, widths)


def _cost(point: _FitPoint) -> float:
    return point.cost
