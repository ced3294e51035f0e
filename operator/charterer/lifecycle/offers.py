"""When a pool's offer was seen to be back after the cloud had refused a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from charterer.domain.ids import JobId
from charterer.domain.job import Job
from charterer.domain.order import RefusalKind
from charterer.domain.pool import Pool
from charterer.domain.rental import Rental, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.lifecycle.never_ready import last_ready


def disproved(pool: Pool, rentals: Sequence[Rental], snapshot: Snapshot) -> frozenset[Instant]:
    """When the pool's cool-downs that are over began, if its offer was seen to be back since.

    The nodes that showed it may be given back a minute later: without a record the pool would be in doubt again.
    """
    over = [each for each in pool.cooled if each.until <= snapshot.now]
    returned = {kind: offer_returned(kind, rentals, snapshot.jobs) for kind in {each.kind for each in over}}
    return frozenset(each.since for each in over if (back := returned[each.kind]) is not None and back > each.since)


def offer_returned(kind: RefusalKind, rentals: Sequence[Rental], jobs: Mapping[JobId, Job]) -> Instant | None:
    """When a launch showed last that the offer is back, or a ready node that the pool's machines can be ready.

    Machines of incomplete gangs show nothing.
    """
    if kind is RefusalKind.NEVER_READY:
        return last_ready(rentals)
    in_vain = incomplete_gangs(rentals, jobs)
    useful = (rental for rental in rentals if rental.gang is None or rental.gang.name not in in_vain)
    return max((rental.launched for rental in useful if rental.launched is not None), default=None)
