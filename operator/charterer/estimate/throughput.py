"""Seconds per step by width and batch size: the model of Pollux (OSDI'21 §3.2).

With m samples per GPU and pass, s passes, K GPUs:

    T_grad = α_g + β_g·m
    T_sync = 0 (K = 1),  α_l + β_l·(K − 2) on one node,  α_n + β_n·(K − 2) on several
    T      = (s − 1)·δ·T_grad + (T_grad^γ + T_sync^γ)^(1/γ),   δ = 1 (K = 1)

Pollux has no δ. Single passes hardly show how much of a step is computing and how much is synchronising, because the
two overlap. Further passes do not synchronise, so how long they take on several GPUs is only known once some have
run.

The unknowns are logarithms of ratios (``Unknown``), so all but the first have the same meaning for every class and
can be learned across classes. Two effects of a width describe how far the model is wrong at that width. One is added
to the log time of every step. The other is added to the log time of synchronising, which large batches hide and
further passes do not have. Both effects are normal around the mean that other classes showed at the width. The
remaining error at one batch size of a width is the effect of that cell. ``fitting`` estimates the unknowns and all
effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from charterer.estimate.cells import Array, BatchCell, CellEffect, CellEffects
from charterer.estimate.observation import Configuration, Shape

WIDTH_MISFIT = 0.08
"""Standard deviation of a width's effect on log seconds, assumed before classes have shown it. Such effects exist
because the GPUs of a node share its memory and its power."""
SYNC_MISFIT = 0.4
"""Standard deviation of a width's effect on the log seconds of synchronising. Such effects exist because libraries
choose the algorithm and the routes by the number of GPUs."""
CELL_MISFIT = 0.05
"""Standard deviation of the effect of a single batch size of a width. Such effects exist because kernels are chosen
by size."""
MOST_OVERLAP = log(9.0)
"""Value of the unknown OVERLAP beyond which γ stays at 10, which is Pollux's upper bound."""
_NO_SYNC = -1e3
"""Log seconds of synchronising on one GPU: e^-1000 is zero in floating point."""


class Unknown(IntEnum):
    """The model's unknowns. The values are natural logarithms of the quantities below, in which L is the largest
    batch per GPU."""

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
    FURTHER_PASS = 7
    """δ: seconds of a further pass where GPUs synchronise ÷ T_grad."""


SIZE = len(Unknown)

Normal = tuple[float, float]
"""Mean and variance of a normal variable."""


@dataclass(frozen=True, slots=True)
class LinearPrior:
    """A normal variable that is a sum of unknowns, each times its factor in ``slopes``."""

    slopes: Mapping[Unknown, float]
    normal: Normal


@dataclass(frozen=True, slots=True)
class StepFeatures:
    """The properties of n configurations on which their step times depend, each an array of length n.

    ``load``: samples per GPU and pass ÷ the largest number.
    ``repeats``: number of passes beyond the first.
    ``beyond_two``: K − 2, at least 0.
    ``synchronises``: whether K > 1.
    ``several_nodes``: whether there is more than one node.
    """

    load: Array
    repeats: Array
    beyond_two: Array
    synchronises: NDArray[np.bool_]
    several_nodes: NDArray[np.bool_]

    @classmethod
    def of(cls, configurations: Iterable[Configuration], largest_local: int) -> StepFeatures:
        """The features of the configurations, in their order. ``largest_local``: the largest batch per GPU."""
        columns = np.array(
            [(where.local, where.passes, where.shape.gpus, where.shape.nodes) for where in configurations], dtype=float
        ).reshape(-1, 4)
        local, passes, gpus, nodes = columns.T
        return cls(local / largest_local, passes - 1.0, np.maximum(gpus - 2.0, 0.0), gpus > 1.0, nodes > 1.0)


def log_step_times(unknowns: ArrayLike, features: StepFeatures, sync_effect: ArrayLike = 0.0) -> Array:
    """Log of T of n configurations. ``sync_effect`` (one or n numbers) is added to the log of T_sync."""
    return step_gradients(unknowns, features, sync_effect)[0]


