"""How long a pool's nodes live: what was counted of their ends, and the rate at which the cloud takes them back.

Spot nodes die young: the rate falls by a factor of ten or more within hours (1,442 preemptible machines of Google,
Kadupitiya et al. 2019; 128 GPU servers, CM-DARE 2020). So it is counted in bands of a node's age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1, inf
from typing import Final

from charterer.domain.time import Instant

BAND_ENDS: Final = (0.5, 2.0, 4.0, inf)
"""Ages of a node, in hours, at which the bands end."""
_NONE: Final = (0.0,) * len(BAND_ENDS)
LONGEST_HOURS: Final = 24.0
"""The mean rate is that of a node's first day at most: no job expects to keep a spot node for longer."""


def hours_by_band(hours: float) -> tuple[float, ...]:
    """The node-hours that a node of that age has spent in each band."""
    spent, begin = [], 0.0
    for end in BAND_ENDS:
        spent.append(max(min(hours, end) - begin, 0.0))
        begin = end
    return tuple(spent)


def band_of(hours: float) -> int:
    """The band of a node's age."""
    return next(band for band, end in enumerate(BAND_ENDS) if hours < end)


@dataclass(frozen=True, slots=True)
class NodeLifetimes:
    """Counts of a pool's nodes that have ended; all numbers are of ``at`` and count for less later.

    ``at``: None where nothing was counted yet. ``deaths``: nodes that the cloud took, by band of age; ``hours``:
    node-hours in each band, of nodes that were given back too. ``events``: deaths at least five minutes after the one
    before. ``shared``: deaths while other nodes of the pool were there, and ``joint``: summed up, the fraction of those
    others that died with each. ``announced``: deaths with a notice before. ``recent``: when nodes died in the last five
    minutes before ``at``. ``counted``: uids of the rentals that are in the numbers and may still be there.
    ``ordinal``: the highest ordinal in a name of those rentals, so that names are not used again.
    """

    deaths: tuple[float, ...] = _NONE
    hours: tuple[float, ...] = _NONE
    events: float = 0.0
    shared: float = 0.0
    joint: float = 0.0
    announced: float = 0.0
    at: Instant | None = None
    recent: tuple[Instant, ...] = ()
    counted: tuple[str, ...] = ()
    ordinal: int = 0


NOTHING_COUNTED: Final = NodeLifetimes()


@dataclass(frozen=True, slots=True)
class Hazard:
    """The rate at which the cloud takes back the nodes of a pool.

    ``rates``: deaths per node-hour by band of age. ``joint``: the fraction q of a node's deaths that take the pool's
    other nodes with it. ``announced``: the fraction of deaths of which there is a notice. ``low`` to ``high``: the 90 %
    interval of the ``overall`` deaths per node-hour, after ``deaths`` in ``node_hours`` that were seen.
    """

    rates: tuple[float, ...]
    joint: float
    announced: float
    overall: float
    low: float
    high: float
    deaths: float
    node_hours: float

    @property
    def never(self) -> bool:
        """Whether no node is expected to be taken back."""
        return not any(self.rates)

    @property
    def measured(self) -> bool:
        """Whether any death was seen, so that the rate is not the assumed one alone."""
        return self.deaths > 0.0

    def at_age(self, hours: float) -> float:
        """Deaths per node-hour at that age."""
        return self.rates[band_of(hours)]


def mean_rate(rates: Sequence[float], hours: float) -> float:
    """Deaths per node-hour over a new node's first ``hours``, as far as it lives: ∫h·S ÷ ∫S, of a day at most."""
    until = min(hours, LONGEST_HOURS)
    alive, lived, begin = 1.0, 0.0, 0.0
    if until <= 0.0:
        return rates[0]
    for rate, end in zip(rates, BAND_ENDS, strict=True):
        span = min(end, until) - begin
        if span <= 0.0:
            break
        lived += alive * (span if rate * span < 1e-9 else -expm1(-rate * span) / rate)
        alive *= exp(-rate * span)
        begin = end
    return (1.0 - alive) / lived


def events_at_ages(hazard: Hazard, ages: Sequence[float]) -> float:
    """Interruptions an hour of a job that has nodes of these ages, in hours."""
    rate = sum(hazard.at_age(hours) for hours in ages) / len(ages) if ages else 0.0
    return events_per_hour(rate, hazard.joint, len(ages))


def events_per_hour(rate: float, joint: float, nodes: int) -> float:
    """Interruptions an hour of a job on ``nodes`` nodes that die at ``rate`` each: h·(q + (1 − q)·n)."""
    return rate * (joint + (1.0 - joint) * nodes)
