"""Errors in objects that users wrote: each names the object, the field and the remedy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in one object that the operator found. The API server already rejects errors that its schema can find.

    ``kind``, ``namespace`` (empty for cluster-scoped kinds) and ``name`` identify the object. ``field``: a path such as
    ``spec.curves[0].throughput``. ``reason``: a CamelCase word for a condition. ``message``: a sentence for a person.
    """

    kind: str
    namespace: str
    name: str
    field: str
    reason: str
    message: str


class InvalidObject(ValueError):
    """An object that cannot be decoded into a domain value. ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind} {problem.namespace}/{problem.name} {problem.field}: {problem.message}")
        self.problem = problem
