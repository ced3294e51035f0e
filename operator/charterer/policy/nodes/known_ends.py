"""Nodes whose end is known long before: a reservation ends there, or a claim expires.

Jobs begin there until some minutes before it, and leave it in time to save their work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.pool import Survey
from charterer.domain.time import Instant, seconds_between
from charterer.policy.nodes.rental_index import RentalIndex

USEFUL_SECONDS: Final = 1200.0
"""Seconds that a node must have left for a job to begin there: a start and the move that follows take some minutes of
them. A node that had less than twice that when it was ready takes jobs for half of it."""
_STOP_SECONDS: Final = 60.0
"""Seconds until a job is told to stop once it must: the loop, slow calls of the API server, and clocks that differ."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The end of a node on which no job begins any more. ``left``: seconds until then.

    ``closed``: seconds before it in which no job begins there.
    """

    at: Instant
    left: float
    closed: float

    def stay_seconds(self, grace_seconds: float) -> float:
        """Seconds until a job must leave, to the microsecond. ``grace_seconds``: for saving its work once told to stop.

        It stays for half of ``closed`` at least, or one that began just in time would leave at once.
        """
        return round(self.left - min(grace_seconds + _STOP_SECONDS, self.closed / 2.0), 6)


@dataclass(frozen=True, slots=True)
class KnownEnds:
    """The known ends of all nodes. ``near``: of nodes on which no job begins any more.

    ``next_seconds``: seconds until there is one more such node; infinite where none is known.
    """

    near: Mapping[RentalId, KnownEnd]
    next_seconds: float


def known_ends(rentals: RentalIndex, surveys: Mapping[PoolId, Survey], now: Instant) -> KnownEnds:
    """The ends of the rentals that stay.

    What ended before it was ready is not believed: otherwise each new node would be given back, and another one rented.
    """
    near: dict[RentalId, KnownEnd] = {}
    following = inf
    for (_, pool), here in rentals.by_pool.items():
        instances = surveys[pool].instances if pool in surveys else ()
        ends = {instance.id: instance.ends for instance in instances if instance.ends is not None}
        for rental in here.staying.values() if ends else ():
            end = None if rental.instance is None else ends.get(rental.instance)
            if end is None:
                continue
            had, left = seconds_between(min(rental.ready or now, now), end), seconds_between(now, end)
            closed = min(USEFUL_SECONDS, had / 2.0)
            open_seconds = round(left - closed, 6)
            if had > 0.0 and open_seconds <= 0.0:
                near[rental.id] = KnownEnd(end, left, closed)
            elif had > 0.0:
                following = min(following, open_seconds)
    return KnownEnds(near, following)
