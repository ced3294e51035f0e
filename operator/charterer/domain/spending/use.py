"""Who used a rental's GPUs, and how much of what it cost is on record (docs/development/adr/0075)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from charterer.domain.money import Money
from charterer.domain.spending.cost_row import Payer
from charterer.domain.time import Instant

USES_KEPT: Final = 200
"""Most uses of one rental on record: those of a day of eight GPUs that hold a job of an hour each. The oldest of more
are dropped (``Rental.uses_since``), so that no object grows without bound."""


@dataclass(frozen=True, slots=True)
class Use:
    """``gpus`` GPUs of a rental (or of the parts that its GPUs have), held by a run in [since, until).

    ``until`` is None while it holds them.
    """

    payer: Payer
    gpus: int
    since: Instant
    until: Instant | None = None

    @property
    def key(self) -> tuple[str, int]:
        """The run: its job's uid and its number. It has several uses of a rental if it was resized in place."""
        return self.payer.job_uid, self.payer.run


@dataclass(frozen=True, slots=True)
class RecordedCost:
    """How much of a rental is in the record of costs: ``parts`` parts, which cost ``cost`` up to ``through``.

    ``correcting``: a file of a further part, which corrects these, may be there.
    """

    through: Instant
    cost: Money
    parts: int
    correcting: bool = False


@dataclass(frozen=True, slots=True)
class CostRecording:
    """The record of costs as the operator knows it.

    ``place``: where it is, empty if costs are not recorded. ``labels``: keys of those of a job's labels that are.
    ``users``: whether it is who created a job, which an admission policy then keeps true.
    ``written``: when something was last written. ``refused``: why the place takes nothing now, a sentence; empty if
    nothing is known to be wrong. ``every_seconds``: seconds between two files of one budget at least.
    """

    place: str = ""
    labels: tuple[str, ...] = ()
    users: bool = False
    written: Instant | None = None
    refused: str = ""
    every_seconds: float = 60.0


NO_RECORDING: Final = CostRecording()
