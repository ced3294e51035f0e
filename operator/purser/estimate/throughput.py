"""Seconds per step by width and batch size: the model of Pollux (OSDI'21 §3.2), fitted to reports with a prior.

With m samples per GPU and pass, s passes, K GPUs:

    T_grad = α_g + β_g·m
    T_sync = 0 (K = 1),  α_l + β_l·(K − 2) on one node,  α_n + β_n·(K − 2) on several
    T      = (s − 1)·T_grad + (T_grad^γ + T_sync^γ)^(1/γ)

The unknowns are logarithms of ratios (``Unknown``), so that all but the first mean the same for every class and can be
learned across classes. What the model gets wrong at a width is two effects of that width, normal about what other
classes showed there: on the time of all steps, and on that of synchronising, which large batches hide and further
passes do without. What is left at one batch size of it is an effect of that cell. The fit is the maximum a posteriori
by damped Gauss-Newton, the widths' effects eliminated from each of its steps; its curvature gives the uncertainty of
every prediction, measured or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import exp, log

from purser.estimate.linear import Matrix, cholesky, inverse, quadratic, solve
from purser.estimate.observation import Configuration, Shape

MEMORY_REPORTS = 100.0
"""A configuration remembers about so many reports: at the usual 5 % scatter its mean is then known to 0.5 %, less than
the model's own error, and code that became faster or slower shows soon."""
REPORT_SCATTER = 0.05
"""Standard deviation of log seconds between reports of one configuration, until its own has been seen."""
SCATTER_REPORTS = 4.0
"""How many reports' worth that is."""
WIDTH_MISFIT = 0.05
"""How far a whole width lies off the model (log seconds) before classes have shown it: GPUs of a node share its memory
and its power."""
SYNC_MISFIT = 0.4
"""How far the synchronisation of a width does (log seconds): its algorithm and its routes are chosen by the number."""
CELL_MISFIT = 0.05
"""How far single batch sizes of a width lie off beyond that: kernels are chosen by size."""
OUTLIER_SCATTERS = 4.0
"""A report farther off than so many standard deviations counts as being just there: a stall teaches little."""
GROWN = 1.3
"""The fit is done anew once there are so many times the reports it was done with."""
NEW_CELLS = 0.1
"""So is it for a new width, and once more than a tenth of the configurations are new: of the first ten, for each."""
MOST_CELLS = 128
"""Configurations kept per class and GPU type: of more, the one that ran longest ago is forgotten."""
_MOST_STEPS = 25
_SETTLED = 1e-4
"""A step that makes the reports likelier by so little (twice the logarithm) is the last."""
_FARTHEST = 12.0


class Unknown(IntEnum):
    """The model's unknowns, natural logarithms; L is the largest batch per GPU."""

    COMPUTE = 0
    """β_g·L in seconds."""
    FIXED = 1
    """α_g / (β_g·L)."""
    LOCAL_SYNC = 2
    """α_l / (β_g·L)."""
    LOCAL_GROWTH = 3
    """β_l / α_l."""
    NODE_SYNC = 4
    """α_n / (β_g·L)."""
    NODE_GROWTH = 5
    """β_n / α_n."""
    OVERLAP = 6
    """γ − 1: 0 adds computation and synchronisation, ∞ hides the shorter one."""


SIZE = len(Unknown)
_MOST_OVERLAP = log(9.0)

Normal = tuple[float, float]
"""Mean and variance."""


