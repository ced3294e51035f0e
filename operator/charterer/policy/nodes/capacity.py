"""Which GPUs are free, on ready nodes and on nodes that boot, by budget and pool.

A job only ever runs on rentals of its own budget.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Mapping
from math import inf

from charterer.domain.ids import BudgetId, InstanceId, PoolId, RentalId
from charterer.domain.job import Job
from charterer.domain.pool import InstanceState, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.incremental import Remember, directly
from charterer.policy.nodes.holdings import HeldGpus, Holdings
from charterer.policy.nodes.known_ends import KnownEnds
from charterer.policy.nodes.pool_nodes import PoolNodes
from charterer.policy.nodes.rental_index import BudgetPool

FreeGpus = Mapping[RentalId, int]
"""Free GPUs by rental."""
EMPTY: FreeGpus = {}
UNKNOWN: Mapping[RentalId, float] = {}


_Place = tuple[float, RentalId]


class NodesByFreeGpus:
    """Nodes of one kind by free GPUs: finds the fullest node that fits, among equals the soonest, then by name.

    ``seconds``: until each is ready, or since when it is there; nodes that are not in it are the last.
    """

    def __init__(
        self, free: FreeGpus = EMPTY, seconds: Mapping[RentalId, float] = UNKNOWN, remember: Remember = directly
    ) -> None:
        self.free = dict(free)
        self.seconds = seconds
        self._by_free = dict(remember(places_by_free, free, seconds))
        self._own: set[int] = set()
        self._counted: dict[int, int] = {}

    def put(self, rental: RentalId, free: int) -> None:
        """Add a node, or set how much of it is free (below zero where it is over-used)."""
        self._counted.clear()
        before, place = self.free.get(rental), (self.seconds.get(rental, inf), rental)
        if before is not None:
            places = self._own_places(before)
            del places[bisect_left(places, place)]
        self.free[rental] = free
        insort(self._own_places(free), place)

    def _own_places(self, free: int) -> list[_Place]:
        """The nodes with so many free GPUs, in a list that may be changed."""
        if free not in self._own:
            self._own.add(free)
            self._by_free[free] = [*self._by_free.get(free, ())]
        return self._by_free[free]

    def fullest(self, gpus: int) -> RentalId | None:
        """The node with the least free GPUs that still has ``gpus``."""
        fitting = [free for free, names in self._by_free.items() if free >= gpus and names]
        return self._by_free[min(fitting)][0][1] if fitting else None

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
                found += [name for _, name in self._by_free[free][: most - len(found)]]
        return found

    def take(self, rental: RentalId, gpus: int) -> None:
        """Use that many of its free GPUs (or give back, if negative)."""
        self.put(rental, self.free[rental] - gpus)

    def fragments(self, size: int) -> int:
        """Free GPUs of nodes of ``size`` GPUs that are in use."""
        return sum([free * len(names) for free, names in self._by_free.items() if 0 < free < size])

    def largest_fragment(self, size: int) -> int:
        """The most free GPUs of one of them."""
        return max([free for free, names in self._by_free.items() if 0 < free < size and names], default=0)

    def in_use(self, size: int) -> list[tuple[int, list[RentalId]]]:
        """The nodes in use by their free GPUs, the emptiest first."""
        found = [(free, places) for free, places in self._by_free.items() if 0 <= free < size and places]
        return [(free, [name for _, name in places]) for free, places in sorted(found, reverse=True)]


def places_by_free(free: FreeGpus, seconds: Mapping[RentalId, float]) -> Mapping[int, list[_Place]]:
    """Nodes by free GPUs, each with its seconds, in order."""
    found: dict[int, list[_Place]] = {}
    for place in sorted([(seconds.get(rental, inf), rental) for rental in free]):
        found.setdefault(free[place[1]], []).append(place)
    return found


class FreeNodes:
    """The nodes of one pool that one budget pays for, with their free GPUs.

    ``seconds``: until booting ones are ready. ``since``: since when ready ones are there, where that matters.
    ``touched``: those that somebody was given or waits for in this plan.
    """

    def __init__(
        self,
        ready: FreeGpus = EMPTY,
        booting: FreeGpus = EMPTY,
        seconds: Mapping[RentalId, float] = UNKNOWN,
        since: Mapping[RentalId, float] = UNKNOWN,
        remember: Remember = directly,
    ) -> None:
        self.ready = NodesByFreeGpus(ready, since, remember)
        self.booting = NodesByFreeGpus(booting, seconds)
        self.touched: set[RentalId] = set()


class Capacity:
    """The GPUs that are still free as a plan goes on: at first those that nobody holds."""

    def __init__(
        self,
        snapshot: Snapshot,
        holdings: Holdings,
        nodes: Mapping[BudgetPool, PoolNodes],
        ends: KnownEnds,
        remember: Remember = directly,
    ) -> None:
        self._snapshot = snapshot
        self._remember = remember
        self._near_ends = ends.near
        self._holdings = holdings
        self._nodes = nodes
        self.used: Mapping[RentalId, int] = holdings.used
        self.grace: Mapping[RentalId, int] = holdings.grace
        self._ending: frozenset[RentalId] = frozenset()
        self._free_nodes: dict[BudgetPool, FreeNodes] = {}

    def close(self, ending: frozenset[RentalId]) -> None:
        """Offer nothing on rentals that are ``ending``: they take no new pods."""
        self._ending = ending

    def free_nodes(self, budget: BudgetId, pool: PoolId) -> FreeNodes:
        """The nodes of a pool that the budget pays for."""
        made = self._free_nodes.get((budget, pool))
        if made is None:
            here = self._nodes.get((budget, pool))
            made = FreeNodes()
            if here is not None:
                closed, times = self._closed(pool, here), (self._seconds(pool, here), self._since(pool, here))
                made = FreeNodes(
                    self._ready(pool, here, closed), self._booting(pool, here, closed), *times, self._remember
                )
            self._free_nodes[budget, pool] = made
        return made

    def touched(self, rental: Rental) -> Container[RentalId]:
        """The nodes of the rental's pool and budget that somebody was given or waits for in this plan."""
        made = self._free_nodes.get((rental.budget, rental.pool))
        return () if made is None else made.touched

    def offers(self, rental: Rental) -> bool:
        """Whether jobs may begin on the rental: the cloud does not end it soon, and the plan does not."""
        here = self.free_nodes(rental.budget, rental.pool)
        return rental.id in here.ready.free or rental.id in here.booting.free

    def held(self, job: Job) -> HeldGpus:
        """The GPUs that the job holds, by rental."""
        return self._holdings.held(job)

    def _booting(self, name: PoolId, here: PoolNodes, closed: frozenset[InstanceId]) -> FreeGpus:
        pool = self._snapshot.pools.get(name)
        if pool is None or pool.offering is None or not here.rentals.booting:
            return EMPTY
        size, used = pool.offering.gpus_per_node, self.used
        return {
            rental.id: size - used.get(rental.id, 0) for rental in here.rentals.booting if self._offered(rental, closed)
        }

    def _seconds(self, name: PoolId, here: PoolNodes) -> Mapping[RentalId, float]:
        """Until each booting node is ready: a whole start-up where it has no machine yet.

        One that is late is taken to be as late again, up to a whole start-up.
        """
        pool, now = self._snapshot.pools.get(name), self._snapshot.now
        if pool is None:
            return UNKNOWN
        start = pool.likely_start_seconds
        return {
            rental.id: min(abs(start - seconds_between(rental.launched or now, now)), start)
            for rental in here.rentals.booting
        }

    def _since(self, name: PoolId, here: PoolNodes) -> Mapping[RentalId, float]:
        """Where nodes are taken back, since when each is there: the oldest live longest, so jobs get and keep them."""
        pool = self._snapshot.pools.get(name)
        if pool is None or pool.hazard is None or pool.hazard.never:
            return UNKNOWN
        return {rental.id: float(rental.created) for rental in here.rentals.staying.values()}

    def _ready(self, name: PoolId, here: PoolNodes, closed: frozenset[InstanceId]) -> FreeGpus:
        survey = self._snapshot.surveys.get(name)
        if survey is None:
            return EMPTY
        closed, rentals = _ending(survey) | closed, here.rentals.staying
        if not closed and not self._ending and not here.rentals.deleting:
            return here.free
        return {name: free for name, free in here.free.items() if self._offered(rentals[name], closed)}

    def _offered(self, rental: Rental, closed: Container[InstanceId | None]) -> bool:
        return rental.id not in self._ending and not rental.deleting and rental.instance not in closed

    def _closed(self, name: PoolId, here: PoolNodes) -> frozenset[InstanceId]:
        """Instances that the cloud takes back, or may take back soon: nothing new begins there."""
        survey = self._snapshot.surveys.get(name)
        if survey is None:
            return frozenset()
        noticed = frozenset(notice.instance for notice in survey.notices)
        ending = [rental.instance for name, rental in here.rentals.staying.items() if name in self._near_ends]
        return noticed | {instance for instance in ending if instance is not None}


def _ending(survey: Survey) -> frozenset[InstanceId]:
    """Instances that take nothing new. A list may lag behind the node's own readiness, so all others are as good."""
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return frozenset(instance.id for instance in survey.instances if instance.state in gone)
