"""Selectors of labels, by which a budget says which namespaces it pays for and in which pools it rents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector; an empty one selects all. Each expression is (key, operator, values).

    ``nothing``: no object is selected, whatever the terms are.
    """

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected: all terms must hold."""
        if self.nothing:
            return False
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            _holds(operator, values, labels.get(key)) for key, operator, values in self.match_expressions
        )

    def __str__(self) -> str:
        """The selector as ``kubectl get -l`` takes it."""
        terms = [f"{key}={value}" for key, value in self.match_labels]
        return ",".join([*terms, *(_as_text(*expression) for expression in self.match_expressions)])


def _holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"no selector operator: {operator}")


def _as_text(key: str, operator: str, values: tuple[str, ...]) -> str:
    match operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key} {operator.lower()} ({', '.join(values)})"


EVERYTHING = Selector()
"""Selects every object."""
NOTHING = Selector(nothing=True)
"""Selects no object."""
