"""A measure that exceeds a limit again and again: a sign test over its last values.

Where the median of a measure is at most the limit, each value exceeds it with a probability of at most one half,
whatever the distribution. Of WINDOW independent values, FOUND or more then do so with a probability of at most

    Σ_{k ≥ 28} C(30, k) / 2^30 = 466 / 2^30 = 4.3e-7

(Dixon and Mood 1946, "The statistical sign test"). The test is repeated with every value, so an hour of 360 reports has
a false finding with a probability of at most 1.6e-4 by the union bound, and that only where the truth lies at the limit
itself. No single value counts more than another, so pauses, however long, are two values at most.
"""

from __future__ import annotations

from array import array
from statistics import median
from typing import Final

WINDOW: Final = 30
"""Values that are looked at: five minutes of reports."""
FOUND: Final = 28
"""Values that must exceed the limit for a finding to begin. With 30, one pause of garbage collection would put it off
for five minutes; with 26 the bound above would be 3e-5 a value, one in a hundred hours."""
OVER: Final = 15
"""A finding ends where no more than so many do: the median is below the limit."""


class PersistentExcess:
    """The last values of a measure; ``found`` while they exceed ``limit`` persistently."""

    __slots__ = ("_next", "_values", "found", "limit")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.found = False
        self._values = array("f")
        self._next = 0

    def add(self, value: float) -> None:
        """Take in a value, which replaces the oldest one."""
        if len(self._values) < WINDOW:
            self._values.append(value)
        else:
            self._values[self._next] = value
            self._next = (self._next + 1) % WINDOW
        exceeding = sum([each > self.limit for each in self._values])
        self.found = exceeding >= FOUND or (self.found and exceeding > OVER)

    @property
    def full(self) -> bool:
        """Whether there are as many values as are looked at."""
        return len(self._values) == WINDOW

    @property
    def median(self) -> float:
        """The median of the last values; 0 before the first."""
        return median(self._values) if self._values else 0.0
