"""Which GPUs are free, on ready nodes and on nodes that boot, by budget and pool.

A job only ever runs on rentals of its own budget. The GPUs a job holds on a node are the larger of what its
allocation names there and what its live pods (or a run that is not yet recorded) hold there: runs of one job never
overlap, because the hand-over waits until the older run's pods are gone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from charterer.domain.ids import BudgetId, InstanceId, JobId, NodeName, PoolId, RentalId
from charterer.domain.job import Job, Placement
from charterer.domain.pool import InstanceState, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.policy.identity_diff import identity_diff

if TYPE_CHECKING:
    from charterer.policy.jobs.job_facts import JobFacts
    from charterer.policy.nodes.pool_nodes import PoolNodes
    from charterer.policy.nodes.rental_index import RentalIndex

HeldGpus = Mapping[RentalId, int]
EMPTY: HeldGpus = {}


class NodesByFreeGpus:
    """Nodes of one kind by free GPUs: finds the fullest node that fits. Order is by name among equals."""

    def __init__(self, free: Mapping[RentalId, int] = EMPTY) -> None:
        self.free = dict(free)
        self._by_free: dict[int, list[RentalId]] = {}
        self._counted: dict[int, int] = {}
        for rental in sorted(free):
            self._by_free.setdefault(free[rental], []).append(rental)

    def put(self, rental: RentalId, free: int) -> None:
        """Add a node, or set how much of it is free (below zero where it is over-used)."""
        self._counted.clear()
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

    def whole_ones(self, size: int) -> int:
        """How many have at least ``size`` free GPUs."""
        known = self._counted.get(size)
        if known is None:
            known = self._counted[size] = sum([len(names) for free, names in self._by_free.items() if free >= size])
        return known

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


class FreeNodes:
    """The nodes of one pool that one budget pays for. ``touched``: those that somebody was given or waits for."""

    def __init__(self, ready: Mapping[RentalId, int] = EMPTY, booting: Mapping[RentalId, int] = EMPTY) -> None:
        self.ready = NodesByFreeGpus(ready)
        self.booting = NodesByFreeGpus(booting)
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


class Holdings:
    """Who holds which GPUs, by job and by rental; kept from snapshot to snapshot, for what did not change.

    ``used``: GPUs of a rental that are held; ``grace``: the longest that somebody on it is given to end. ``touched``:
    rentals for which either was different before the last update.
    """

    def __init__(self) -> None:
        self.used: dict[RentalId, int] = {}
        self.grace: dict[RentalId, int] = {}
        self.touched: set[RentalId] = set()
        self._rental_of: Mapping[NodeName, RentalId] = {}
        self._read: Mapping[JobId, JobFacts] = {}
        self._held: dict[JobId, HeldGpus] = {}
        self._users: dict[RentalId, dict[JobId, int]] = {}

    def update(self, fleet: RentalIndex, readings: Mapping[JobId, JobFacts]) -> None:
        """Hold what jobs hold now."""
        before, self._rental_of = self._rental_of, fleet.rental_of
        moved = {node for node, _ in before.items() ^ self._rental_of.items()} if before != self._rental_of else set()
        other, gone = identity_diff(readings, self._read)
        if moved:
            other = list({*other, *(name for name, one in readings.items() if not one.nodes.isdisjoint(moved))})
        touched: set[RentalId] = set()
        for name in (*gone, *other):
            for rental in self._held.pop(name, ()):
                del self._users[rental][name]
                touched.add(rental)
        for name in other:
            mine = held_by(readings[name].job, self._rental_of)
            if mine:
                self._held[name] = mine
            for rental in mine:
                self._users.setdefault(rental, {})[name] = readings[name].job.grace_seconds
                touched.add(rental)
        self.touched = {rental for rental in touched if self._sum_up(rental)}
        self._read = readings

    def _sum_up(self, rental: RentalId) -> bool:
        """Sum up who is on a rental; whether that is different from before."""
        users, before = self._users[rental], (self.used.pop(rental, 0), self.grace.pop(rental, 0))
        if not users:
            del self._users[rental]
            return before != (0, 0)
        self.used[rental] = sum([self._held[name][rental] for name in users])
        self.grace[rental] = max(users.values())
        return before != (self.used[rental], self.grace[rental])

    def held(self, job: JobId) -> HeldGpus:
        """What the job holds, by rental."""
        return self._held.get(job, {})


class Capacity:
    """What is still free as a plan goes on: at first what nobody holds."""

    def __init__(
        self, snapshot: Snapshot, holdings: Holdings, sites: Mapping[tuple[BudgetId, PoolId], PoolNodes]
    ) -> None:
        self._snapshot = snapshot
        self._holdings = holdings
        self._sites = sites
        self.used: Mapping[RentalId, int] = holdings.used
        self.grace: Mapping[RentalId, int] = holdings.grace
        self._leaving: frozenset[RentalId] = frozenset()
        self._cells: dict[tuple[BudgetId, PoolId], FreeNodes] = {}

    def open(self, leaving: frozenset[RentalId]) -> None:
        """Offer what is free, except on rentals that are ``leaving``: those take no new pods."""
        self._leaving = leaving

    def cell(self, budget: BudgetId, pool: PoolId) -> FreeNodes:
        """The nodes of a pool that the budget pays for."""
        made = self._cells.get((budget, pool))
        if made is None:
            site = self._sites.get((budget, pool))
            made = FreeNodes() if site is None else FreeNodes(self._ready(pool, site), self._booting(pool, site))
            self._cells[budget, pool] = made
        return made

    def touched(self, rental: Rental) -> Container[RentalId]:
        """The nodes of the rental's pool and budget that somebody was given or waits for in this plan."""
        made = self._cells.get((rental.budget, rental.pool))
        return () if made is None else made.touched

    def held(self, job: JobId) -> HeldGpus:
        """What the job holds, by rental."""
        return self._holdings.held(job)

    def _booting(self, name: PoolId, site: PoolNodes) -> HeldGpus:
        pool = self._snapshot.pools.get(name)
        if pool is None or pool.offering is None or not site.block.booting:
            return EMPTY
        size, used, noticed = pool.offering.gpus_per_node, self.used, self._noticed(name)
        return {one.id: size - used.get(one.id, 0) for one in site.block.booting if self._offered(one, noticed)}

    def _ready(self, name: PoolId, site: PoolNodes) -> HeldGpus:
        survey = self._snapshot.surveys.get(name)
        if survey is None:
            return EMPTY
        closed, rentals = _ending(survey) | self._noticed(name), site.block.staying
        if not closed and not self._leaving and not site.block.deleting:
            return site.free
        return {one: free for one, free in site.free.items() if self._offered(rentals[one], closed)}

    def _offered(self, rental: Rental, closed: Container[InstanceId | None]) -> bool:
        return rental.id not in self._leaving and not rental.deleting and rental.instance not in closed

    def _noticed(self, name: PoolId) -> frozenset[InstanceId]:
        """Instances that the cloud takes back."""
        survey = self._snapshot.surveys.get(name)
        return frozenset() if survey is None else frozenset(notice.instance for notice in survey.notices)


def _ending(survey: Survey) -> frozenset[InstanceId]:
    """Instances that take nothing new. A list may lag behind the node's own readiness, so all others are as good."""
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return frozenset(instance.id for instance in survey.instances if instance.state in gone)
