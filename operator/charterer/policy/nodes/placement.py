"""The nodes for a job of some width: ready nodes, nodes that boot, or nodes still to be rented.

A job that needs less than a node goes onto the fullest node with enough free GPUs, or onto the node that its
``choice`` names. A wider job gets whole nodes with one pod each, all in one pool (one zone). No job owns a booting
node. Each plan offers ready GPUs to the jobs in the order of the queue, and rents only the missing nodes. If a job
must wait, the ready nodes that it counts on are not given to later jobs, because otherwise wide jobs would starve.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from charterer.domain.ids import BudgetId, InstanceId, PoolId, RentalId
from charterer.domain.job import Job, Placement
from charterer.domain.option import Option
from charterer.domain.plan import ReasonCode
from charterer.domain.pool import InstanceState, Survey
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.incremental import Remember, directly
from charterer.policy.nodes.rentals import BudgetPool, HeldGpus, Holdings, KnownEnds, PoolNodes, by_rental
from charterer.policy.options.market import Market

# The choice of nodes to rent for a width, if pools sell nodes of several sizes with the same GPUs.
#
# A narrow job adds its part of a node to the bill, whatever the node's size. But the larger a new node is, the more
# of its GPUs stay unused. So the smallest node that has enough GPUs for the job is rented. A job that is wider than
# every node gets as few nodes as possible.


def fit(option: Option, market: Market) -> tuple[int, int]:
    """How well an option fits its nodes: (number of nodes, GPUs of a node). A smaller result is better."""
    size = market.offers[option.pool].gpus_per_node
    return max(option.takes // size, 1), size


def best_fit_first(options: Sequence[Option], market: Market) -> Sequence[Option]:
    """The options, best first. Among the options that equal the first option, the option that fits its nodes best is
    put in front.

    An option equals the first option if it has the same width on GPUs of the same kind, is as fast, and costs no
    more.
    """
    first = options[0]
    kind = market.offers[first.pool].kind
    if kind in market.of_one_size and not first.empty:
        return options
    alike = [
        option
        for option in options
        if option.gpus == first.gpus and option.price <= first.price and option.speed >= first.speed
        if market.offers[option.pool].kind == kind
    ]
    best = min(alike, key=lambda option: fit(option, market))
    return options if best is first else [best, *(option for option in options if option is not best)]


# Free GPUs on ready nodes and on nodes that boot, by budget and pool. A job only runs on rentals of its own budget.


FreeGpus = Mapping[RentalId, int]
"""Free GPUs by rental."""
EMPTY: FreeGpus = {}
UNKNOWN: Mapping[RentalId, float] = {}


_Place = tuple[float, RentalId]


class NodesByFreeGpus:
    """Nodes by their free GPUs. Among nodes with equally many free GPUs, the node with the least seconds comes first,
    then the first by name.

    ``seconds``: for each node, seconds until it is ready, or the instant since which it exists. Nodes without a
    number come last.
    """

    def __init__(
        self, free: FreeGpus = EMPTY, seconds: Mapping[RentalId, float] = UNKNOWN, remember: Remember = directly
    ) -> None:
        self.free = dict(free)
        self.seconds = seconds
        self._by_free = dict(remember(places_by_free, free, seconds))
        self._own: set[int] = set()
        self._counted: dict[int, int] = {}
        self._gpus: int | None = None

    def put(self, rental: RentalId, free: int) -> None:
        """Add a node, or set its number of free GPUs, which is negative if the node is over-used."""
        self._counted.clear()
        self._gpus = None
        before, place = self.free.get(rental), (self.seconds.get(rental, inf), rental)
        if before is not None:
            places = self._own_places(before)
            del places[bisect_left(places, place)]
        self.free[rental] = free
        insort(self._own_places(free), place)

    def _own_places(self, free: int) -> list[_Place]:
        """The nodes with ``free`` free GPUs, in a list that belongs to this object and may be changed."""
        if free not in self._own:
            self._own.add(free)
            self._by_free[free] = [*self._by_free.get(free, ())]
        return self._by_free[free]

    def fullest(self, gpus: int) -> RentalId | None:
        """The node with the least free GPUs that still has ``gpus``."""
        fitting = [free for free, names in self._by_free.items() if free >= gpus and names]
        return self._by_free[min(fitting)][0][1] if fitting else None

    @property
    def gpus(self) -> int:
        """Number of free GPUs on all nodes together."""
        if self._gpus is None:
            self._gpus = sum([free * len(names) for free, names in self._by_free.items() if free > 0])
        return self._gpus

    def whole_ones(self, size: int) -> int:
        """Number of nodes with at least ``size`` free GPUs."""
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
        """Take ``gpus`` free GPUs of a node; give them back if negative."""
        self.put(rental, self.free[rental] - gpus)

    def fragments(self, size: int) -> int:
        """Number of free GPUs on nodes in use. ``size``: GPUs of a node."""
        return sum([free * len(names) for free, names in self._by_free.items() if 0 < free < size])

    def largest_fragment(self, size: int) -> int:
        """The most free GPUs on one node in use. ``size``: GPUs of a node."""
        return max([free for free, names in self._by_free.items() if 0 < free < size and names], default=0)

    def in_use(self, size: int) -> list[tuple[int, list[RentalId]]]:
        """The nodes in use by their free GPUs, the emptiest first. ``size``: GPUs of a node."""
        found = [(free, places) for free, places in self._by_free.items() if 0 <= free < size and places]
        return [(free, [name for _, name in places]) for free, places in sorted(found, reverse=True)]


def places_by_free(free: FreeGpus, seconds: Mapping[RentalId, float]) -> Mapping[int, list[_Place]]:
    """Nodes with their seconds, in order, by their free GPUs."""
    found: dict[int, list[_Place]] = {}
    for place in sorted([(seconds.get(rental, inf), rental) for rental in free]):
        found.setdefault(free[place[1]], []).append(place)
    return found


class FreeNodes:
    """The nodes of one pool that one budget pays for, with their free GPUs.

    ``seconds``: seconds until each booting node is ready.
    ``since``: the instant since which each ready node exists, if its age matters.
    ``touched``: nodes that this plan gave to a job, or for which a job waits.
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
    """The GPUs that are free while a plan is made. At first, they are the GPUs that no job holds."""

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
        """Offer no more GPUs of these rentals, because they end and take no new pods."""
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
        """The nodes of the rental's pool and budget that this plan gave to a job, or for which a job waits."""
        made = self._free_nodes.get((rental.budget, rental.pool))
        return () if made is None else made.touched

    def offers(self, rental: Rental) -> bool:
        """Whether jobs may begin on the rental: neither the cloud nor the plan is about to end it."""
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
        """Seconds until each booting node is ready; a whole start-up if the node has no machine yet.

        A node that is late by some time is expected to need the same time again, up to a whole start-up.
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
        """If the cloud takes back nodes of the pool, the instant since which each node exists. The oldest nodes are
        expected to live longest, so jobs get them first."""
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
        """Instances that the cloud takes back, or may take back soon. No job begins on these instances."""
        survey = self._snapshot.surveys.get(name)
        if survey is None:
            return frozenset()
        noticed = frozenset(notice.instance for notice in survey.notices)
        ending = [rental.instance for name, rental in here.rentals.staying.items() if name in self._near_ends]
        return noticed | {instance for instance in ending if instance is not None}


def _ending(survey: Survey) -> frozenset[InstanceId]:
    """Instances that the cloud's list shows as ending.

    GPUs of all other instances are offered, because a node may become ready before the cloud's list says so.
    """
    gone = (InstanceState.STOPPING, InstanceState.ENDED)
    return frozenset(instance.id for instance in survey.instances if instance.state in gone)


RentNodes = Callable[[int, int], list[RentalId]]
NodeChoice = Callable[[NodesByFreeGpus], RentalId | None]
"""A function that names the node that a job takes among some nodes; None if it takes none of them."""


@dataclass(frozen=True, slots=True)
class GpuClaim:
    """The answer to a claim.

    ``placements``: where the job can start at once; None if it must wait.
    ``nodes``: the nodes for which the job waits.
    ``blocked``: why the job gets no GPUs.
    """

    placements: tuple[Placement, ...] | None
    nodes: tuple[RentalId, ...] = ()
    blocked: ReasonCode | None = None


class PoolAllocator:
    """The nodes of one pool and budget, and the functions by which more nodes are rented.

    ``refusal(n)``: why n more nodes cannot be rented; None if they can.
    ``rent(n, there)``: rents n nodes for a job that has ``there`` nodes already, and returns their names.
    """

    def __init__(
        self,
        nodes: FreeNodes,
        gpus_per_node: int,
        refusal: Callable[[int], ReasonCode | None],
        rent: RentNodes,
    ) -> None:
        self._nodes = nodes
        self._size = gpus_per_node
        self.refusal = refusal
        self._rent = rent

    def claim(
        self,
        option: Option,
        own: HeldGpus,
        hosts: Callable[[tuple[RentalId, ...]], bool],
        *,
        only_ready: bool = False,
        choice: NodeChoice | None = None,
    ) -> GpuClaim:
        """Take GPUs for an option. Nothing is taken if the claim is blocked.

        ``own``: GPUs that the job holds already, which its next run may use again.
        ``hosts``: whether the limits allow the job on given ready nodes.
        ``only_ready``: whether the claim is blocked if it would have to wait.
        ``choice``: chooses the node of a job that needs less than a node; without it, the fullest node with enough
        free GPUs is taken.
        """
        self._lend(own)
        claim = self._claim(option.takes, hosts, only_ready, choice)
        taken = by_rental(claim.placements or ())
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, max(gpus - taken.get(rental, 0), 0))
        return claim

    def add(self) -> None:
        """Rent a node without a claim of a job."""
        for name in self._rent(1, 0):
            self._nodes.booting.put(name, self._size)

    def look(
        self, option: Option, own: HeldGpus, choice: NodeChoice | None = None
    ) -> tuple[list[RentalId], list[RentalId], int]:
        """What a claim would take: the ready nodes, the booting nodes, and the number of nodes to be rented."""
        self._lend(own)
        found = self._find(option.takes, choice)
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, gpus)
        return found

    def waits(self, option: Option, own: HeldGpus, choice: NodeChoice | None = None) -> list[float] | None:
        """Seconds until each booting node that a claim would take is ready; None if nodes must be rented."""
        _, booting, missing = self.look(option, own, choice)
        seconds = self._nodes.booting.seconds
        if missing or any(name not in seconds for name in booting):
            return None
        return [seconds[name] for name in booting]

    def missing(self, option: Option, own: HeldGpus, choice: NodeChoice | None = None) -> int:
        """Number of nodes that would have to be rented for a claim."""
        if choice is not None:
            return self.look(option, own, choice)[2]
        ready, booting, gpus, size = self._nodes.ready, self._nodes.booting, option.takes, self._size
        least = min(gpus, size)
        freed = [free for name, held in own.items() if (free := ready.free.get(name, least)) < least <= free + held]
        there = ready.whole_ones(least) + booting.whole_ones(least) + len(freed)
        return max(max(gpus // size, 1) - there, 0)

    def _lend(self, own: HeldGpus) -> None:
        for rental, gpus in own.items():
            if rental in self._nodes.ready.free:
                self._nodes.ready.take(rental, -gpus)

    def _find(self, gpus: int, choice: NodeChoice | None) -> tuple[list[RentalId], list[RentalId], int]:
        """Ready nodes, booting nodes, and the number of missing nodes for a width of ``gpus``."""
        if gpus < self._size:
            ready = self._nodes.ready.fullest(gpus) if choice is None else choice(self._nodes.ready)
            if ready is not None:
                return [ready], [], 0
            booting = self._nodes.booting.fullest(gpus) if choice is None else choice(self._nodes.booting)
            return [], [booting] if booting is not None else [], 0 if booting is not None else 1
        nodes = gpus // self._size
        whole = self._nodes.ready.whole(self._size, nodes)
        coming = self._nodes.booting.whole(self._size, nodes - len(whole))
        return whole, coming, nodes - len(whole) - len(coming)

    def _claim(
        self, gpus: int, hosts: Callable[[tuple[RentalId, ...]], bool], only_ready: bool, choice: NodeChoice | None
    ) -> GpuClaim:
        ready, booting, missing = self._find(gpus, choice)
        each = min(gpus, self._size)
        if booting or missing:
            if only_ready:
                return GpuClaim(None, blocked=ReasonCode.WAITING_FOR_NODE)
            refused = self.refusal(missing) if missing else None
            if refused is not None:
                return GpuClaim(None, blocked=refused)
            for name in self._rent(missing, len(ready) + len(booting)) if missing else ():
                self._nodes.booting.put(name, self._size)
                booting.append(name)
        elif not hosts(tuple(ready)):
            return GpuClaim(None, blocked=ReasonCode.HARD_LIMIT)
        for name in ready:
            self._nodes.ready.take(name, each)
        for name in booting:
            self._nodes.booting.take(name, each)
        self._nodes.touched.update(ready, booting)
        if booting:
            return GpuClaim(None, (*ready, *booting))
        return GpuClaim(tuple(Placement(name, each) for name in ready))
