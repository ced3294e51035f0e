"""The requests of an interactive job and its recorded usage (docs/development/adr/0019-interactive-jobs.md)."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.money import ZERO, Money, Price
from charterer.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Interactive:
    """A job that holds GPUs from a request until the GPUs are given back.

    ``asks``: the number of requests for a GPU. ``answered``: the number of the last request whose GPU was given back.
    ``served``: the number of the last request that the present (or last) run served. ``hourly``: the least value of an
    hour of its owner's waiting time. ``idle_seconds``: idle time after which the GPUs are given back; None for the
    default of ``policy.actions.running_jobs``. ``busy_cost``, ``idle_cost``: dollars of the GPUs while a cell ran and
    while no cell ran, as of the last record.
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
        """Whether somebody requested a GPU after the last one was given back."""
        return self.asks > self.answered


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of an interactive job's GPUs, as its workers report it.

    ``asks``: the number of requests when the present run last reported. ``idle_since``: when the last cell of the
    present run ended or the last request was made; None while a cell runs. ``busy_seconds``, ``idle_seconds``: seconds
    with and without a running cell, over all runs, up to the last report. ``start_seconds``: smoothed seconds from the
    allocation of a run's GPUs to the run's first report.
    """

    asks: int
    idle_since: Instant | None = None
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    start_seconds: float | None = None
