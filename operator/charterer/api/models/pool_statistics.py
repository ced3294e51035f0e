"""GPUPool.status.machineState: how long the pool's nodes lived."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field

from charterer.api.models.base import Time
from charterer.api.models.machine_state import MachineContent
from charterer.domain.nodes.hazard import BAND_ENDS, NodeLifetimes

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
