"""Bisection on a logarithmic scale: where a condition on a positive number begins to hold."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt


def bisect(fails: float, holds: float, condition: Callable[[float], bool], halvings: int) -> tuple[float, float]:
    """The two ends that enclose where the condition begins to hold: the one where it fails, the one where it holds.

    Each halving tries the geometric mean of the ends, or half of ``holds`` as long as ``fails`` is 0. ``holds`` may be
    the smaller one.
    """
    for _ in range(halvings):
        middle = sqrt(fails * holds) if fails > 0.0 else holds / 2.0
        if condition(middle):
            holds = middle
        else:
            fails = middle
    return fails, holds
