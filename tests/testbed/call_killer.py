"""Kills an operator during its calls to a cloud."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from tests.clouds.faults import AnswerLost
from tests.testbed.operators import OperatorProcess


@dataclass(slots=True)
class CallKiller:
    """Kills the operator before a call takes effect, or after it but before the response, once for each point."""

    operator: OperatorProcess
    points: set[str]

    def __call__(self, when: str, call: str) -> None:
        """Handle a point: a call is about to take effect (``before``), or has taken effect (``after``)."""
        point = f"{when} {call}"
        if point in self.points:
            self.points.remove(point)
            os.kill(self.operator.pid, signal.SIGKILL)
            raise AnswerLost


def around(things: Iterable[str]) -> set[str]:
    """Return the points before and after each thing."""
    return {f"{when} {thing}" for when in ("before", "after") for thing in things}
