"""When a pool's nodes were asked for, launched and ready: told once, to be counted in the pool's status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from charterer.domain.nodes.waits import NodeStart
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental
from charterer.domain.time import seconds_between

_CLOCKS_DIFFER_SECONDS: Final = 60.0
"""A rental that was made later than this after its machine's launch did not ask for it: the machine was found."""


def new_starts(pool: Pool, rentals: Sequence[Rental]) -> tuple[NodeStart, ...]:
    """The starts of nodes that became ready since the last one counted, in that order.

    One that became ready in the same instant as the last one is missed if it comes to light later, which costs nothing.
    """
    through = pool.launches.through
    found = [
        NodeStart(rental.created, rental.launched, rental.ready)
        for rental in rentals
        if rental.launched is not None
        and rental.ready is not None
        and (through is None or rental.ready > through)
        and seconds_between(rental.launched, rental.created) <= _CLOCKS_DIFFER_SECONDS
    ]
    return tuple(sorted(found, key=lambda start: (start.ready, start.launched, start.asked)))
