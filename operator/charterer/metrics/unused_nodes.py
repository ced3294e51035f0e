"""The time for which nodes are billed without a live pod of a run, by cause, added up from turn to turn.

Time during which no process led is not counted. A later statement of a cloud about a machine's end subtracts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from charterer.domain.budget import Mode
from charterer.domain.ids import JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.money import Price
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Snapshot, Stop
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo


class KeptBy(StrEnum):
    """The cause that keeps a node without a pod of a run. docs/safety.md has the longest time of each.

    - ALLOCATED: a job has its GPUs, and the job's pods are still to come or its end is not on record.
    - WARM: the node waits for jobs to come.
    - STRANGERS: the node is to end, and has pods that Charterer did not start.
    - RECORD: the node is to end, and the end of a run on it is not on record.
    - OBSERVE: the node is to end, and its budget is in the mode that ends nothing.
    - CLOUD: its machine is about to be ended, or is being ended.
    """

    ALLOCATED = "allocated"
    WARM = "warm"
    STRANGERS = "strangers"
    RECORD = "record"
    OBSERVE = "observe"
    CLOUD = "cloud"


class UnusedNodes:
    """Adds up the seconds and passes them to ``add(pool, cause, seconds)``. Counting begins at the first snapshot."""

    def __init__(self, add: Callable[[PoolId, KeptBy, float], None]) -> None:
        self._add = add
        self._memo = Memo()
        self._seen: Instant | None = None
        self._kept: Mapping[RentalId, tuple[PoolId, KeptBy]] = {}

    def look(self, snapshot: Snapshot) -> None:
        """Add the time since the last call to the cause that kept each node then."""
        for name, (pool, cause) in self._kept.items():
            rental = snapshot.rentals.get(name)
            if rental is not None and self._seen is not None:
                until = snapshot.now if rental.ended is None else min(rental.ended, snapshot.now)
                self._add(pool, cause, max(seconds_between(self._seen, until), 0.0))
        self._seen, self._kept = snapshot.now, kept_nodes(snapshot, self._memo)


class _NodesOfJobs(NamedTuple):
    """The nodes of jobs' pods, and the rentals of jobs' allocations.

    ``living``: nodes with live pods of runs. ``finished``: nodes with finished pods of runs whose end is not on record.
    ``allocated``: rentals of the jobs' allocations. ``replaced``: rentals of former allocations whose run's end is not
    on record.
    """

    living: frozenset[NodeName]
    finished: frozenset[NodeName]
    allocated: frozenset[RentalId]
    replaced: frozenset[RentalId]


def kept_nodes(snapshot: Snapshot, memo: Memo | None = None) -> Mapping[RentalId, tuple[PoolId, KeptBy]]:
    """The ready nodes that cost money and have no live pod of a run, with their pool and the cause that keeps them."""
    memo = Memo() if memo is None else memo
    with memo.turn():
        nodes = memo(_all_nodes, memo.stable(memo.each(_nodes_of, snapshot.jobs), "nodes"))
        unused = memo(_unused, snapshot.rentals, nodes)
    return {rental.id: (rental.pool, _kept_by(rental, snapshot, nodes)) for rental in unused}


def _unused(rentals: Mapping[RentalId, Rental], nodes: _NodesOfJobs) -> Sequence[Rental]:
    return [
        rental
        for rental in rentals.values()
        if rental.billed and rental.price > Price(0) and rental.ready is not None and rental.node not in nodes.living
    ]


def _all_nodes(jobs: Mapping[JobId, _NodesOfJobs]) -> _NodesOfJobs:
    of_kind = [*zip(*jobs.values(), strict=True)] or [(), (), (), ()]
    return _NodesOfJobs(*(frozenset(chain.from_iterable(each)) for each in of_kind))


def _nodes_of(job: Job) -> _NodesOfJobs:
    on_record = {record.number for record in job.records}
    pods = [(pod, pod.node) for run in job.runs for pod in run.pods if pod.node is not None]
    former = [] if job.deleting else [each for each in job.replaced if each.run not in on_record]
    return _NodesOfJobs(
        living=frozenset([node for pod, node in pods if pod.live]),
        finished=frozenset(
            [node for pod, node in pods if not pod.live and pod.run not in on_record and not job.deleting]
        ),
        allocated=frozenset()
        if job.allocation is None
        else frozenset([place.rental for place in job.trusted(job.allocation)]),
        replaced=frozenset([place.rental for each in former for place in job.trusted(each)]),
    )


def _kept_by(rental: Rental, snapshot: Snapshot, nodes: _NodesOfJobs) -> KeptBy:
    to_record = rental.id in nodes.replaced or rental.node in nodes.finished
    if rental.phase is RentalPhase.READY and not rental.deleting:
        return KeptBy.ALLOCATED if rental.id in nodes.allocated or to_record else KeptBy.WARM
    budget = snapshot.budgets.get(rental.budget)
    node = None if rental.node is None else snapshot.nodes.get(rental.node)
    if budget is not None and budget.mode is Mode.OBSERVE and snapshot.stop is not Stop.DRAIN:
        return KeptBy.OBSERVE
    if to_record:
        return KeptBy.RECORD
    return KeptBy.STRANGERS if rental.held_by or (node is not None and node.foreign_gpus) else KeptBy.CLOUD
