"""The outcome of one mutation, and the interface of the executor that carries it out."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from charterer.domain.plan import Command
from charterer.domain.steps import Step


class ActionOutcome(StrEnum):
    """DONE: the mutation took effect, now or before. STALE: the inputs of the mutation have changed since the decision.
    FAILED: an error was raised.

    HELD: something outside Charterer prevents the mutation for now. WITHHELD: a dry run has logged the mutation and not
    sent it.
    """

    DONE = "done"
    STALE = "stale"
    HELD = "held"
    WITHHELD = "withheld"
    FAILED = "failed"


class Held(Exception):
    """Something outside Charterer prevents a step for now. The message names the obstacle and the latest time at which
    it ends.
    """


class Executor(Protocol):
    """Carries out commands and steps, each as one mutation.

    A test's wrapper kills the process just before or just after a mutation.
    """

    async def execute(self, action: Command | Step) -> ActionOutcome:
        """Carry out one command or step. Returns DONE, STALE or WITHHELD. Raises ApiError, ProviderError or Held."""
