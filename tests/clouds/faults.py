"""What a test can make a cloud do wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

T = TypeVar("T")


class AnswerLost(Exception):
    """The connection breaks instead of an answer."""


@dataclass
class Planned:
    """A fault of the next ``times`` calls of an operation, or of all of them until a time of the cloud's clock.

    ``after``: calls that go well before. ``takes_effect``: whether the call does its work first. ``fault``: the error
    that is answered; None breaks the connection.
    """

    operation: str
    fault: Exception | None
    takes_effect: bool = False
    times: int = 1
    until: datetime | None = None
    after: int = 0


@dataclass
class Faults:
    """Faults in the order of planning; ``clock_skew``: seconds by which the server is ahead of the caller."""

    planned: list[Planned] = field(default_factory=list)
    clock_skew: float = 0.0

    def lose_answer(self, operation: str, *, takes_effect: bool, times: int = 1, after: int = 0) -> None:
        """Break the connection, before or after the call took effect."""
        self.planned.append(Planned(operation, None, takes_effect, times, after=after))

    def fail(self, operation: str, fault: Exception, *, takes_effect: bool = False, times: int = 1) -> None:
        """Answer an error, before or although the call took effect."""
        self.planned.append(Planned(operation, fault, takes_effect, times))

    def fail_for(self, operation: str, fault: Exception, now: datetime, seconds: float) -> None:
        """Answer an error to all calls of that operation for a while."""
        self.planned.append(Planned(operation, fault, until=now + timedelta(seconds=seconds)))

    def around(self, operation: str, now: datetime, act: Callable[[], T]) -> T:
        """The answer of ``act``, unless a fault is planned for that operation. AnswerLost, or the planned error."""
        planned = self._next(operation, now)
        if planned is None:
            return act()
        if planned.takes_effect:
            act()
        if planned.fault is None:
            raise AnswerLost
        raise planned.fault

    def _next(self, operation: str, now: datetime) -> Planned | None:
        self.planned = [p for p in self.planned if (p.times > 0 if p.until is None else now < p.until)]
        for planned in self.planned:
            if planned.operation in (operation, "*"):
                if planned.after > 0:
                    planned.after -= 1
                    continue
                if planned.until is None:
                    planned.times -= 1
                return planned
        return None
