"""A concave, non-decreasing curve through noisy points: weighted least squares, solved exactly.

The curve is f(k) = c₀ + Σ_j c_j·min(k, k_j) with c₀, c_j ≥ 0 and k_j the widths: linear between its knots (c_j > 0),
flat after the last, and never more than proportional to the width, which keeps it above 0. From the least concave curve
above all points on, knots are removed where c_j would become negative and added one by one where the fit improves most,
the active-set method of Lawson and Hanson (1974, ch. 23); with given knots the fit is a tridiagonal system.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

from charterer.estimate.linear import tridiagonal

_NEGLIGIBLE = 1e-10
_TRIES_PER_WIDTH = 6


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
    normal = NormalDist()
    capped = mean * normal.cdf(distance - spread) + fallback * (1.0 - normal.cdf(distance))
    return min(mean, max(median, capped))


def concave_fit(widths: Sequence[int], values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The concave non-decreasing values with f(0) ≥ 0 closest to ``values`` in Σ weight·(f − value)².

    ValueError unless the three are equally long, widths ascend, and weights are positive.
    """
    if not len(widths) == len(values) == len(weights):
        raise ValueError(f"{len(widths)} widths, {len(values)} values, {len(weights)} weights: give as many of each")
    if any(low >= high for low, high in pairwise(widths)):
        raise ValueError(f"widths {list(widths)} must ascend")
    if any(not weight > 0.0 for weight in weights):
        raise ValueError(f"weights {list(weights)} must be above 0")
    if not widths:
        return []
    fitted = _fit(widths, values, weights)
    steepest = (fitted[1] - fitted[0]) / (widths[1] - widths[0]) if len(widths) > 1 else 0.0
    if fitted[0] >= steepest * widths[0]:
        return fitted
    # f(0) >= 0 binds: the best fit passes through the origin
    return _fit((0, *widths), (0.0, *values), (0.0, *weights), through_first=True)[1:]


def _fit(
    widths: Sequence[int], values: Sequence[float], weights: Sequence[float], through_first: bool = False
) -> list[float]:
    """The same without regard to f(0), or with the first value kept as it is (it must be 0)."""
    knots, fitted = _add(widths, values, weights, *_above(widths, values), through_first)
    scale = sum(weight * value * value for weight, value in zip(weights, values, strict=True)) ** 0.5
    scale *= sum(weights) ** 0.5 * widths[-1]
    for _ in range(_TRIES_PER_WIDTH * len(widths)):
        new = _best_knot(widths, values, weights, fitted, knots, _NEGLIGIBLE * scale)
        if new is None:
            break
        knots, fitted = _add(widths, values, weights, fitted, sorted((*knots, new)), through_first)
    return fitted


def _above(widths: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[int]]:
    """The least concave non-decreasing curve that is nowhere below the values, and its knots."""
    knots: list[int] = []
    for index in range(max(range(len(values)), key=values.__getitem__) + 1):
        while len(knots) > 1 and (values[index] - values[knots[-1]]) * (widths[knots[-1]] - widths[knots[-2]]) >= (
            values[knots[-1]] - values[knots[-2]]
        ) * (widths[index] - widths[knots[-1]]):
            knots.pop()
        knots.append(index)
    curve: list[float] = []
    for low, high in pairwise(knots):
        slope = (values[high] - values[low]) / (widths[high] - widths[low])
        curve.extend(values[low] + slope * (width - widths[low]) for width in widths[low:high])
    return curve + [values[knots[-1]]] * (len(values) - len(curve)), knots


def near_concave(
    widths: Sequence[int], values: Sequence[float], weights: Sequence[float], departure: float
) -> list[float]:
    """The concave fit, drawn back to the values by how sure they are where true curves lie ``departure`` off theirs.

    ``departure`` is a standard deviation relative to the value; at 0 it is the concave fit itself.
    """
    if not departure:
        return concave_fit(widths, values, weights)
    off = [(departure * value) ** 2 for value in values]
    smooth = concave_fit(widths, values, [1.0 / (1.0 / weight + own) for weight, own in zip(weights, off, strict=True)])
    shares = [weight * own / (1.0 + weight * own) for weight, own in zip(weights, off, strict=True)]
    return [fit + share * (value - fit) for fit, share, value in zip(smooth, shares, values, strict=True)]


def _with_knots(
    widths: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    knots: Sequence[int],
    through_first: bool,
) -> list[float]:
    """Least squares of the functions that bend only at ``knots`` (indices, the first one 0) and end flat."""
    count = len(knots)
    diagonal, beside, right = [0.0] * count, [0.0] * count, [0.0] * count
    parts: list[tuple[int, float]] = []
    at = 0
    for index, (width, value, weight) in enumerate(zip(widths, values, weights, strict=True)):
        while at + 1 < count and knots[at + 1] <= index:
            at += 1
        part = 0.0
        if at + 1 < count:
            start = widths[knots[at]]
            part = (width - start) / (widths[knots[at + 1]] - start)
            diagonal[at + 1] += weight * part * part
            beside[at] += weight * part * (1.0 - part)
            right[at + 1] += weight * part * value
        diagonal[at] += weight * (1.0 - part) * (1.0 - part)
        right[at] += weight * (1.0 - part) * value
        parts.append((at, part))
    if not through_first:
        heights = tridiagonal(diagonal, beside, right)
    elif count > 1:
        heights = [0.0, *tridiagonal(diagonal[1:], beside[1:], right[1:])]
    else:
        heights = [0.0]
    return [heights[at] + part * (heights[at + 1] - heights[at]) if part else heights[at] for at, part in parts]


def _bends(widths: Sequence[int], fitted: Sequence[float], knots: Sequence[int]) -> list[float]:
    """By how much the slope falls at each knot but the first."""
    if len(knots) == 1:
        return []
    slopes = [(fitted[high] - fitted[low]) / (widths[high] - widths[low]) for low, high in pairwise(knots)]
    return [before - after for before, after in zip(slopes, [*slopes[1:], 0.0], strict=True)]


def _best_knot(
    widths: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    fitted: Sequence[float],
    knots: Sequence[int],
    negligible: float,
) -> int | None:
    """The index where bending downward improves the fit fastest; None where nothing does."""
    best, steepest = None, negligible
    # c_j improves the fit by Σ weight·(value − f)·min(k, k_j): summed by parts, from what lies beyond each width
    beyond = sum(weight * (value - fit) for weight, value, fit in zip(weights, values, fitted, strict=True))
    gained = 0.0
    for index in range(1, len(widths)):
        before = index - 1
        beyond -= weights[before] * (values[before] - fitted[before])
        gained += beyond * (widths[index] - widths[before])
        if gained > steepest and index not in knots:
            best, steepest = index, gained
    return best


def _add(
    widths: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    fitted: list[float],
    knots: list[int],
    through_first: bool,
) -> tuple[list[int], list[float]]:
    """The best fit with at most these knots, reached from ``fitted`` without ever bending upward."""
    while True:
        wanted = _with_knots(widths, values, weights, knots, through_first)
        bends, wish = _bends(widths, fitted, knots), _bends(widths, wanted, knots)
        if all(bend >= 0.0 for bend in wish):
            return knots, wanted
        part, at = min(
            (max(now, 0.0) / (max(now, 0.0) - then), at)
            for at, (now, then) in enumerate(zip(bends, wish, strict=True))
            if then < 0.0
        )
        fitted = [one + part * (other - one) for one, other in zip(fitted, wanted, strict=True)]
        knots = [knot for index, knot in enumerate(knots) if index != at + 1]
