"""What classes of other namespaces may say of a class: each namespace has one vote, and none beyond what is likely.

Teams of one cluster need not trust each other, and whoever may create TrainingJobs reports what he likes. Classes of
the own namespace are believed as they are. The classes of another one are together what their median is, as far as
that is within a standard deviation of what is expected before anything was seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Generic, TypeVar

from charterer.domain.ids import ClassId
from charterer.estimate.throughput import Normal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Told(Generic[T]):
    """What classes tell: those of the ``own`` namespace, and those of each of the ``others``."""

    own: Sequence[T]
    others: Sequence[Sequence[T]]

    @classmethod
    def to(cls, listener: ClassId, told: Iterable[tuple[ClassId, T]]) -> Told[T]:
        """What is told to a class."""
        own: list[T] = []
        others: Mapping[str, list[T]] = defaultdict(list)
        for teller, value in told:
            (own if teller.namespace == listener.namespace else others[teller.namespace]).append(value)
        return cls(own, list(others.values()))


def vote(values: Sequence[float], expected: Normal) -> float:
    """The vote of one namespace, of which these are the values."""
    mean, variance = expected
    spread = sqrt(variance)
    return min(max(median(values), mean - spread), mean + spread)
