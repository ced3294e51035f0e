"""Machines of gangs of which too few came: they are not kept for long.

Other jobs may use the machines of an incomplete gang, as they may use any that is idle. What none of them uses is kept
while the cloud is going to be asked for the rest soon, and then given back (docs/development/adr/0039).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from charterer.domain.ids import JobId
from charterer.domain.money import ZERO
from charterer.domain.plan import Reason, ReasonCode, Verdict
from charterer.domain.reasons.facts_of_nodes import GangIncomplete
from charterer.domain.rental import Rental, gang_deadline, has_machine, incomplete_gangs
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.policy.nodes.rental_index import PoolRentals


class IncompleteGangs:
    """The machines of one budget's incomplete gangs."""

    def __init__(self, pools: Iterable[PoolRentals], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        rentals = (rental for pool in pools for members in pool.gangs.values() for rental in members)
        self._members = {
            rental.id: members
            for members in incomplete_gangs(rentals, snapshot.jobs).values()
            for rental in members
            if has_machine(rental)
        }

    def kept_until(self, rental: Rental, verdicts: Mapping[JobId, Verdict]) -> Instant | None:
        """Until when the machine is kept for its gang; None if it is not.

        That is so while its job waits for just this pool, which cools, and is asked again before the wait is over.
        """
        members = self._members.get(rental.id)
        pool = self._snapshot.pools.get(rental.pool)
        if members is None or rental.gang is None or pool is None:
            return None
        verdict, cooling = verdicts.get(rental.gang.job), pool.cooling(self._snapshot.now)
        if verdict is None or verdict.reason.code is not ReasonCode.POOL_COOLING or cooling is None:
            return None
        if verdict.option is None or verdict.option.pool != pool.id:
            return None
        until = gang_deadline((member for member in members if member.stays), pool.start_seconds)
        return until if cooling.until < until else None

    def reason(self, rental: Rental) -> Reason | None:
        """Why the machine is given back, where that is because the rest of its gang did not come."""
        members = self._members.get(rental.id)
        if members is None or rental.gang is None:
            return None
        came = sum(member.stays and has_machine(member) for member in members)
        facts = GangIncomplete(rental.gang.job_name, rental.gang.nodes, came)
        return Reason(ReasonCode.INCOMPLETE_GANG, 0.0, ZERO, facts)
