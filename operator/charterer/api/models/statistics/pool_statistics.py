"""Counts of a pool's nodes: a summary for people in GPUPool.status, all of them in its machineState."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Time
from charterer.api.models.statistics.machine_state import MachineContent, PackedStatistics, packed
from charterer.domain.nodes.hazard import BAND_ENDS, NOTHING_COUNTED, Hazard, NodeLifetimes
from charterer.domain.nodes.waits import NO_LAUNCHES, SLOTS, LaunchHistory
from charterer.domain.pool import Pool
from charterer.domain.time import Instant
from charterer.estimate.nodes.waits import availability

_log = logging.getLogger(__name__)
_BANDS: Final = len(BAND_ENDS)
_Sum = Annotated[float, Field(ge=0, le=1e12)]
_ByBand = Annotated[tuple[_Sum, ...], Field(min_length=_BANDS, max_length=_BANDS)]
_Week = Annotated[tuple[_Sum, ...], Field(min_length=SLOTS, max_length=SLOTS)]
_Hour = Annotated[int, Field(ge=-1, le=10_000_000)]
_DIGITS: Final = 4
"""Digits of hours that are recorded: a ten-thousandth of an hour's answer decides nothing."""

# --- machineState -----------------------------------------------------------------------------------------------------


class LifetimeStatistics(ApiModel):
    """``domain.nodes.hazard.NodeLifetimes`` of a pool from which a node has ended."""

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

    @classmethod
    def from_domain(cls, lifetimes: NodeLifetimes) -> Self | None:
        """The statistics as they are recorded; None where nothing was counted."""
        return None if lifetimes.at is None else cls.copy_of(lifetimes)

    def to_domain(self) -> NodeLifetimes:
        """The statistics as they were recorded."""
        return NodeLifetimes(**dict(self))


class LaunchStatistics(ApiModel):
    """``domain.nodes.waits.LaunchHistory``."""

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
    def from_domain(cls, launches: LaunchHistory) -> Self | None:
        """The statistics as they are recorded; None where nothing was counted."""
        if launches.at is None:
            return None
        given, refused = (
            tuple([round(hours, _DIGITS) for hours in week]) for week in (launches.given, launches.refused)
        )
        return cls.copy_of(replace(launches, given=given, refused=refused))

    def to_domain(self) -> LaunchHistory:
        """The statistics as they were recorded."""
        return LaunchHistory(**dict(self))


class PoolStatistics(MachineContent):
    """Each part by itself: None where nothing was counted."""

    lifetimes: LifetimeStatistics | None = None
    answers: LaunchStatistics | None = None

    @classmethod
    def from_domain(cls, lifetimes: NodeLifetimes, launches: LaunchHistory) -> Self | None:
        """All parts; None where nothing was counted."""
        parts = cls(lifetimes=LifetimeStatistics.from_domain(lifetimes), answers=LaunchStatistics.from_domain(launches))
        return None if parts == cls() else parts

    @property
    def known_lifetimes(self) -> NodeLifetimes:
        """Counts of the nodes that have ended."""
        return NOTHING_COUNTED if self.lifetimes is None else self.lifetimes.to_domain()

    @property
    def known_launches(self) -> LaunchHistory:
        """Counts of refusals and starts."""
        return NO_LAUNCHES if self.answers is None else self.answers.to_domain()

    def smaller(self) -> Self | None:
        """Without the half of the counted rentals that ended first; all else is bounded."""
        if self.lifetimes is None or not self.lifetimes.counted:
            return None
        kept = self.lifetimes.counted[len(self.lifetimes.counted) // 2 + 1 :]
        return self.model_copy(update={"lifetimes": self.lifetimes.model_copy(update={"counted": kept})})


def packed_statistics(lifetimes: NodeLifetimes, launches: LaunchHistory) -> PackedStatistics | None:
    """The field that remembers them; None where nothing was counted."""
    statistics = PoolStatistics.from_domain(lifetimes, launches)
    return None if statistics is None else packed(statistics)[0]


def recorded_statistics(state: PackedStatistics | None) -> PoolStatistics:
    """The counts in the field; empty ones where it cannot be read, so that all is learned anew."""
    try:
        return PackedStatistics.unpacked(state, PoolStatistics) or PoolStatistics()
    except ValueError as error:
        _log.warning("what was counted of a GPUPool's nodes is learned anew: %s", error)
        return PoolStatistics()


# --- for people -------------------------------------------------------------------------------------------------------


class LaunchesStatus(ApiModel):
    """The pool's refusals and starts, summed up."""

    available_percent: Annotated[int, Field(ge=0, le=100)]
    """Chance that a node can be had in this hour of the week, in percent."""
    start_seconds: Annotated[int, Field(ge=0)]
    """Expected seconds from a node's launch until it is ready for pods."""
    hours_seen: Annotated[int, Field(ge=0)]
    """Hours in which nodes were asked for. Older ones count for less: half after four weeks."""
    starts_seen: Annotated[int, Field(ge=0)]
    """Nodes whose start was seen. Older ones count for less: half after four weeks."""

    @classmethod
    def from_domain(cls, pool: Pool, now: Instant) -> Self:
        """As of this hour."""
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
    """Upper end of it."""
    seen: Annotated[float, Field(ge=0)]
    """Number of nodes that were taken back. Older ones count for less: half after a month."""
    node_hours: Annotated[float, Field(ge=0)]
    """Node-hours in which that was."""
    first_half_hour: Annotated[float, Field(ge=0)]
    """Expected interruptions an hour of a node in its first half hour."""
    after_four_hours: Annotated[float, Field(ge=0)]
    """The same of a node that is older than four hours."""
    together: Annotated[float, Field(ge=0, le=1)]
    """Fraction of the interruptions that take the pool's other nodes too."""

    @classmethod
    def from_domain(cls, hazard: Hazard) -> Self:
        """As people read it."""
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
