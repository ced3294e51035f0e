"""The outcome of one mutation, and the interface of the executor that carries it out."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from charterer.domain.plan import Command
from charterer.domain.steps import Step


class ActionOutcome(StrEnum):
    """DONE: it took effect, now or before. STALE: its inputs have changed since the decision. FAILED: an error was
    raised.

    HELD: something of others prevents it for now. WITHHELD: a dry run has logged it and not sent it.
    """

    DONE = "done"
    STALE = "stale"
    HELD = "held"
    WITHHELD = "withheld"
    FAILED = "failed"


class Held(Exception):
    """Something of others prevents a step for now. The message names it, and until when it may do so."""


class Executor(Protocol):
    """Carries out commands and steps, each as one mutation.

    A test's wrapper kills the process just before or just after one.
    """

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry one out. Returns DONE, STALE or WITHHELD. Raises ApiError, ProviderError or Held."""
