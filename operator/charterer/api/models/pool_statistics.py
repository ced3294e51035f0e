"""How long a pool's nodes lived: what GPUPool.status remembers of it, and what it shows."""

from __future__ import annotations

import logging
from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import ApiModel, Time
from charterer.api.models.machine_state import MachineContent, PackedStatistics, packed
from charterer.domain.nodes.hazard import BAND_ENDS, NOTHING_COUNTED, Hazard, NodeLifetimes

_log = logging.getLogger(__name__)
_BANDS: Final = len(BAND_ENDS)
_Sum = Annotated[float, Field(ge=0, le=1e12)]
_ByBand = Annotated[tuple[_Sum, ...], Field(min_length=_BANDS, max_length=_BANDS)]


class PoolStatistics(MachineContent):
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

    @classmethod
    def from_domain(cls, lifetimes: NodeLifetimes) -> Self | None:
        """The statistics as they are recorded; None where nothing was counted."""
        if lifetimes.at is None:
            return None
        return cls(
            deaths=lifetimes.deaths,
            hours=lifetimes.hours,
            events=lifetimes.events,
            shared=lifetimes.shared,
            joint=lifetimes.joint,
            announced=lifetimes.announced,
            at=lifetimes.at,
            recent=lifetimes.recent,
            counted=lifetimes.counted,
        )

    def to_domain(self) -> NodeLifetimes:
        """The statistics as they were recorded."""
        return NodeLifetimes(
            self.deaths,
            self.hours,
            self.events,
            self.shared,
            self.joint,
            self.announced,
            self.at,
            self.recent,
            self.counted,
        )

    def smaller(self) -> Self | None:
        """Without the half of the counted rentals that ended first."""
        kept = self.counted[len(self.counted) // 2 + 1 :]
        return self.model_copy(update={"counted": kept}) if self.counted else None


def packed_lifetimes(lifetimes: NodeLifetimes) -> PackedStatistics | None:
    """The field that remembers them; None where nothing was counted."""
    statistics = PoolStatistics.from_domain(lifetimes)
    return None if statistics is None else packed(statistics)[0]


def recorded_lifetimes(state: PackedStatistics | None) -> NodeLifetimes:
    """What the field remembers; nothing where it cannot be read, so that it is learned anew."""
    try:
        statistics = PackedStatistics.unpacked(state, PoolStatistics)
    except ValueError as error:
        _log.warning("how often nodes of a GPUPool are taken back is learned anew: %s", error)
        statistics = None
    return NOTHING_COUNTED if statistics is None else statistics.to_domain()


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