@dataclass(slots=True)
class Cell:
    """The reports of one configuration: their number (at most ``MEMORY_REPORTS`` remembered), mean and variance of log
    seconds. ``count``: all reports ever."""

    weight: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    count: int = 0

    def add(self, value: float, scatter: float) -> None:
        """One more report of log seconds; outliers are drawn in."""
        self.count += 1
        off = value - self.mean
        if self.weight >= SCATTER_REPORTS:
            most = OUTLIER_SCATTERS * scatter
            off = min(max(off, -most), most)
        self.weight = min(self.weight + 1.0, MEMORY_REPORTS)
        part = 1.0 / self.weight
        self.mean += part * off
        self.variance = (1.0 - part) * (self.variance + part * off * off)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Log seconds per step: mean, variance, and how many reports there were of its width."""

    mean: float
    variance: float
    count: int


def log_step(unknowns: Sequence[float], where: Configuration, largest_local: int, sync: float = 0.0) -> float:
    """Log of T; ``sync`` is added to the log of T_sync."""
    return _log_step(unknowns, where, largest_local, sync)[0]


def _log_step(
    x: Sequence[float], where: Configuration, largest_local: int, off: float
) -> tuple[float, list[float], float]:
    """Log of T with T_sync so far off (logarithm); the gradient, and the derivative by that."""
    fixed = exp(x[1])
    compute = fixed + where.local / largest_local
    gpus = where.shape.gpus
    again = where.passes - 1
    slope = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    if gpus == 1:
        slope[1] = fixed / compute
        return x[0] + log(compute * where.passes), slope, 0.0
    base, growth = (2, 3) if where.shape.nodes == 1 else (4, 5)
    per = exp(x[growth]) * (gpus - 2)
    sync = exp(x[base] + off) * (1.0 + per)
    power = 1.0 + exp(x[6])
    longer, shorter = (compute, sync) if compute >= sync else (sync, compute)
    part = (shorter / longer) ** power
    grown = log(1.0 + part)
    both = longer * exp(grown / power)
    total = again * compute + both
    to_longer = both / longer / (1.0 + part)
    to_shorter = to_longer * part * longer / shorter
    by_compute, by_sync = (to_longer, to_shorter) if compute >= sync else (to_shorter, to_longer)
    slope[1] = (again + by_compute) * fixed / total
    slope[base] = by_sync * sync / total
    slope[growth] = slope[base] * per / (1.0 + per)
    by_power = both * (part * log(shorter / longer) / ((1.0 + part) * power) - grown / (power * power))
    slope[6] = by_power * (power - 1.0) / total
    return x[0] + log(total), slope, slope[base]


Effect = tuple[float, float]
"""Of a width: added to log T of all its steps, and to log T_sync."""
NO_EFFECT: Effect = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """How far the truth lies off the model in log seconds: variances of the two effects of widths, and of cells'.

    ``usual``: the mean effect of some widths, a quirk of the interconnect that all classes meet.
    """

    width: float = WIDTH_MISFIT**2
    sync: float = SYNC_MISFIT**2
    cell: float = CELL_MISFIT**2
    usual: Mapping[Shape, Effect] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WidthEffect:
    """What is known of a width beyond the model: its ``effect`` (with what is usual there) and, given the unknowns,
    the variance of each part and their ``covariance``; how each part ``follows`` the unknowns."""

    effect: Effect
    variance: tuple[float, float]
    covariance: float
    follows: tuple[Sequence[float], Sequence[float]]
    count: int


@dataclass(slots=True)
class CellEffect:
    """A cell's own effect on log seconds, which follows its reports: ``mean``, and its standard deviation."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Fit:
    """A fitted model: ``unknowns`` with their ``covariance``, the widths' effects, and the ``cells``'.

    All stays as it was fitted but the cells, which follow each report (``heard``): a batch size that disappoints is
    left at once. ``informed[u]``: how much of unknown u comes from the class's own reports, 0 (all prior) to 1.
    """

    unknowns: tuple[float, ...]
    covariance: Matrix
    informed: tuple[float, ...]
    largest_local: int
    misfit: Misfit
    effects: Mapping[Shape, WidthEffect]
    cells: dict[Configuration, CellEffect]
    _unheard: dict[Configuration, CellEffect] = field(default_factory=dict, repr=False, compare=False)
    _predicted: dict[Configuration, Prediction] = field(default_factory=dict, repr=False, compare=False)

    def predict(self, where: Configuration) -> Prediction:
        """Seconds per step there."""
        found = self._predicted.get(where)
        if found is None:
            found = self._predicted[where] = self._predict(where)
        return found

    def smooth(self, where: Configuration) -> float:
        """Log seconds per step without the cell's own effect: what neighbouring batch sizes have in common."""
        total, sync = self._effect(where.shape)
        return log_step(self.unknowns, where, self.largest_local, sync) + total

    def _effect(self, shape: Shape) -> Effect:
        known = self.effects.get(shape)
        return self.misfit.usual.get(shape, NO_EFFECT) if known is None else known.effect

    def cell(self, where: Configuration) -> CellEffect:
        """A cell's own effect; the same object for as long as the fit stands."""
        found = self.cells.get(where) or self._unheard.get(where)
        if found is None:
            found = self._unheard[where] = CellEffect(0.0, self.misfit.cell**0.5)
        return found

    def heard(self, where: Configuration, cell: Cell, scatter: float) -> None:
        """The reports of a cell are these now; ``scatter``: variance of one. A width that never ran waits for a fit."""
        if where.shape in self.effects:
            known = self.misfit.cell / (self.misfit.cell + scatter / cell.weight)
            effect = self.cells[where] = self.cell(where)
            effect.mean = known * (cell.mean - self.smooth(where))
            effect.deviation = ((1.0 - known) * self.misfit.cell) ** 0.5
            self._predicted.pop(where, None)

    def _predict(self, where: Configuration) -> Prediction:
        total, sync = self._effect(where.shape)
        mean, slope, share = _log_step(self.unknowns, where, self.largest_local, sync)
        known = self.effects.get(where.shape)
        if known is None:
            of_model = quadratic(self.covariance, slope) + self.misfit.width + share * share * self.misfit.sync
        else:
            slope = [one - two - share * three for one, two, three in zip(slope, *known.follows, strict=True)]
            of_all, of_sync = known.variance
            of_width = of_all + 2.0 * share * known.covariance + share * share * of_sync
            of_model = quadratic(self.covariance, slope) + of_width
        own = self.cell(where)
        unheard = own.deviation**2 / self.misfit.cell  # what a cell's own reports say needs no model
        variance = unheard * unheard * of_model + own.deviation**2
        return Prediction(mean + total + own.mean, variance, 0 if known is None else known.count)


