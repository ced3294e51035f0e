"""The opaque field of a status with statistics that only Charterer reads: of budgets, classes and pools."""

from __future__ import annotations

import base64
import binascii
import logging
import zlib
from abc import abstractmethod
from typing import Annotated, ClassVar, Final, Self, TypeVar

from pydantic import Field, ValidationError

from charterer.api.models.base import ApiModel, Mirror, PartOf, Time, dump_json
from charterer.domain.budget import ClassHistory
from charterer.domain.pool import (
    BAND_ENDS,
    NO_LAUNCHES,
    NOTHING_COUNTED,
    SLOTS,
    Hazard,
    LaunchHistory,
    NodeLifetimes,
    Pool,
)
from charterer.domain.time import Instant
from charterer.estimate.waits import availability

# The opaque field of a status: its statistics are compressed, versioned and bounded in bytes.


MACHINE_STATE_BYTES: Final = 262_144
"""Maximum bytes of ``data``, which is ASCII: a sixth of etcd's limit for one object."""
_UNPACKED_BYTES: Final = 16_777_216
"""Maximum bytes of the JSON in ``data``. Charterer wrote no data that decompresses to more."""


class MachineContent(ApiModel):
    """The content of a machine state. A change of meaning takes a new version."""

    VERSION: ClassVar[int] = 1

    @abstractmethod
    def smaller(self) -> Self | None:
        """The content without its oldest or least informative part; None if nothing more can be dropped."""


_C = TypeVar("_C", bound=MachineContent)


class PackedStatistics(ApiModel):
    """Statistics that only Charterer reads. If this field is deleted, they are learned again."""

    version: Annotated[int, Field(ge=1, le=1_000_000)]
    """Version of the format of data."""
    data: Annotated[str, Field(max_length=MACHINE_STATE_BYTES)]
    """JSON, compressed with zlib and encoded in base64."""

    @classmethod
    def unpacked(cls, state: PackedStatistics | None, content: type[_C]) -> _C | None:
        """The content of a state; None without a state.

        Raises ValueError, which names the unreadable field and the cause.
        """
        if state is None:
            return None
        if state.version != content.VERSION:
            raise ValueError(
                f"status.machineState.version: this operator reads version {content.VERSION}, not {state.version}"
            )
        try:
            inflate = zlib.decompressobj()
            text = inflate.decompress(base64.b64decode(state.data, validate=True), _UNPACKED_BYTES)
            if not inflate.eof:
                raise ValueError(f"it is cut off, or longer than {_UNPACKED_BYTES} bytes")
            return content.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise ValueError(f"status.machineState.data: {where}: {first['msg']}") from error
        except (binascii.Error, zlib.error, ValueError) as error:
            raise ValueError(f"status.machineState.data: {error}") from error


def packed(content: _C) -> tuple[PackedStatistics | None, _C | None]:
    """The content as a state, made smaller until it fits, and the packed content; both None if nothing is left."""
    kept: _C | None = content
    while kept is not None:
        data = base64.b64encode(zlib.compress(dump_json(kept).encode(), 9)).decode()
        if len(data) <= MACHINE_STATE_BYTES:
            return PackedStatistics(version=content.VERSION, data=data), kept
        kept = kept.smaller()
    return None, None


# GPUBudget.status.machineState: costs of finished jobs against their predictions, beyond the fields for people.


_DROPPED_AT_ONCE: Final = 8
"""Divisor of the number of entries: an eighth is dropped at a time, so that few attempts reach the size limit."""

_Dollars = Annotated[float, Field(ge=0)]
_Log = Annotated[float, Field(allow_inf_nan=False)]


class ClassCostStatistics(PartOf[ClassHistory]):
    """The part of ``domain.budget.ClassHistory`` that ``status.classes`` does not show."""

    squares: _Dollars
    since: Time
    at: Time
    arrivals: _Dollars = 0.0
    recent_arrivals: _Dollars = 0.0
    complete: _Dollars = 0.0
    cost_logs: _Log = 0.0
    cost_log_squares: _Dollars = 0.0
    life_logs: _Log = 0.0
    life_log_squares: _Dollars = 0.0


