"""How far a job is, as its pods report it."""

from __future__ import annotations

from dataclasses import dataclass, field

from charterer.domain.jobs.interactive import Usage
from charterer.domain.time import Instant

TRUSTED_FRACTION = 0.05
"""Fraction of the work from which on a job's own progress says more about its size than its class does."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last report of the current run's pods. ``fraction`` done in [0, 1]; ``throughput`` in the job's own unit.

    Two are equal that say the same. ``advanced``: when step or fraction moved last, as this process has seen; None
    where it has not heard of the run, or neither is reported. ``longest_pause``: the most seconds between two such
    moments, of which it has seen ``advances`` in all runs of the job. ``generation``: of the group in which they train
    (``domain.jobs.group``); None where they never named one. ``busy``: whether a cell runs in an interactive job's run,
    None where its worker has not said; ``usage``: what all its runs have said so.
    """

    run: int
    fraction: float | None
    step: int | None
    throughput: float | None
    at: Instant
    generation: int | None = None
    busy: bool | None = None
    usage: Usage | None = None
    advanced: Instant | None = field(default=None, compare=False)
    longest_pause: float = field(default=0.0, compare=False)
    advances: int = field(default=0, compare=False)

    @property
    def moves(self) -> bool:
        """Whether it says something that moves as the work is done."""
        return self.step is not None or self.fraction is not None
