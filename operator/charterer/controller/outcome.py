"""The outcome of one mutation, and the interface of the executor that carries it out."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from charterer.domain.plan import Command
from charterer.domain.steps import Step


class ActionOutcome(StrEnum):
    """DONE: it took effect, now or before. STALE: what it was decided on has changed. FAILED: an error was raised.

    HELD: others keep it from being carried out for now. WITHHELD: a dry run has logged it and not made it.
    """

    DONE = "done"
    STALE = "stale"
    HELD = "held"
    WITHHELD = "withheld"
    FAILED = "failed"


class Held(Exception):
    """Others keep a step from being carried out for now; the message says who, and until when."""


class Executor(Protocol):
    """Carries out commands and steps, each as one mutation.

    A test's wrapper kills the process just before or just after one.
    """

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry one out. Returns DONE, STALE or WITHHELD, or raises ApiError, ProviderError or Held."""
