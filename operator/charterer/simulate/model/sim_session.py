"""The sessions of a simulated interactive job: its cells, and what its owner waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from charterer.domain.jobs.interactive import Interactive, Usage
from charterer.domain.money import Price
from charterer.domain.time import Instant, after


class Cell(NamedTuple):
    """A cell of a notebook: its owner thinks for ``think`` seconds before it, and it runs for ``seconds``."""

    think: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Notebook:
    """What an interactive job's owner does with it, and says of it: ``hourly`` and ``idle_seconds`` as in the spec."""

    cells: Sequence[Cell]
    hourly: Price | None = None
    idle_seconds: float | None = None


@dataclass(slots=True, eq=False)
class SimSession:
    """An interactive job's state; times are seconds of the virtual clock.

    ``cell``: the number of the present or next cell, which ``asked_at`` waits for a GPU, or is ``busy`` on one.
    ``ready``: whether its worker runs. ``waits``: seconds that each cell waited. ``event`` tells events of a run that
    was stopped from those of the present one.
    """

    notebook: Notebook
    cell: int = 0
    asks: int = 0
    answered: int = 0
    served: int = 0
    asked_at: float | None = None
    ready: bool = False
    busy: bool = False
    idle_since: float | None = None
    start_seconds: float | None = None
    event: int = 0
    waits: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether all its cells have run."""
        return self.cell >= len(self.notebook.cells)

    def stop(self, *, answer: bool) -> None:
        """The run ends; ``answer``: because nobody uses its GPUs. A cell that runs begins anew in the next run."""
        self.ready = self.busy = False
        self.idle_since = None
        self.event += 1
        if answer:
            self.answered = self.served

    def shown(self) -> Interactive:
        """As the TrainingJob shows it."""
        told = self.notebook
        return Interactive(self.asks, told.hourly, told.idle_seconds, self.answered, self.served)

    def usage(self, start: Instant) -> Usage | None:
        """As the worker reports it; ``start``: of the virtual clock. None before its run's first report."""
        idle = None if self.idle_since is None else after(start, self.idle_since)
        return Usage(self.asks, idle, start_seconds=self.start_seconds) if self.ready else None
