"""Which GPUs are free, on ready nodes and on nodes that boot, by budget and pool.

A job only ever runs on rentals of its own budget. The GPUs a job holds on a node are the larger of what its
allocation names there and what its live pods (or a run that is not yet recorded) hold there: runs of one job never
overlap, because the hand-over waits until the older run's pods are gone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping

from purser.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from purser.domain.job import Job, Placement
from purser.domain.pool import InstanceState, Survey
from purser.domain.rental import Rental, RentalPhase
from purser.domain.snapshot import Snapshot

Held = Mapping[RentalId, int]


class Nodes:
    """Nodes of one kind by free GPUs: finds the fullest node that fits. Order is by name among equals."""

    def __init__(self) -> None:
        self.free: dict[RentalId, int] = {}
        self._by_free: dict[int, list[RentalId]] = {}

    def put(self, rental: RentalId, free: int) -> None:
        """Add a node, or set how much of it is free (below zero where it is over-used)."""
        before = self.free.get(rental)
        if before is not None:
            names = self._by_free[before]
            del names[bisect_left(names, rental)]
        self.free[rental] = free
        insort(self._by_free.setdefault(free, []), rental)

    def fullest(self, gpus: int) -> RentalId | None:
        """The node with the least free GPUs that still has ``gpus``."""
        fitting = [free for free, names in self._by_free.items() if free >= gpus and names]
        return self._by_free[min(fitting)][0] if fitting else None

    def whole(self, size: int, most: int) -> list[RentalId]:
        """Up to ``most`` nodes with at least ``size`` free GPUs."""
        found: list[RentalId] = []
        for free in sorted(self._by_free):
            if free >= size:
                found += self._by_free[free][: most - len(found)]
        return found

    def take(self, rental: RentalId, gpus: int) -> None:
        """Use that many of its free GPUs (or give back, if negative)."""
        self.put(rental, self.free[rental] - gpus)


class Cell:
    """The nodes of one pool that one budget pays for. ``touched``: those that somebody was given or waits for."""

    def __init__(self) -> None:
        self.ready = Nodes()
        self.booting = Nodes()
        self.touched: set[RentalId] = set()


def held_by(job: Job, rental_of: Mapping[NodeName, RentalId]) -> dict[RentalId, int]:
    """The GPUs the job holds, by rental: the most of its allocation, its live pods and any run not yet recorded."""
    held: dict[RentalId, int] = {}
    living: dict[RentalId, int] = {}
    for run in job.runs:
        for pod in run.pods:
            rental = rental_of.get(pod.node) if pod.node is not None and pod.live else None
            if rental is not None:
                living[rental] = living.get(rental, 0) + pod.gpus
    for allocation in (job.allocation, *job.replaced):
        if allocation is not None:
            for rental, gpus in by_rental(allocation.placements).items():
                held[rental] = max(held.get(rental, 0), gpus)
    for rental, gpus in living.items():
        held[rental] = max(held.get(rental, 0), gpus)
    return held


def by_rental(placements: Iterable[Placement]) -> dict[RentalId, int]:
    """GPUs of placements by rental."""
    gpus: dict[RentalId, int] = {}
    for place in placements:
        gpus[place.rental] = gpus.get(place.rental, 0) + place.gpus
    return gpus


class Capacity:
    """Who holds what at the beginning of a plan, and what is still free as the plan goes on."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.rental_of: dict[NodeName, RentalId] = {
            rental.node: rental.id
            for rental in snapshot.rentals.values()
            if rental.node is not None and rental.phase is not RentalPhase.ENDED
        }
        self._held: dict[JobId, dict[RentalId, int]] = {}
        self.users: dict[RentalId, list[JobId]] = {}
        self.used: dict[RentalId, int] = {}
        for job in snapshot.jobs.values():
            if job.allocation is None and not job.runs and not job.replaced:
                continue
            self._held[job.id] = mine = held_by(job, self.rental_of)
            for name, gpus in mine.items():
                self.users.setdefault(name, []).append(job.id)
                self.used[name] = self.used.get(name, 0) + gpus
        self._cells: dict[tuple[BudgetId, PoolId], Cell] = {}

    def open(self, leaving: Container[RentalId]) -> None:
        """Offer what is free, except on rentals that are ``leaving``: those take no new pods."""
        surveys = self._snapshot.surveys
        ending = frozenset[InstanceId]().union(*(_ending(survey) for survey in surveys.values()))
        noticed = {notice.instance for survey in surveys.values() for notice in survey.notices}
        for rental in self._snapshot.rentals.values():
            if rental.id in leaving or rental.deleting or rental.instance in noticed:
                continue
            if rental.phase in (RentalPhase.REQUESTED, RentalPhase.STARTING):
                self._add_booting(rental)
            elif rental.phase is RentalPhase.READY and rental.pool in surveys and rental.instance not in ending:
                self._add_ready(rental)

    def cell(self, budget: BudgetId, pool: PoolId) -> Cell:
        """The nodes of a pool that the budget pays for."""
        made = self._cells.get((budget, pool))
        if made is None:
            made = self._cells[budget, pool] = Cell()
        return made

    def touched(self, rental: Rental) -> set[RentalId]:
        """The nodes of the rental's pool and budget that somebody was given or waits for in this plan."""
        return self.cell(rental.budget, rental.pool).touched

    def held(self, job: JobId) -> Held:
        """What the job holds, by rental."""
        return self._held.get(job, {})

    def _add_booting(self, rental: Rental) -> None:
        pool = self._snapshot.pools.get(rental.pool)
        if pool is not None and pool.offering is not None:
            free = pool.offering.gpus_per_node - self.used.get(rental.id, 0)
            self.cell(rental.budget, rental.pool).booting.put(rental.id, free)

    def _add_ready(self, rental: Rental) -> None:
        node = self._snapshot.nodes.get(rental.node) if rental.node is not None else None
        if node is None or not node.ready or node.unschedulable or node.deleting:
            return
        free = node.gpus - node.foreign_gpus - self.used.get(rental.id, 0)
        self.cell(rental.budget, rental.pool).ready.put(rental.id, free)


def _ending(survey: Survey) -> frozenset[InstanceId]:
    """Instances that take nothing new. A list may lag behind the node's own readiness, so all others are as good."""
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return frozenset(instance.id for instance in survey.instances if instance.state in gone)
