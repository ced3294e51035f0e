"""Rows of the record of costs, the uses of a rental's GPUs, and how much of a rental's cost is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from charterer.domain.budget import Cause, JobTime
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Instant

# The activity of the GPUs that a job held, as reported by its pods.


WHOLE: Final = 1_000
"""Number of equal parts into which GPU-time is divided."""
Parts = tuple[tuple[JobTime, int], ...]
"""For each use, its number of parts out of ``WHOLE``. If the parts add up to less than ``WHOLE``, the use of the rest
is unknown."""


class Spell(NamedTuple):
    """The activity of GPUs from ``since`` until the next spell begins."""

    since: Instant
    parts: Parts


SPELLS_KEPT: Final = 32
"""Maximum number of spells that one use keeps. If the limit is reached, the last spell is "unknown": the object's size
stays bounded and no activity is invented."""

# A row of the record of costs: the cost of one rental for one purpose in a part of one day.
#
# The rows of a rental add up to its cost to the micro-dollar. The rows are written before the rental's object is
# deleted, and are never changed. A later row with ``correction`` corrects a wrong row.


@dataclass(frozen=True, slots=True)
class BilledMachine:
    """The machine of a rental, as the cloud's bill names it.

    ``cloud``: the key in the pool's spec, such as ``aws``. ``account``: the account or project in that cloud; empty if
    the pool does not name it. ``instance``: the instance id on the bill; empty if no instance ever came. ``gpus``: GPUs
    of the whole machine.
    """

    cloud: str
    account: str
    region: str
    zone: str
    instance: str
    instance_type: str
    gpu_type: str
    gpus: int
    capacity_type: str


@dataclass(frozen=True, slots=True)
class Payer:
    """The job that a row is for: its run, its class, the person who submitted it, and its labels that are recorded.

    ``user``: the user name of the job's creator in the API server; empty if the name was not recorded.
    """

    namespace: str
    job: str
    job_uid: str
    run: int
    job_class: str
    user: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CostRow:
    """The cost of ``rental`` for ``cause`` in [start, end), which lies within one day of the budget's time zone.

    ``payer``: set exactly if the cause is ``Cause.JOB``. ``gpu_seconds``: GPUs held (or left free) times seconds; for a
    job on a shared GPU, only the job's part. ``hourly``: the price of the whole machine per hour; the average price if
    it changed. ``time_zone``: the budget's time zone, in which days and months are counted. ``correction``: the row
    corrects rows that were written before the cloud reported the machine's end; its cost may be negative, and its
    ``gpu_seconds`` are 0.

    ``part``: the number of the part of the rental; each part lies within one day and in one file. ``version``: the
    resourceVersion of the GPURental from which the part was made. ``edition``: the generation of the GPUBudget, whose
    time zone defines days and months. A part may be written again from a later version if the operator ended before the
    GPURental recorded the part. Of the rows of one (``rental_uid``, ``part``), only those of the highest version count,
    and of these only those of the highest edition.

    ``went_to``: the dollars of ``cost`` by use, as far as the use is known; only in rows of jobs.
    """

    budget: str
    budget_uid: str
    time_zone: str
    rental: str
    rental_uid: str
    pool: str
    machine: BilledMachine
    start: Instant
    end: Instant
    cause: Cause
    payer: Payer | None
    gpu_seconds: int
    hourly: Money
    cost: Money
    correction: bool = False
    part: int = 0
    version: int = 0
    edition: int = 0
    went_to: Mapping[JobTime, Money] = field(default_factory=dict)

    @property
    def void(self) -> bool:
        """Whether the row only says that its part has no other rows."""
        return self.cost == ZERO and not self.gpu_seconds


# The uses of a rental's GPUs, and how much of the rental's cost is on record (docs/development/adr/0003).


USES_KEPT: Final = 200
"""Maximum number of recorded uses of one rental. A day of eight GPUs with jobs of one hour has about that many. Older
uses are dropped (``Rental.uses_since``), so that the object's size stays bounded."""


@dataclass(frozen=True, slots=True)
class Use:
    """``gpus`` GPUs of a rental (or parts of its GPUs, if they are divided) that a run held in [since, until).

    ``until``: None while the run holds them. ``spells``: the activity of the GPUs, in order. Before the first spell,
    the activity is unknown.
    """

    payer: Payer
    gpus: int
    since: Instant
    until: Instant | None = None
    spells: tuple[Spell, ...] = ()

    def did(self, at: Instant) -> Parts:
        """The activity of the GPUs at the instant ``at``; empty if unknown."""
        return next((spell.parts for spell in reversed(self.spells) if spell.since <= at), ())

    @property
    def key(self) -> tuple[str, int]:
        """The run: the uid of its job, and its number. A run that was resized in place has several uses of a rental."""
        return self.payer.job_uid, self.payer.run


@dataclass(frozen=True, slots=True)
class RecordedCost:
    """The recorded part of a rental's cost: ``parts`` parts, which cost ``cost`` up to ``through``.

    ``correcting``: a file with a further part that corrects these parts may exist.
    """

    through: Instant
    cost: Money
    parts: int
    correcting: bool = False


@dataclass(frozen=True, slots=True)
class CostRecording:
    """The state of the record of costs, as the operator knows it.

    ``place``: its location; empty if costs are not recorded. ``labels``: keys of the job labels that are recorded.
    ``users``: whether jobs' creators are recorded; an admission policy then guarantees that they are true. ``written``:
    the time of the last write. ``refused``: a sentence on why the location accepts no writes now; empty if no error is
    known. ``every_seconds``: minimum seconds between two files of one budget.
    """

    place: str = ""
    labels: tuple[str, ...] = ()
    users: bool = False
    written: Instant | None = None
    refused: str = ""
    every_seconds: float = 60.0


NO_RECORDING: Final = CostRecording()
