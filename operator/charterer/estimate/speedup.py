"""A concave, non-decreasing curve through noisy points, and the time that a width is expected to take.

The curve is f(k) = c₀ + Σ_j c_j·min(k, k_j) with c₀, c_j ≥ 0 and k_j the widths: linear between its knots (c_j > 0),
flat after the last, and never more than proportional to the width, which keeps it above 0. In this basis of hinges the
weighted least squares fit is a non-negative least squares problem (Lawson and Hanson 1974, ch. 23).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
from scipy.optimize import nnls

_NORMAL = NormalDist()
_MOST_ITERATIONS_PER_WIDTH = 30
"""Iterations of the active set after which nnls gives up; a few per width are usual."""


def expected_time(log_mean: float, variance: float, fallback: float) -> float:
    """Expected time per unit of work of a width whose log time is normal, where a narrower one takes ``fallback``.

    A job that finds the width slower than the narrower one goes back, so that T counts as min(T, fallback); but an
    unlikely gain never makes it better than its median, and going back is never worse than staying (the mean of T).
    """
    spread, median = sqrt(variance), exp(log_mean)
    mean = median * exp(variance / 2.0)
    if not spread or fallback <= median:
        return median
    distance = (log(fallback) - log_mean) / spread
    capped = mean * _NORMAL.cdf(distance - spread) + fallback * (1.0 - _NORMAL.cdf(distance))
    return min(mean, max(median, capped))


def concave_fit(widths: Sequence[int], values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The concave non-decreasing values with f(0) ≥ 0 closest to ``values`` in Σ weight·(f − value)².

    ValueError unless the three are equally long, widths ascend from above 0, and weights are positive.
    """
    if not len(widths) == len(values) == len(weights):
        raise ValueError(f"{len(widths)} widths, {len(values)} values, {len(weights)} weights: give as many of each")
    if any(low >= high for low, high in pairwise((0, *widths))):
        raise ValueError(f"widths {list(widths)} must ascend from above 0")
    if any(not weight > 0.0 for weight in weights):
        raise ValueError(f"weights {list(weights)} must be above 0")
    if not widths:
        return []
    knots = np.array(widths, dtype=float)
    hinges = np.minimum(knots[:, None], knots[None, :]) / knots
    basis = np.column_stack([np.ones(len(knots)), hinges])
    root = np.sqrt(weights)
    root /= root.max()
    coefficients, _ = nnls(
        basis * root[:, None], np.asarray(values) * root, maxiter=_MOST_ITERATIONS_PER_WIDTH * len(knots)
    )
    fitted: list[float] = (basis @ coefficients).tolist()
    return fitted


def near_concave(
    widths: Sequence[int], values: Sequence[float], weights: Sequence[float], model_misfit: float
) -> list[float]:
    """The concave fit, drawn back to well-known values where true curves lie ``model_misfit`` off theirs.

    ``model_misfit`` is a standard deviation relative to the value; at 0 the result is the concave fit itself.
    """
    if not model_misfit:
        return concave_fit(widths, values, weights)
    misfits = [(model_misfit * value) ** 2 for value in values]
    smooth = concave_fit(
        widths, values, [1.0 / (1.0 / weight + own) for weight, own in zip(weights, misfits, strict=True)]
    )
    kept = [weight * own / (1.0 + weight * own) for weight, own in zip(weights, misfits, strict=True)]
    return [fit + keep * (value - fit) for fit, keep, value in zip(smooth, kept, values, strict=True)]
