"""What was counted of the ends of a pool's nodes, and the rate at which the cloud takes them back.

Spot nodes die young: the rate falls by a factor of ten or more within hours (1,442 preemptible machines of Google,
Kadupitiya et al. 2019; 128 GPU servers, CM-DARE 2020). So it is counted in bands of a node's age.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from charterer.domain.time import Instant

BAND_ENDS: Final = (0.5, 2.0, 4.0, inf)
"""Ages of a node, in hours, at which the bands end."""
_NONE: Final = (0.0,) * len(BAND_ENDS)


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
