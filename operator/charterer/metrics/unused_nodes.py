"""For how long nodes are billed while no pod of a run lives on them, by what keeps them: added up from turn to turn.

What passed while no process led is not counted, and what a cloud says later of a machine's end takes nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from charterer.domain.budget import Mode
from charterer.domain.ids import NodeName, PoolId, RentalId
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import Instant, seconds_between


class KeptBy(StrEnum):
    """What keeps a node without a pod of a run; docs/safety.md says for how long at most.

    ALLOCATED: a job has its GPUs, and its pods are to come. WARM: jobs to come. STRANGERS: it is to end, and pods that
    Charterer did not start are there. RECORD: the same, and the end of a run there is not on record. OBSERVE: the same,
    and its budget ends nothing. CLOUD: its machine is about to be ended, or is.
    """

    ALLOCATED = "allocated"
    WARM = "warm"
    STRANGERS = "strangers"
    RECORD = "record"
    OBSERVE = "observe"
    CLOUD = "cloud"


class UnusedNodes:
    """Adds up the seconds. ``add(pool, cause, seconds)`` takes them; the first snapshot is only where it begins."""

    def __init__(self, add: Callable[[PoolId, KeptBy, float], None]) -> None:
        self._add = add
        self._seen: Instant | None = None
        self._kept: Mapping[RentalId, tuple[PoolId, KeptBy]] = {}

    def look(self, snapshot: Snapshot) -> None:
        """Add what passed since the last call, to what kept each node then."""
        for name, (pool, cause) in self._kept.items():
            rental = snapshot.rentals.get(name)
            if rental is not None and self._seen is not None:
                until = snapshot.now if rental.ended is None else min(rental.ended, snapshot.now)
                self._add(pool, cause, max(seconds_between(self._seen, until), 0.0))
        self._seen, self._kept = snapshot.now, kept_nodes(snapshot)


def kept_nodes(snapshot: Snapshot) -> Mapping[RentalId, tuple[PoolId, KeptBy]]:
    """The ready nodes that are billed and have no live pod of a run, with their pool and what keeps them."""
    billed = [each for each in snapshot.rentals.values() if each.billed and each.ready is not None]
    if not billed:
        return {}
    living, finished, allocated, replaced = set[NodeName](), set[NodeName](), set[RentalId](), set[RentalId]()
    for job in snapshot.jobs.values():
        on_record = {record.number for record in job.records}
        for run in job.runs:
            for pod in run.pods:
                if pod.node is not None and pod.live:
                    living.add(pod.node)
                elif pod.node is not None and pod.run not in on_record and not job.deleting:
                    finished.add(pod.node)
        if job.allocation is not None:
            allocated |= {place.rental for place in job.trusted(job.allocation)}
        for former in () if job.deleting else job.replaced:
            if former.run not in on_record:
                replaced |= {place.rental for place in job.trusted(former)}
    return {
        rental.id: (rental.pool, _kept_by(rental, snapshot, allocated, replaced, finished))
        for rental in billed
        if rental.node not in living
    }


def _kept_by(
    rental: Rental,
    snapshot: Snapshot,
    allocated: set[RentalId],
    replaced: set[RentalId],
    finished: set[NodeName],
) -> KeptBy:
    to_record = rental.id in replaced or rental.node in finished
    if rental.phase is RentalPhase.READY and not rental.deleting:
        return KeptBy.ALLOCATED if rental.id in allocated or to_record else KeptBy.WARM
    budget = snapshot.budgets.get(rental.budget)
    node = None if rental.node is None else snapshot.nodes.get(rental.node)
    if budget is not None and budget.mode is Mode.OBSERVE and snapshot.stop is not Stop.DRAIN:
        return KeptBy.OBSERVE
    if to_record:
        return KeptBy.RECORD
    return KeptBy.STRANGERS if rental.held_by or (node is not None and node.foreign_gpus) else KeptBy.CLOUD