class BudgetStatistics(MachineContent):
    """The statistics behind ``status.classes``.

    ``classes``: by name of the class. ``counted``: finish times by uid of the finished jobs in the sums after
    ``status.countedThrough``.
    """

    classes: dict[str, ClassCostStatistics] = Field(default_factory=dict)
    counted: dict[str, Time] = Field(default_factory=dict)

    def smaller(self) -> Self | None:
        """The content without the oldest eighth of the counted jobs, or of the classes if no job is left."""
        if self.counted:
            oldest = sorted(self.counted, key=lambda uid: (self.counted[uid], uid))
            kept = oldest[max(1, len(oldest) // _DROPPED_AT_ONCE) :]
            return self.model_copy(update={"counted": {uid: self.counted[uid] for uid in sorted(kept)}})
        if self.classes:
            stalest = sorted(self.classes, key=lambda name: (self.classes[name].at, name))
            kept = stalest[max(1, len(stalest) // _DROPPED_AT_ONCE) :]
            return self.model_copy(update={"classes": {name: self.classes[name] for name in sorted(kept)}})
        return None


# Statistics of a pool's nodes: a summary for people in GPUPool.status, the whole in its machineState.


_log = logging.getLogger(__name__)
_BANDS: Final = len(BAND_ENDS)
_Sum = Annotated[float, Field(ge=0, le=1e12)]
_ByBand = Annotated[tuple[_Sum, ...], Field(min_length=_BANDS, max_length=_BANDS)]
_Week = Annotated[tuple[_Sum, ...], Field(min_length=SLOTS, max_length=SLOTS)]
_Hour = Annotated[int, Field(ge=-1, le=10_000_000)]
_DIGITS: Final = 4
"""Recorded decimals of hours. Finer differences of an hour do not change a decision."""

# --- machineState -----------------------------------------------------------------------------------------------------


class LifetimeStatistics(Mirror[NodeLifetimes]):
    """``domain.pool.NodeLifetimes`` of a pool from which a node has ended."""

    deaths: _ByBand
    hours: _ByBand
    events: _Sum
    shared: _Sum
    joint: _Sum
    announced: _Sum
    at: Time
    recent: tuple[Time, ...]
    counted: tuple[str, ...]
    ordinal: Annotated[int, Field(ge=0)] = 0


class LaunchStatistics(Mirror[LaunchHistory]):
    """``domain.pool.LaunchHistory``."""

    given: _Week
    refused: _Week
    last_given: _Hour
    last_refused: _Hour
    starts: _Sum
    logs: _Sum
    squares: _Sum
    queued: _Sum
    through: Time | None = None
    at: Time

    @classmethod
    def from_domain(cls, launches: LaunchHistory) -> Self:
        """The model of the statistics."""
        given, refused = (
            tuple([round(hours, _DIGITS) for hours in week]) for week in (launches.given, launches.refused)
        )
        return cls.copy_of(launches, given=given, refused=refused)


class PoolStatistics(MachineContent):
    """The statistics of a pool. A part is None if nothing was counted for it."""

    lifetimes: LifetimeStatistics | None = None
    answers: LaunchStatistics | None = None

    @classmethod
    def from_domain(cls, lifetimes: NodeLifetimes, launches: LaunchHistory) -> Self | None:
        """All parts; None if nothing was counted."""
        parts = cls(
            lifetimes=None if lifetimes.at is None else LifetimeStatistics.from_domain(lifetimes),
            answers=None if launches.at is None else LaunchStatistics.from_domain(launches),
        )
        return None if parts == cls() else parts

    @property
    def known_lifetimes(self) -> NodeLifetimes:
        """Statistics of the nodes that have ended."""
        return NOTHING_COUNTED if self.lifetimes is None else self.lifetimes.to_domain()

    @property
    def known_launches(self) -> LaunchHistory:
        """Statistics of refusals and starts."""
        return NO_LAUNCHES if self.answers is None else self.answers.to_domain()

    def smaller(self) -> Self | None:
        """The content without the half of the counted rentals that ended first. All other parts are bounded."""
        if self.lifetimes is None or not self.lifetimes.counted:
            return None
        kept = self.lifetimes.counted[len(self.lifetimes.counted) // 2 + 1 :]
        return self.model_copy(update={"lifetimes": self.lifetimes.model_copy(update={"counted": kept})})


def packed_statistics(lifetimes: NodeLifetimes, launches: LaunchHistory) -> PackedStatistics | None:
    """The field with these statistics; None if nothing was counted."""
    statistics = PoolStatistics.from_domain(lifetimes, launches)
    return None if statistics is None else packed(statistics)[0]


def recorded_statistics(state: PackedStatistics | None) -> PoolStatistics:
    """The statistics in the field. If it cannot be read, they are empty and are learned again."""
    try:
        return PackedStatistics.unpacked(state, PoolStatistics) or PoolStatistics()
    except ValueError as error:
        _log.warning("what was counted of a GPUPool's nodes is learned anew: %s", error)
        return PoolStatistics()


# --- for people -------------------------------------------------------------------------------------------------------


class LaunchesStatus(ApiModel):
    """The pool's refusals and starts, summed up."""

    available_percent: Annotated[int, Field(ge=0, le=100)]
    """Chance that the pool gives a node in this hour of the week, in percent."""
    start_seconds: Annotated[int, Field(ge=0)]
    """Expected seconds from a node's launch until it is ready for pods."""
    hours_seen: Annotated[int, Field(ge=0)]
    """Hours in which nodes were requested. Older ones count for less: half after four weeks."""
    starts_seen: Annotated[int, Field(ge=0)]
    """Nodes whose start was seen. Older ones count for less: half after four weeks."""

    @classmethod
    def from_domain(cls, pool: Pool, now: Instant) -> Self:
        """The summary for the hour of ``now``."""
        return cls(
            available_percent=round(100.0 * availability(pool.known_launches, now)),
            start_seconds=round(pool.likely_start_seconds),
            hours_seen=round(pool.known_launches.hours),
            starts_seen=round(pool.launches.starts),
        )


class InterruptionsStatus(ApiModel):
    """How often the cloud takes back a node of the pool."""

    per_node_hour: Annotated[float, Field(ge=0)]
    """Expected interruptions of a node in an hour."""
    low: Annotated[float, Field(ge=0)]
    """Lower end of the 90 % interval of perNodeHour."""
    high: Annotated[float, Field(ge=0)]
    """Upper end of the 90 % interval of perNodeHour."""
    seen: Annotated[float, Field(ge=0)]
    """Number of nodes that were taken back. Older ones count for less: half after a month."""
    node_hours: Annotated[float, Field(ge=0)]
    """Node-hours over which seen was counted."""
    first_half_hour: Annotated[float, Field(ge=0)]
    """Expected interruptions an hour of a node in its first half hour."""
    after_four_hours: Annotated[float, Field(ge=0)]
    """Expected interruptions an hour of a node that is older than four hours."""
    together: Annotated[float, Field(ge=0, le=1)]
    """Fraction of the interruptions that take the pool's other nodes too."""

    @classmethod
    def from_domain(cls, hazard: Hazard) -> Self:
        """The summary of the hazard for people."""
        return cls(
            per_node_hour=round(hazard.overall, 4),
            low=round(hazard.low, 4),
            high=round(hazard.high, 4),
            seen=round(hazard.deaths, 1),
            node_hours=round(hazard.node_hours, 1),
            first_half_hour=round(hazard.rates[0], 3),
            after_four_hours=round(hazard.rates[-1], 4),
            together=round(hazard.joint, 2),
        )
