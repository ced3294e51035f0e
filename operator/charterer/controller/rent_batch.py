"""Renting waits until demand has rested for a moment, so that jobs that come together are planned together.

The first of three jobs would otherwise rent nodes for itself alone, and the plan for all three would give them back
half a second later, at the price of their billing minimum. What is idle is given back by the same rule, since the next
job of a batch may use it. Karpenter batches in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from charterer.domain.plan import Command, ReasonCode, Release, Rent

_BATCHED_RELEASES: Final = frozenset({ReasonCode.IDLE, ReasonCode.NOT_NEEDED, ReasonCode.INCOMPLETE_GANG})

_Demand = Counter[tuple[str, str]]
"""Nodes to rent by pool and budget, and rentals to give back by name."""


class RentBatch:
    """Holds commands back while the demand for nodes changes. Times are seconds of one steady clock."""

    def __init__(self, idle_seconds: float, longest_seconds: float) -> None:
        self._idle = idle_seconds
        self._longest = longest_seconds
        self._demand: _Demand = Counter()
        self._began = 0.0
        self._changed = 0.0
        self._let_through: _Demand = Counter()

    def ready(self, commands: Iterable[Command], now: float) -> tuple[Sequence[Command], float | None]:
        """The commands to carry out now, and in how many seconds those held back are; None if none is held back.

        What was let through once is not held back again while it is still being asked for, as after a failure.
        """
        wanted = list(commands)
        demand = Counter(key for command in wanted if (key := _key(command)) is not None)
        self._let_through &= demand
        if demand <= self._let_through:
            self._demand = Counter()
            return wanted, None
        if not self._demand:
            self._began = now
        if demand != self._demand:
            self._demand, self._changed = demand, now
        due = min(self._changed + self._idle, self._began + self._longest)
        if now >= due:
            self._let_through, self._demand = demand, Counter()
            return wanted, None
        return [command for command in wanted if _key(command) is None], due - now


def _key(command: Command) -> tuple[str, str] | None:
    if isinstance(command, Rent):
        return command.pool, command.budget
    if isinstance(command, Release) and command.reason.code in _BATCHED_RELEASES:
        return "", command.rental
    return None
