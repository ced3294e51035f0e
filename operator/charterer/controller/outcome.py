"""What came of one mutation, and who carries it out."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from charterer.domain.plan import Command
from charterer.domain.steps import Step


class ActionOutcome(StrEnum):
    """DONE: it took effect (or had already). STALE: the world had changed; look again. FAILED: it did not work."""

    DONE = "done"
    STALE = "stale"
    FAILED = "failed"


class Executor(Protocol):
    """Carries out one command or step: ONE mutation.

    Returns DONE or STALE; raises what went wrong. A test's wrapper kills the process just before or just after.
    """

    async def execute(self, do: Command | Step) -> ActionOutcome:
        """Carry it out."""
