"""Mistakes in what a user wrote, named by object and field, with what to do about them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one object that the operator found (the API server refuses what it can judge itself).

    ``kind`` and ``name`` (with ``namespace`` where there is one) say which object, ``field`` is a path such as
    ``spec.curves[0].throughput``, ``reason`` the CamelCase word for a condition, ``message`` a sentence for a person.
    """

    kind: str
    namespace: str
    name: str
    field: str
    reason: str
    message: str


class InvalidObject(ValueError):
    """An object that cannot be decoded into a domain value; carries the Problem that says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind} {problem.namespace}/{problem.name} {problem.field}: {problem.message}")
        self.problem = problem
