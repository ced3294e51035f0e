"""Seconds per step by width and batch size: the model of Pollux (OSDI'21 §3.2).

With m samples per GPU and pass, s passes, K GPUs:

    T_grad = α_g + β_g·m
    T_sync = 0 (K = 1),  α_l + β_l·(K − 2) on one node,  α_n + β_n·(K − 2) on several
    T      = (s − 1)·T_grad + (T_grad^γ + T_sync^γ)^(1/γ)

The unknowns are logarithms of ratios (``Unknown``), so that all but the first mean the same for every class and can be
learned across classes. What the model gets wrong at a width is two effects of that width, normal about what other
classes showed there: on the time of all steps, and on that of synchronising, which large batches hide and further
passes do without. What is left at one batch size of it is an effect of that cell. (``fitting`` finds all of them.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import exp, log

from charterer.estimate.linear import Matrix, quadratic
from charterer.estimate.observation import Configuration, Shape

MEMORY_REPORTS = 100.0
"""A configuration remembers about so many reports: at the usual 5 % scatter its mean is then known to 0.5 %, less than
the model's own error, and code that became faster or slower shows soon."""
REPORT_SCATTER = 0.05
"""Standard deviation of log seconds between reports of one configuration, until its own has been seen."""
SCATTER_REPORTS = 4.0
"""How many reports' worth that is."""
WIDTH_MISFIT = 0.08
"""How far a whole width lies off the model (log seconds) before classes have shown it: GPUs of a node share its memory
and its power."""
SYNC_MISFIT = 0.4
"""How far the synchronisation of a width does (log seconds): its algorithm and its routes are chosen by the number."""
CELL_MISFIT = 0.05
"""How far single batch sizes of a width lie off beyond that: kernels are chosen by size."""
OUTLIER_SCATTERS = 4.0
"""A report farther off than so many standard deviations counts as being just there: a stall teaches little."""


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

Normal = tuple[float, float]
"""Mean and variance."""


@dataclass(slots=True)
class BatchCell:
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
    return step_and_slopes(unknowns, where, largest_local, sync)[0]


def step_and_slopes(
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
class StepTimeFit:
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

    def heard(self, where: Configuration, cell: BatchCell, scatter: float) -> None:
        """The reports of a cell are these now; ``scatter``: variance of one. A width that never ran waits for a fit."""
        if where.shape in self.effects:
            known = self.misfit.cell / (self.misfit.cell + scatter / cell.weight)
            effect = self.cells[where] = self.cell(where)
            effect.mean = known * (cell.mean - self.smooth(where))
            effect.deviation = ((1.0 - known) * self.misfit.cell) ** 0.5
            self._predicted.pop(where, None)

    def _predict(self, where: Configuration) -> Prediction:
        total, sync = self._effect(where.shape)
        mean, slope, share = step_and_slopes(self.unknowns, where, self.largest_local, sync)
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
