"""Small dense and banded linear algebra in plain Python: symmetric positive definite systems of a few unknowns."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

Matrix = list[list[float]]


def cholesky(matrix: Matrix) -> Matrix:
    """L with L Lᵀ = matrix (only its lower triangle is read); ValueError unless it is positive definite."""
    lower: Matrix = []
    for at, row in enumerate(matrix):
        new: list[float] = []
        for other in range(at):
            known = lower[other]
            new.append((row[other] - sum(map(float.__mul__, new, known))) / known[other])
        left = row[at] - sum(value * value for value in new)
        if not left > 0.0:
            raise ValueError(f"the matrix is not positive definite: pivot {at} is {left!r}")
        new.append(sqrt(left))
        lower.append(new)
    return lower


def solve(lower: Matrix, right: Sequence[float]) -> list[float]:
    """x with L Lᵀ x = right."""
    found: list[float] = []
    for row, value in zip(lower, right, strict=True):
        found.append((value - sum(map(float.__mul__, row, found))) / row[-1])
    for at in range(len(lower) - 1, -1, -1):
        value = found[at] / lower[at][at]
        found[at] = value
        row = lower[at]
        for other in range(at):
            found[other] -= row[other] * value
    return found


def inverse(lower: Matrix) -> Matrix:
    """(L Lᵀ)⁻¹."""
    size = len(lower)
    columns = [solve(lower, [1.0 if row == column else 0.0 for row in range(size)]) for column in range(size)]
    return columns


def quadratic(matrix: Matrix, vector: Sequence[float]) -> float:
    """vᵀ M v."""
    return sum(one * sum(map(float.__mul__, row, vector)) for one, row in zip(vector, matrix, strict=True))


def tridiagonal(diagonal: list[float], beside: list[float], right: list[float]) -> list[float]:
    """x of a symmetric tridiagonal positive definite system: ``beside[i]`` couples i and i + 1."""
    pivots, values = diagonal[:1], right[:1]
    for at in range(1, len(diagonal)):
        factor = beside[at - 1] / pivots[at - 1]
        pivots.append(diagonal[at] - factor * beside[at - 1])
        values.append(right[at] - factor * values[at - 1])
    values[-1] /= pivots[-1]
    for at in range(len(values) - 2, -1, -1):
        values[at] = (values[at] - beside[at] * values[at + 1]) / pivots[at]
    return values