def step_gradients(
    unknowns: ArrayLike, features: StepFeatures, sync_effect: ArrayLike = 0.0
) -> tuple[Array, Array, Array]:
    """Log of T of n configurations (n), its gradient by the unknowns (n × 8), and its derivative by log T_sync (n)."""
    x = np.asarray(unknowns, dtype=float)
    several, synchronises = features.several_nodes, features.synchronises
    fixed, overlap = np.exp(x[Unknown.FIXED]), np.exp(min(x[Unknown.OVERLAP], MOST_OVERLAP))
    compute = fixed + features.load
    growth = np.exp(np.where(several, x[Unknown.NODE_GROWTH], x[Unknown.LOCAL_GROWTH])) * features.beyond_two
    start = np.where(several, x[Unknown.NODE_SYNC], x[Unknown.LOCAL_SYNC])
    log_compute = np.log(compute)
    log_sync = np.where(synchronises, start + sync_effect + np.log1p(growth), _NO_SYNC)
    power = 1.0 + overlap
    log_sum = np.logaddexp(power * log_compute, power * log_sync)
    by_sync = np.exp(power * log_sync - log_sum)  # derivative of the log of the last pass by log T_sync
    by_compute = 1.0 - by_sync
    last_pass = np.exp(log_sum / power)
    further = features.repeats * compute * np.exp(np.where(synchronises, x[Unknown.FURTHER_PASS], 0.0))
    total = further + last_pass
    last_fraction = last_pass / total

    by_sync_total = last_fraction * by_sync
    gradient = np.zeros((len(total), SIZE))
    gradient[:, Unknown.COMPUTE] = 1.0
    gradient[:, Unknown.FIXED] = (further / total + last_fraction * by_compute) / compute * fixed
    by_growth = by_sync_total * growth / (1.0 + growth)
    gradient[:, Unknown.LOCAL_SYNC] = np.where(several, 0.0, by_sync_total)
    gradient[:, Unknown.LOCAL_GROWTH] = np.where(several, 0.0, by_growth)
    gradient[:, Unknown.NODE_SYNC] = np.where(several, by_sync_total, 0.0)
    gradient[:, Unknown.NODE_GROWTH] = np.where(several, by_growth, 0.0)
    gradient[:, Unknown.FURTHER_PASS] = np.where(synchronises, further / total, 0.0)
    if x[Unknown.OVERLAP] <= MOST_OVERLAP:
        by_power = (by_compute * log_compute + by_sync * log_sync - log_sum / power) / power
        gradient[:, Unknown.OVERLAP] = last_fraction * by_power * overlap
    return x[Unknown.COMPUTE] + np.log(total), gradient, by_sync_total


Effect = tuple[float, float]
"""The two effects of a width: one is added to log T of all its steps, the other to log T_sync."""
NO_EFFECT: Effect = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """How far the truth differs from the model in log seconds: the variances of the two effects of a width, and of a
    cell's effect.

    ``usual``: by width, the mean effect over classes, which for example shows a property of the interconnect.
    """

    width: float = WIDTH_MISFIT**2
    sync: float = SYNC_MISFIT**2
    cell: float = CELL_MISFIT**2
    usual: Mapping[Shape, Effect] = field(default_factory=dict)

    def mean_effect(self, shape: Shape) -> Effect:
        """The effect that is expected of a width on which the class has not run."""
        return self.usual.get(shape, NO_EFFECT)


@dataclass(frozen=True, slots=True)
class WidthEffect:
    """The estimated effect of a width that ran.

    ``effect``: its two components, which include the usual effect of the width.
    ``variance``: the variances of both components, given the unknowns.
    ``columns``: the indices of both components in the fit's covariance.
    ``count``: number of reports from the width.
    """

    effect: Effect
    variance: tuple[float, float]
    columns: tuple[int, int]
    count: int


