"""Seconds per step by width and batch size: the model of Pollux (OSDI'21 §3.2), fitted to reports with a prior.

With m samples per GPU and pass, s passes, K GPUs:

    T_grad = α_g + β_g·m
    T_sync = 0 (K = 1),  α_l + β_l·(K − 2) on one node,  α_n + β_n·(K − 2) on several
    T      = (s − 1)·T_grad + (T_grad^γ + T_sync^γ)^(1/γ)

The unknowns are logarithms of ratios (``Unknown``), so that all but the first mean the same for every class and can be
learned across classes. What the model gets wrong at a width is an effect of that width, normal in log T about what
other classes showed there; what is left at one batch size of it is an effect of that cell. The fit is the maximum a
posteriori with the widths' effects eliminated (exact, they are linear), by damped Gauss-Newton; its curvature gives the
uncertainty of every prediction, measured or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
WIDTH_MISFIT = 0.15
"""How far a whole width lies off the model (log seconds) before classes have shown it: one interconnect generation."""
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


def log_step(unknowns: Sequence[float], where: Configuration, largest_local: int) -> float:
    """Log of T."""
    return _log_step(unknowns, where, largest_local)[0]


def _log_step(x: Sequence[float], where: Configuration, largest_local: int) -> tuple[float, list[float]]:
    """Log of T and its gradient."""
    fixed = exp(x[1])
    compute = fixed + where.local / largest_local
    gpus = where.shape.gpus
    again = where.passes - 1
    slope = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    if gpus == 1:
        slope[1] = fixed / compute
        return x[0] + log(compute * where.passes), slope
    base, growth = (2, 3) if where.shape.nodes == 1 else (4, 5)
    per = exp(x[growth]) * (gpus - 2)
    sync = exp(x[base]) * (1.0 + per)
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
    return x[0] + log(total), slope


@dataclass(frozen=True, slots=True)
class Misfit:
    """How far the truth lies off the model in log seconds: variances of the effects of widths and of cells.

    ``usual``: the mean effect of some widths, a quirk of the interconnect that all classes meet.
    """

    width: float = WIDTH_MISFIT**2
    cell: float = CELL_MISFIT**2
    usual: Mapping[Shape, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Effect:
    """What is known of a width beyond the model: its mean and variance given the unknowns, and how it follows them.

    ``mean`` includes what is usual there.
    """

    mean: float
    variance: float
    follows: tuple[float, ...]
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
    effects: Mapping[Shape, _Effect]
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
        effect = self.effects.get(where.shape)
        beyond = self.misfit.usual.get(where.shape, 0.0) if effect is None else effect.mean
        return log_step(self.unknowns, where, self.largest_local) + beyond

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
        _, slope = _log_step(self.unknowns, where, self.largest_local)
        own = self.cell(where)
        mean, variance = self.smooth(where) + own.mean, own.deviation**2
        effect = self.effects.get(where.shape)
        if effect is None:
            return Prediction(mean, quadratic(self.covariance, slope) + self.misfit.width + variance, 0)
        slope = [one - other for one, other in zip(slope, effect.follows, strict=True)]
        return Prediction(mean, quadratic(self.covariance, slope) + effect.variance + variance, effect.count)


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
        start = None if self.fit is None else self.fit.unknowns
        self.fit = fit(self.cells, self.largest_local, prior, misfit, self.scatter**2, start)
        self.fitted_reports, self.fresh = self.reports, 0.0
        return self.fit


@dataclass(slots=True)
class _Pull:
    """The quadratic approximation at one point: its value, gradient and curvature, effects eliminated."""

    cost: float
    toward: list[float]
    curvature: Matrix
    effects: dict[Shape, _Effect]


def _pull(
    x: Sequence[float],
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
    widths: dict[Shape, tuple[list[float], list[float]]] = {}
    for where, cell in cells.items():
        mean, slope = _log_step(x, where, largest_local)
        weight = 1.0 / (misfit.cell + scatter / cell.weight)
        off = cell.mean - mean - misfit.usual.get(where.shape, 0.0)
        sums, follows = widths.setdefault(where.shape, ([1.0 / misfit.width, 0.0, 0.0], [0.0] * SIZE))
        sums[0] += weight
        sums[1] += weight * off
        sums[2] += cell.count
        cost += weight * off * off
        for at, one in enumerate(slope):
            if one:
                pulled = weight * one
                toward[at] += pulled * off
                follows[at] += pulled
                row = curvature[at]
                for other in range(at + 1):
                    row[other] += pulled * slope[other]
    effects: dict[Shape, _Effect] = {}
    for shape, ((precision, pulled, count), follows) in widths.items():
        cost -= pulled * pulled / precision
        share = [one / precision for one in follows]
        usual = misfit.usual.get(shape, 0.0)
        effects[shape] = _Effect(usual + pulled / precision, 1.0 / precision, tuple(share), int(count))
        for at, one in enumerate(follows):
            if one:
                toward[at] -= one * pulled / precision
                row = curvature[at]
                for other in range(at + 1):
                    row[other] -= one * share[other]
    return _Pull(cost, toward, curvature, effects)


def fit(
    cells: Mapping[Configuration, Cell],
    largest_local: int,
    prior: Sequence[Normal],
    misfit: Misfit,
    scatter: float,
    start: Sequence[float] | None = None,
) -> Fit:
    """The most likely unknowns given the reports and a prior for each (mean, variance), and how sure they are."""
    x = list(start) if start is not None else [mean for mean, _ in prior]
    if start is None and cells:
        x[0] += sum(cell.mean - log_step(x, where, largest_local) for where, cell in cells.items()) / len(cells)
    here = _pull(x, cells, largest_local, prior, misfit, scatter)
    damping = 0.0
    for _ in range(_MOST_STEPS):
        damped = [list(row) for row in here.curvature]
        for at in range(SIZE):
            damped[at][at] *= 1.0 + damping
        step = solve(cholesky(damped), here.toward)
        there = [min(max(one + by, -_FARTHEST), _FARTHEST) for one, by in zip(x, step, strict=True)]
        there[6] = min(there[6], _MOST_OVERLAP)
        pull = _pull(there, cells, largest_local, prior, misfit, scatter)
        moved = max(abs(one - other) for one, other in zip(there, x, strict=True))
        if pull.cost <= here.cost:
            x, here, damping = there, pull, damping * 0.2 if damping > 0.01 else 0.0
        else:
            damping = max(damping * 5.0, 0.05)
        if moved < _SETTLED:
            break
    covariance = inverse(cholesky(here.curvature))
    informed = tuple(min(max(1.0 - covariance[at][at] / variance, 0.0), 1.0) for at, (_, variance) in enumerate(prior))
    found = Fit(tuple(x), covariance, informed, largest_local, misfit, here.effects, {})
    for where, cell in cells.items():
        found.heard(where, cell, scatter)
    return found
