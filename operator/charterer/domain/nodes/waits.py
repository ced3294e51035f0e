"""What was counted of a pool's answers and starts, and the wait for a node (``estimate.nodes.waits``).

Answers are counted by hours: an hour in which a node was given, or one in which every ask was refused. So a burst of
launches, or of refusals, counts once. Hours are those of the week (UTC), because shortages follow working hours and
weekends.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Final

from charterer.domain.time import Instant

SLOTS: Final = 168
"""Hours of a week, from Monday 00:00 UTC on."""
STARTS_ASSUMED: Final = 2.0
"""Starts that the declared start-up time weighs against those that were seen."""
_START_GRID: Final = log(1.1)
"""Start-up times are used on a grid of 10 %: every new menu costs time, and a node differs from the next by more."""
_NONE: Final = (0.0,) * SLOTS


@dataclass(frozen=True, slots=True)
class NodeStart:
    """When a node was asked for, launched, and ready for pods."""

    asked: Instant
    launched: Instant
    ready: Instant


@dataclass(frozen=True, slots=True)
class LaunchHistory:
    """Counts of a pool's answers and starts; all numbers are of ``at`` and count for less later.

    ``given``: hours in which a node was given, by hour of the week; ``refused``: hours in which every ask was refused.
    ``last_given``, ``last_refused``: the latest such hour, in hours since 1970. ``starts``: nodes that became ready,
    with ``logs`` and ``squares``, the sums of the logarithms of their seconds from launch to readiness and of those
    squared, and ``queued``, the sum of their seconds from the ask to the launch. ``through``: starts up to then are
    counted. ``at``: None where nothing was counted yet.
    """

    given: tuple[float, ...] = _NONE
    refused: tuple[float, ...] = _NONE
    last_given: int = -1
    last_refused: int = -1
    starts: float = 0.0
    logs: float = 0.0
    squares: float = 0.0
    queued: float = 0.0
    through: Instant | None = None
    at: Instant | None = None

    @property
    def hours(self) -> float:
        """Hours with an answer."""
        return sum(self.given) + sum(self.refused)

    def start_seconds(self, declared: float) -> float:
        """Seconds from a node's launch to its readiness: the geometric mean of those seen and of the declared time."""
        if self.starts <= 0.0 or declared <= 0.0:
            return declared
        mean = (self.logs + log(declared) * STARTS_ASSUMED) / (self.starts + STARTS_ASSUMED)
        return exp(round(mean / _START_GRID) * _START_GRID)


NO_LAUNCHES: Final = LaunchHistory()


@dataclass(frozen=True, slots=True)
class ExpectedWait:
    """Seconds until the cloud gives a node that is asked for now, its start-up not included; nobody pays for them.

    ``low`` to ``high``: the 90 % interval. ``hours``: hours with an answer like this one that were seen; ``measured``:
    whether those are enough to wait for what they say.
    """

    seconds: float
    low: float
    high: float
    hours: float
    measured: bool