@dataclass(frozen=True, slots=True)
class ModelPrediction:
    """Log seconds of a step by the model and the effects of widths alone: mean and variance."""

    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Log seconds of a step: mean, variance, and number of reports from its width."""

    mean: float
    variance: float
    count: int


@dataclass(frozen=True)
class StepTimeFit:
    """A fitted model of step times.

    ``unknowns``: their values.
    ``covariance``: covariance of the unknowns and then of the widths' effects.
    ``informed[u]``: the fraction of what is known of unknown u that comes from the class's own reports, from 0 (all
    prior) to 1.
    ``effects``: the effects of widths that ran.

    Nothing changes after the fit except the effects of cells, which change with each report (``follow``). So a batch
    size that turns out slow is abandoned at once.
    """

    unknowns: tuple[float, ...]
    covariance: Array
    informed: tuple[float, ...]
    largest_local: int
    misfit: Misfit
    effects: Mapping[Shape, WidthEffect]
    _cells: dict[Shape, CellEffects] = field(default_factory=dict, repr=False, compare=False)
    _followed: dict[Shape, tuple[Mapping[Configuration, BatchCell], float]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _by_model: dict[Configuration, ModelPrediction] = field(default_factory=dict, repr=False, compare=False)

    def predict(self, where: Configuration) -> Prediction:
        """Log seconds per step of a configuration."""
        model, own = self.by_model([where])[0], self.own_effects([where])[0]
        known = self.effects.get(where.shape)
        return Prediction(model.mean + own.mean, self.variance(model, own), 0 if known is None else known.count)

    def variance(self, model: ModelPrediction, own: CellEffect) -> float:
        """Variance of a cell's log seconds. The cell's own reports replace the model as they accumulate."""
        own_variance = own.deviation**2
        unseen = own_variance / self.misfit.cell
        return unseen * unseen * model.variance + own_variance

    def by_model(self, configurations: Sequence[Configuration]) -> list[ModelPrediction]:
        """Predictions without the cells' own effects, in the order given. This fit caches them."""
        known = [(where, self._by_model.get(where)) for where in configurations]
        missing = [where for where, model in known if model is None]
        if not missing:
            return [model for _, model in known if model is not None]
        found = dict(zip(missing, self._predict(missing), strict=True))
        self._by_model.update(found)
        return [found[where] if model is None else model for where, model in known]

    def _predict(self, configurations: Sequence[Configuration]) -> Iterable[ModelPrediction]:
        known = [self.effects.get(where.shape) for where in configurations]
        effects = np.array(
            [
                self.misfit.mean_effect(where.shape) if effect is None else effect.effect
                for where, effect in zip(configurations, known, strict=True)
            ]
        )
        features = StepFeatures.of(configurations, self.largest_local)
        means, gradient, by_sync_total = step_gradients(self.unknowns, features, effects[:, 1])
        slopes = np.zeros((len(means), len(self.covariance)))
        slopes[:, :SIZE] = gradient
        extra = self.misfit.width + by_sync_total**2 * self.misfit.sync
        for row, effect in enumerate(known):
            if effect is not None:
                slopes[row, list(effect.columns)] = 1.0, by_sync_total[row]
                extra[row] = 0.0
        variances = ((slopes @ self.covariance) * slopes).sum(axis=1) + extra
        return map(ModelPrediction, (means + effects[:, 0]).tolist(), variances.tolist())

    def own_effects(self, configurations: Sequence[Configuration]) -> list[CellEffect]:
        """The cells' own effects, which are the same objects at each call. All cells must have the same shape."""
        return self.of_width(configurations[0].shape).of(configurations) if configurations else []

    def follow(self, shape: Shape, cells: Mapping[Configuration, BatchCell], scatter: float) -> None:
        """Use the reports in ``cells`` for the effects of the cells of one width. ``scatter``: variance of one report.

        A width that is not in the last fit has effects only after the next fit. Effects are computed when they are read
        (``of_width``).
        """
        if shape in self.effects:
            self._followed[shape] = cells, scatter

    def of_width(self, shape: Shape) -> CellEffects:
        """The effects of a width's cells, from all reports."""
        found = self._cells.get(shape)
        if found is None:
            found = self._cells[shape] = CellEffects(self.misfit.cell)
        if (followed := self._followed.pop(shape, None)) is not None:
            cells, scatter = followed
            ran = [(where, cell) for where, cell in cells.items() if where.shape == shape]
            models = self.by_model([where for where, _ in ran])
            residuals = [cell.mean - model.mean for (_, cell), model in zip(ran, models, strict=True)]
            found.learn([where for where, _ in ran], residuals, [scatter / cell.weight for _, cell in ran])
        return found
