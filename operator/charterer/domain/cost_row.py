"""A row of the record of costs, who used a rental's GPUs, and how much of what it cost is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from charterer.domain.budget import Cause, JobTime
from charterer.domain.money import ZERO, Money
from charterer.domain.time import Instant

# What the GPUs did that a job held, as far as its pods and their reports tell.


WHOLE: Final = 1_000
"""Parts into which GPU-time is divided."""
Parts = tuple[tuple[JobTime, int], ...]
"""How many of ``WHOLE`` parts were what; the rest is not known."""


class Spell(NamedTuple):
    """What GPUs do from ``since`` to the next spell."""

    since: Instant
    parts: Parts


SPELLS_KEPT: Final = 32
"""Most spells of one use. The last of so many says that nothing is known any more, so that no object grows without
bound and nothing is made up."""

# A row of the record of costs: what one rental cost for one purpose in a part of one day.
#
# The rows of a rental add up to its cost to the micro-dollar. They are written before its object is deleted, and
# never changed: what turns out wrong afterwards is made up for by a row of its own (``correction``).


@dataclass(frozen=True, slots=True)
class BilledMachine:
    """The machine of a rental, as its bill names it.

    ``cloud``: the key of its pool's spec, as ``aws``. ``account``: what identifies the account or project there, empty
    if the pool does not say. ``instance``: its id on the bill, empty if none ever came. ``gpus``: of the whole machine.
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
    """Whom a row is for: the job and its run, its class, who submitted it, and those of its labels that are recorded.

    ``user``: as the API server knew the person who created the job, empty if that was not recorded.
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
    """What ``rental`` cost for ``cause`` in [start, end), which lies within one day of the budget's time zone.

    ``payer`` is there exactly if the cause is ``Cause.JOB``. ``gpu_seconds``: GPUs held (or left free) times seconds;
    of a job's part of a shared GPU its part. ``hourly``: the price of the whole machine an hour, the average where it
    changed. ``time_zone``: the budget's, in which days and months are counted. ``correction``: the row makes up for
    rows that were written before the cloud said when the machine had ended; its cost may be negative, and its
    ``gpu_seconds`` are 0.

    ``part``: a rental is recorded part by part, each within one day and in one file. ``version``: of the GPURental that
    the part was made from, its resourceVersion. A part may be written again from a later one, if the operator ended
    before the GPURental said that it is on record: of each (``rental_uid``, ``part``) the highest version counts, and
    of that the highest ``edition``: the generation of the GPUBudget, whose time zone says where days and months begin.

    ``went_to``: what of ``cost`` is known to have been what, in a row of a job; the rest is not known.
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
        """Whether it says nothing but that its part has no other rows."""
        return self.cost == ZERO and not self.gpu_seconds


# Who used a rental's GPUs, and how much of what it cost is on record (docs/development/adr/0003).


USES_KEPT: Final = 200
"""Most uses of one rental on record: those of a day of eight GPUs that hold a job of an hour each. The oldest of more
are dropped (``Rental.uses_since``), so that no object grows without bound."""


@dataclass(frozen=True, slots=True)
class Use:
    """``gpus`` GPUs of a rental (or of the parts that its GPUs have), held by a run in [since, until).

    ``until`` is None while it holds them. ``spells``: what the GPUs did meanwhile, in order; before the first that is
    not known.
    """

    payer: Payer
    gpus: int
    since: Instant
    until: Instant | None = None
    spells: tuple[Spell, ...] = ()

    def did(self, at: Instant) -> Parts:
        """What its GPUs did from then to the next spell."""
        return next((spell.parts for spell in reversed(self.spells) if spell.since <= at), ())

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
