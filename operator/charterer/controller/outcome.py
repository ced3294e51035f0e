"""The outcome of one mutation, and the interface of the executor that carries it out."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from charterer.domain.plan import Command
from charterer.domain.steps import Step


class ActionOutcome(StrEnum):
    """DONE: it took effect, now or before. STALE: what it was decided on has changed. FAILED: an error was raised."""

    DONE = "done"
    STALE = "stale"
    FAILED = "failed"


class Executor(Protocol):
    """Carries out commands and steps, each as one mutation.

    A test's wrapper kills the process just before or just after one.
    """

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry one out. Returns DONE or STALE, or raises ApiError or ProviderError."""