@dataclass(slots=True)
class StepTimes:
    """What is known of one class on one GPU type: statistics of its reports, and the last fit to them.

    ``reports``: how many there were. ``fresh``: new configurations since the last fit (a new width
    counts as many). Fitted anew only for enough of those, or for ``GROWN`` times the reports.
    """

    largest_local: int
    cells: dict[Configuration, Cell] = field(default_factory=dict)
    reports: int = 0
    scatter: float = REPORT_SCATTER
    fit: Fit | None = None
    fitted_reports: int = 0
    fresh: float = 0.0

    def add(self, where: Configuration, seconds: float) -> None:
        """One more report."""
        cell = self.cells.pop(where, None)
        if cell is None:
            cell = Cell()
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

    def refit(self, prior: Sequence[Normal], misfit: Misfit) -> Fit:
        """Fit to all reports."""
        degrees = sum(max(cell.weight - 1.0, 0.0) for cell in self.cells.values())
        squares = sum(cell.weight * cell.variance for cell in self.cells.values())
        self.scatter = ((SCATTER_REPORTS * REPORT_SCATTER**2 + squares) / (SCATTER_REPORTS + degrees)) ** 0.5
        self.fit = fit(self.cells, self.largest_local, prior, misfit, self.scatter**2, self.fit)
        self.fitted_reports, self.fresh = self.reports, 0.0
        return self.fit


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
class _Pull:
    """The quadratic approximation at one point: its value, the unknowns' gradient and curvature, and the widths'."""

    cost: float
    toward: list[float]
    curvature: Matrix
    widths: dict[Shape, _Width]

    def eliminated(self, damping: float) -> tuple[list[float], Matrix, dict[Shape, WidthEffect]]:
        """Gradient and curvature of the unknowns with the widths' effects at their best, and those (Schur complement).

        ``damping``: all steps are shorter by it, the effects' too (Levenberg 1944, Marquardt 1963).
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


def _pull(
    x: Sequence[float],
    effects: Mapping[Shape, Effect],
    cells: Mapping[Configuration, Cell],
    largest_local: int,
    prior: Sequence[Normal],
    misfit: Misfit,
    scatter: float,
) -> _Pull:
    toward = [(mean - one) / variance for one, (mean, variance) in zip(x, prior, strict=True)]
    curvature = [[0.0] * SIZE for _ in range(SIZE)]
    for at, (_, variance) in enumerate(prior):
        curvature[at][at] = 1.0 / variance
    cost = sum((one - mean) ** 2 / variance for one, (mean, variance) in zip(x, prior, strict=True))
    widths: dict[Shape, _Width] = {}
    for shape, effect in effects.items():
        usual = misfit.usual.get(shape, NO_EFFECT)
        off = (effect[0] - usual[0], effect[1] - usual[1])
        cost += off[0] ** 2 / misfit.width + off[1] ** 2 / misfit.sync
        pulled = [-off[0] / misfit.width, -off[1] / misfit.sync]
        widths[shape] = _Width(effect, 1.0 / misfit.width, 0.0, 1.0 / misfit.sync, pulled, ([0.0] * SIZE, [0.0] * SIZE))
    for where, cell in cells.items():
        width = widths[where.shape]
        mean, slope, share = _log_step(x, where, largest_local, width.effect[1])
        weight = 1.0 / (misfit.cell + scatter / cell.weight)
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
    return _Pull(cost, toward, curvature, widths)


def fit(
    cells: Mapping[Configuration, Cell],
    largest_local: int,
    prior: Sequence[Normal],
    misfit: Misfit,
    scatter: float,
    last: Fit | None = None,
) -> Fit:
    """The most likely unknowns given the reports and a prior for each (mean, variance), and how sure they are.

    ``last``: a former fit, to begin from.
    """
    known = {} if last is None else last.effects
    effects = {
        where.shape: known[where.shape].effect if where.shape in known else misfit.usual.get(where.shape, NO_EFFECT)
        for where in cells
    }
    x = [mean for mean, _ in prior] if last is None else list(last.unknowns)
    if last is None and cells:
        x[0] += sum(cell.mean - log_step(x, where, largest_local) for where, cell in cells.items()) / len(cells)
    here = _pull(x, effects, cells, largest_local, prior, misfit, scatter)
    damping = 0.0
    for _ in range(_MOST_STEPS):
        toward, curvature, best = here.eliminated(damping)
        step = solve(cholesky(curvature), toward)
        there = [min(max(one + by, -_FARTHEST), _FARTHEST) for one, by in zip(x, step, strict=True)]
        there[6] = min(there[6], _MOST_OVERLAP)
        moves = [one - other for one, other in zip(there, x, strict=True)]
        followed = {shape: _followed(one, moves) for shape, one in best.items()}
        pull = _pull(there, followed, cells, largest_local, prior, misfit, scatter)
        gained = here.cost - pull.cost
        if gained >= 0.0:
            x, effects, here, damping = there, followed, pull, damping * 0.2 if damping > 0.01 else 0.0
            if gained < _SETTLED:
                break
        else:
            damping = max(damping * 5.0, 0.05)
    _, curvature, widths = here.eliminated(0.0)
    covariance = inverse(cholesky(curvature))
    informed = tuple(min(max(1.0 - covariance[at][at] / variance, 0.0), 1.0) for at, (_, variance) in enumerate(prior))
    widths = {shape: replace(one, effect=effects[shape]) for shape, one in widths.items()}
    found = Fit(tuple(x), covariance, informed, largest_local, misfit, widths, {})
    for where, cell in cells.items():
        found.heard(where, cell, scatter)
    return found


def _followed(best: WidthEffect, moves: Sequence[float]) -> Effect:
    """A width's effects once the unknowns have moved; its synchronisation is as little as these out of this world."""
    of_all, of_sync = best.follows
    total = best.effect[0] - sum(map(float.__mul__, of_all, moves))
    sync = best.effect[1] - sum(map(float.__mul__, of_sync, moves))
    return total, min(max(sync, -_FARTHEST), _FARTHEST)
