"""Nodes whose end is known long before: a reservation ends there, or a claim expires.

Jobs begin there until some minutes before it, and leave it in time to save their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from charterer.domain.ids import RentalId
from charterer.domain.pool import Survey
from charterer.domain.rental import Rental
from charterer.domain.time import Instant, seconds_between

USEFUL_SECONDS: Final = 1200.0
"""Seconds that a node must have left for a job to begin there: a start and the move that follows take some minutes of
them. A node that had less than twice that when it was ready takes jobs for half of it."""
_STOP_SECONDS: Final = 60.0
"""Seconds until a job is told to stop once it must: the loop, slow calls of the API server, and clocks that differ."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The end of a node. ``left``: seconds until then. ``closed``: for how many before it no job begins there."""

    at: Instant
    left: float
    closed: float

    @property
    def near(self) -> bool:
        """Whether no job begins there any more."""
        return self.open_seconds <= 0.0

    @property
    def open_seconds(self) -> float:
        """Seconds until no job begins there any more, to the microsecond."""
        return round(self.left - self.closed, 6)

    def stay_seconds(self, grace_seconds: float) -> float:
        """Seconds for which a job stays that has so many to save its work once it is told to stop, to the microsecond.

        It stays for half of ``closed`` at least, or one that began just in time would leave at once.
        """
        return round(self.left - min(grace_seconds + _STOP_SECONDS, self.closed / 2.0), 6)


def known_ends(rentals: Iterable[Rental], survey: Survey | None, now: Instant) -> Mapping[RentalId, KnownEnd]:
    """The known ends of rentals of one pool.

    What ended before it was ready is not believed: else each new node would be given back, and another one rented.
    """
    if survey is None:
        return {}
    ends = {instance.id: instance.ends for instance in survey.instances if instance.ends is not None}
    if not ends:
        return {}
    found: dict[RentalId, KnownEnd] = {}
    for rental in rentals:
        end = None if rental.instance is None else ends.get(rental.instance)
        if end is None:
            continue
        had = seconds_between(min(rental.ready or now, now), end)
        if had > 0.0:
            found[rental.id] = KnownEnd(end, seconds_between(now, end), min(USEFUL_SECONDS, had / 2.0))
    return found
