"""What can be wrong with what a user wrote: named by object, field and value, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one object, found by the operator (what the API server can judge it refuses itself).

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
