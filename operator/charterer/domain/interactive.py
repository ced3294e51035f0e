"""What an interactive job asks for, and what was recorded of it (docs/development/adr/0019-interactive-jobs.md)."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.money import ZERO, Money, Price
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Interactive:
    """A job that has GPUs from an ask until they are given back.

    ``asks``: how often a GPU was asked for; ``answered``: the last ask whose GPU was given back; ``served``: the last
    ask that its present run, or its last one, was there for. ``hourly``: what an hour of its owner's waiting is worth
    at least. ``idle_seconds``: after which its GPUs are given back; None: by ``policy.actions.running_jobs``.
    ``busy_cost`` and ``idle_cost``: dollars of its GPUs while a cell ran and while none did, as of the last record.
    """

    asks: int = 0
    hourly: Price | None = None
    idle_seconds: float | None = None
    answered: int = 0
    served: int = 0
    busy_cost: Money = ZERO
    idle_cost: Money = ZERO

    @property
    def wants_gpus(self) -> bool:
        """Whether somebody asked for a GPU after the last one was given back."""
        return self.asks > self.answered


@dataclass(frozen=True, slots=True)
class Usage:
    """How the workers of an interactive job used its GPUs, as they report.

    ``asks``: of the job when the present run reported last. ``idle_since``: since when no cell runs in it, and nobody
    asked; None while one does. In all runs a cell ran for ``busy_seconds`` and none for ``idle_seconds``, up to the
    last report. ``start_seconds``: from when a run was given its GPUs to its first report, smoothed.
    """

    asks: int
    idle_since: Instant | None = None
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    start_seconds: float | None = None
