"""The number of nodes and GPUs that each pool may have in the long run and now, and the cost of its nodes as jobs
leave them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import inf

from charterer.domain.ids import PoolId, RentalId
from charterer.domain.order import CoolDown, RefusalKind
from charterer.domain.plan import Limit, ReasonCode
from charterer.domain.pool import ExpectedWait, Pool
from charterer.domain.snapshot import OperatorLimits, Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.estimate.waits import expected_wait, waits
from charterer.policy.nodes.limits import OperatorRoom
from charterer.policy.nodes.placement import FreeNodes
from charterer.policy.nodes.rentals import PoolRentals, RentalIndex

# The number of GPUs that each pool can have in the long run, and what limits it.
#
# If the cloud refused nodes of a pool, the pool is assumed to get no more nodes than it has now. The pool is asked
# again after its cool-down. The assumption stays for the same time again (the probation), until it is known whether
# there are nodes. Without a probation, every end of a cool-down would change prices and exchange rates, and the next
# refusal, seconds later, would change them back. A node that is launched after the refusal ends the probation at
# once.
#
# The operator's own limits hold for all pools together. Here each pool may have all nodes that these limits allow.
# ``OperatorRoom`` keeps the sum over pools within the limits.


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The most nodes that a pool can have in the long run, of ``gpus_per_node`` GPUs each, and what limits them.

    ``until``: when the limit is expected to end; None for ``spec.maxNodes`` and the operator's limits.
    """

    nodes: int
    gpus_per_node: int
    limit: Limit
    until: Instant | None

    @property
    def gpus(self) -> int:
        """The number of GPUs of all these nodes."""
        return self.nodes * self.gpus_per_node


def pool_sizes(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, PoolSize]:
    """The size of every pool from which nodes may be rented, by name."""
    return {
        name: _pool_size(pool, pool.offering.gpus_per_node, rentals.of(name), snapshot.now, snapshot.limits)
        for name, pool in sorted(snapshot.pools.items())
        if pool.offering is not None and not pool.closed_because
    }


def on_probation(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, CoolDown]:
    """The cool-downs of pools whose cloud refused nodes, as long as it is not known whether the cloud has nodes
    again."""
    probations = {
        name: _probation(pool, rentals.of(name), snapshot.now)
        for name, pool in snapshot.pools.items()
        if pool.cool_down
    }
    return {name: cooled for name, cooled in probations.items() if cooled is not None}


def _probation(pool: Pool, by_budget: Sequence[PoolRentals], now: Instant) -> CoolDown | None:
    cooled = pool.cool_down
    if cooled is None or now >= cooled.probation_until:
        return None
    gave = any(launched > cooled.since for here in by_budget for launched in here.launched)
    return None if gave else cooled


def _pool_size(
    pool: Pool, gpus_per_node: int, by_budget: Sequence[PoolRentals], now: Instant, limits: OperatorLimits
) -> PoolSize:
    has = min(sum([len(here.launched) for here in by_budget]), pool.max_nodes)
    if (cooled := _probation(pool, by_budget, now)) is not None and has < pool.max_nodes:
        limit = Limit.QUOTA if cooled.kind is RefusalKind.QUOTA_EXCEEDED else Limit.STOCK
        return PoolSize(has, gpus_per_node, limit, cooled.probation_until)
    allowed = max(_allowed(pool, limits), has)
    if allowed < pool.max_nodes:
        return PoolSize(allowed, gpus_per_node, Limit.OPERATOR, None)
    return PoolSize(pool.max_nodes, gpus_per_node, Limit.MAX_NODES, None)


def _allowed(pool: Pool, limits: OperatorLimits) -> int:
    """The most nodes that the operator's limits would allow if all nodes were in this pool. Nodes that are in the
    cluster anyway are not limited."""
    if not pool.cloud.rents:
        return pool.max_nodes
    most = pool.max_nodes if limits.nodes is None else min(limits.nodes, pool.max_nodes)
    worst = 0 if pool.quote is None else pool.quote.worst.micros_per_hour
    return most if limits.hourly is None or worst <= 0 else min(most, limits.hourly.micros_per_hour // worst)


# The nodes that each pool may still get, and the names of new rentals. All budgets of a plan draw on the same nodes
# and names.
#
# No node is requested from a pool that refused nodes a while ago, is full, is unknown or is being deleted. No node is
# requested at all while the operator is stopped or has as many nodes as its limits allow.


def refusal(pool: Pool, surveyed: bool, live_rentals: int, more: int, now: Instant) -> ReasonCode | None:
    """Why the pool cannot be asked for ``more`` nodes beside ``live_rentals`` now; None if it can.

    While a pool cools down, no node is requested from it, but its ready and booting nodes are used. If its cloud has
    not answered yet (``surveyed`` is False), no node is requested either.
    """
    if pool.closed_because:
        return ReasonCode.POOL_DELETED
    if pool.cooling(now) is not None:
        return ReasonCode.POOL_COOLING
    if live_rentals + more > pool.max_nodes:
        return ReasonCode.POOL_FULL
    if not surveyed or pool.quote is None or pool.offering is None:
        return ReasonCode.NOT_ASKED_YET
    return None


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """The nodes of a pool that a budget has or may rent.

    ``size``: GPUs of a node. ``free``: for each node, GPUs that no job holds.
    """

    size: int
    free: Mapping[RentalId, int]


@dataclass(frozen=True, slots=True)
class LaunchWait:
    """The wait until a pool gives a node. ``probation``: the recent cool-down because of which the pool may give no
    node; None without one."""

    expected: ExpectedWait
    probation: CoolDown | None

    @property
    def seconds(self) -> float:
        """The expected wait in seconds."""
        return self.expected.seconds


def launch_wait(pool: Pool, probation: CoolDown | None, now: Instant) -> LaunchWait | None:
    """The wait for a node that is requested as soon as the pool's cool-down allows; None if the node is given at
    once."""
    refused = None if probation is None else probation.row_seconds(pool.cooldown_seconds)
    expected = expected_wait(pool.known_launches, now, refused)
    if probation is not None and (cools := seconds_between(now, probation.until)) > expected.seconds:
        expected = replace(expected, seconds=cools, high=max(cools, expected.high))
    return LaunchWait(expected, probation) if expected.seconds > 0.0 else None


def launch_waits(snapshot: Snapshot, rentals: RentalIndex) -> Mapping[PoolId, LaunchWait]:
    """The waits of pools that do not give a node at once."""
    probations = on_probation(snapshot, rentals)
    found = {
        name: launch_wait(pool, probations.get(name), snapshot.now) for name, pool in sorted(snapshot.pools.items())
    }
    return {name: wait for name, wait in found.items() if wait is not None}


class PoolQuota:
    """The room and the rental names of all pools. Renting uses them up. ``planner`` says in which order budgets rent.

    ``probations``: the cool-downs of pools of which it is not known whether they have nodes again.
    ``cooled``: when the cool-downs and probations end of the pools from which nodes were wanted.
    ``waits``: whether ``wait`` has a result for any pool.
    """

    def __init__(self, snapshot: Snapshot, rentals: RentalIndex) -> None:
        self._snapshot = snapshot
        self._live: dict[PoolId, int] = {}
        for (_, pool), here in rentals.by_pool.items():
            self._live[pool] = self._live.get(pool, 0) + len(here.live)
        self._next: dict[PoolId, int] = {}
        self.cooled: set[Instant] = set()
        self.probations = on_probation(snapshot, rentals)
        self.waits = bool(self.probations) or any([waits(pool.known_launches) for pool in snapshot.pools.values()])
        self._waits: dict[PoolId, LaunchWait | None] = {}
        self.room = OperatorRoom(snapshot)

    def refusal(self, pool: Pool, nodes: int) -> ReasonCode | None:
        """Why the pool cannot give ``nodes`` more nodes now; None if it can. If the pool cools down, the end of the
        cool-down is added to ``cooled``."""
        surveyed = pool.id in self._snapshot.surveys
        if self._snapshot.stop is not None:
            return ReasonCode.STOPPED
        if self._snapshot.unread_rental(pool.id) is not None:
            return ReasonCode.RENTAL_UNREADABLE
        code = refusal(pool, surveyed, self._live.get(pool.id, 0), nodes, self._snapshot.now)
        if code is ReasonCode.POOL_COOLING and pool.cool_down is not None:
            self.cooled.add(pool.cool_down.until)
        if code is None and not self.room.allows(pool, nodes):
            return ReasonCode.OPERATOR_LIMIT
        return code

    def lacking(self, pool: Pool) -> int:
        """The maximum number of nodes of the pool, minus its present number."""
        return max(pool.max_nodes - self._live.get(pool.id, 0), 0)

    def pool_room(self, nodes: FreeNodes, pool: Pool, gpus: int) -> PoolRoom:
        """The present ``nodes``, and as many more as ``gpus`` GPUs need and the pool may still give.

        Each pool may use all the room under the operator's limits. Limits of budgets do not count.
        """
        size = pool.gpus_per_node or 1
        there = sorted([*nodes.ready.free.items(), *nodes.booting.free.items()])
        new = {RentalId(f"{pool.id}/{number}"): size for number in range(self.more(pool, -(-gpus // size)))}
        return PoolRoom(size, {name: max(free, 0) for name, free in there} | new)

    def more(self, pool: Pool, most: int) -> int:
        """Number of nodes that the pool may still give, at most ``most``."""
        most = min(self._left(pool), most)
        return bisect_left(range(1, most + 1), True, key=lambda count: not self.room.allows(pool, count))

    def _left(self, pool: Pool) -> int:
        surveyed = pool.id in self._snapshot.surveys
        if self._snapshot.stop is not None or self._snapshot.unread_rental(pool.id) is not None:
            return 0
        return self.lacking(pool) if refusal(pool, surveyed, 0, 0, self._snapshot.now) is None else 0

    def wait(self, pool: PoolId) -> LaunchWait | None:
        """The wait for a node of the pool that is requested now; None if it is given at once.

        If the pool is on probation, the end of the probation is added to ``cooled``.
        """
        if pool not in self._waits:
            self._waits[pool] = launch_wait(self._snapshot.pools[pool], self.probations.get(pool), self._snapshot.now)
        wait = self._waits[pool]
        if wait is not None and wait.probation is not None:
            self.cooled.add(wait.probation.probation_until)
        return wait

    def take(self, pool: PoolId) -> RentalId:
        """Count one more node of the pool. Returns the name of its rental: ``<pool>-<ordinal>``, with the next ordinal.

        Kubernetes finds Events by an object's name, so a reused name would show the Events of an earlier machine.
        """
        ordinal = self._next.get(pool) or 1 + self._highest(pool)
        while (rental := RentalId(f"{pool}-{ordinal}")) in self._snapshot.rentals:
            ordinal += 1
        self._next[pool] = ordinal + 1
        self._live[pool] = self._live.get(pool, 0) + 1
        self.room.take(self._snapshot.pools[pool])
        return rental

    def _highest(self, pool: PoolId) -> int:
        """The highest ordinal of the pool's rentals, including deleted rentals that had a machine."""
        there = (rental.ordinal for rental in self._snapshot.rentals.values() if rental.pool == pool)
        return max(self._snapshot.pools[pool].lifetimes.ordinal, max(there, default=0))


# The cost of the nodes of one pool from now on, if no jobs arrive besides those in sight.
#
# A node is billed as a whole, and stays until the last of its jobs has left: seven empty GPUs beside a job are paid
# for as long as that job runs. A waiting job goes onto free GPUs, the fullest node first, or else onto new nodes. If
# it waits for GPUs that other jobs leave, it goes to the node where they become free first. Jobs for which the pool
# has no room follow one another on its nodes, as many at a time as a node takes.


@dataclass(slots=True, eq=False)
class StandingNode:
    """A node, and the jobs that decide how long it must stay.

    ``price``: dollars a second.
    ``ready``: seconds until it is ready.
    ``least``: seconds for which it is paid for in any case.
    ``jobs``: GPUs and remaining seconds of each job on the node.
    ``used``: GPUs that its jobs hold.
    ``stands``: seconds until the node can be given back.
    """

    price: float
    ready: float = 0.0
    least: float = 0.0
    jobs: list[tuple[int, float]] = field(default_factory=list)
    used: int = field(init=False)
    stands: float = field(init=False)

    def __post_init__(self) -> None:
        self.used = sum([gpus for gpus, _ in self.jobs])
        self.stands = max([self.least, *[left for _, left in self.jobs]])

    def copy(self) -> StandingNode:
        """A node with the same jobs, to which others may be added."""
        return StandingNode(self.price, self.ready, self.least, [*self.jobs])

    def add(self, gpus: int, seconds: float) -> None:
        """Add a job that holds ``gpus`` GPUs for ``seconds``."""
        self.jobs.append((gpus, seconds))
        self.used += gpus
        self.stands = max(self.stands, seconds)

    def free(self, size: int) -> int:
        """Number of GPUs that no job holds. ``size``: GPUs of the node."""
        return size - self.used

    def left_in(self, gpus: int, size: int) -> float:
        """Seconds until ``gpus`` GPUs are free; infinite if they never are. ``size``: GPUs of the node."""
        free = self.free(size)
        for left, more in sorted([(left, more) for more, left in self.jobs]):
            free += more
            if free >= gpus:
                return left
        return inf


class StandingNodes:
    """Nodes, and what they cost within any time."""

    def __init__(self, nodes: Iterable[StandingNode]) -> None:
        self.nodes = tuple(nodes)

    def dollars(self, seconds: float) -> float:
        """Dollars that the nodes cost within ``seconds``. Each node is counted until it can be given back."""
        stands, paid, prices = self._sums
        over = bisect_right(stands, seconds)
        return paid[over] + (seconds * prices[over] if prices[over] else 0.0)

    @cached_property
    def _sums(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """The seconds for which each node stays, in ascending order, and two sums for each number n of nodes.

        The first sum is the total dollars of the first n nodes. The second sum is the price a second of all other
        nodes.
        """
        each = sorted([(node.stands, node.price) for node in self.nodes])
        paid = accumulate([stands * price for stands, price in each], initial=0.0)
        prices = accumulate([price for _, price in reversed(each)], initial=0.0)
        return [stands for stands, _ in each], [*paid], [*prices][::-1]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that needs ``gpus`` GPUs on each of ``nodes`` nodes, for ``seconds`` once they are ready.

    ``runs``: whether the job runs while its nodes start. If so, its ``seconds`` on each node count from when this
    node is ready, and otherwise from when all nodes are ready.
    """

    gpus: int
    nodes: int
    seconds: float
    runs: bool = False


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """New nodes that a pool may give.

    ``size``: GPUs of a node.
    ``price``: dollars a second.
    ``start``: seconds until a node is ready.
    ``most``: number of nodes.
    """

    size: int
    price: float
    start: float
    most: int


class RunDown:
    """The nodes of a pool as jobs leave them. ``dollars``: the cost of the nodes within ``seconds``."""

    def __init__(self, nodes: StandingNodes, offer: NodeOffer, seconds: float) -> None:
        self.dollars = nodes.dollars(seconds)
        self._standing = nodes
        self._offer = offer
        self._seconds = seconds
        self._more = offer.most

    @cached_property
    def _by_free(self) -> dict[int, list[StandingNode]]:
        """Copies of the nodes, by their free GPUs."""
        found: dict[int, list[StandingNode]] = {}
        for node in self._standing.nodes:
            found.setdefault(node.free(self._offer.size), []).append(node.copy())
        return found

    @property
    def most_free(self) -> int:
        """The largest number of free GPUs on one node."""
        return max([free for free, there in self._by_free.items() if there], default=0)

    def adds(self, job: WaitingJob) -> float:
        """Dollars that the job would add to the cost of nodes if it were added next."""
        nodes = self._room(job)
        if nodes is None:
            beside = max(self._offer.size // job.gpus, 1)
            return self._offer.price * job.nodes * min(job.seconds, self._seconds) / beside
        begins = _begins(nodes)
        return sum([self._more_paid(node, _until(job, node, begins)) for node in nodes])

    def add(self, job: WaitingJob) -> float | None:
        """Add the job. Returns the seconds until its nodes are ready; None if there is no room for it."""
        nodes = self._room(job)
        if nodes is None:
            self.dollars += self.adds(job)
            return None
        begins = _begins(nodes)
        self._put(job, nodes, begins)
        return begins

    def follow(self, job: WaitingJob) -> None:
        """Add a job that waits for GPUs that other jobs leave, on the node where they become free first.

        If no GPUs will become free, or if the pool may give no more nodes, the job is added like any other job.
        """
        begins, node = inf, None
        for each in self._nodes() if job.nodes == 1 and self._more else ():
            seconds = each.left_in(job.gpus, self._offer.size)
            if seconds < begins:
                begins, node = seconds, each
        if node is None:
            self.add(job)
        else:
            self._put(job, (node,), begins)

    def _nodes(self) -> Iterator[StandingNode]:
        return (node for there in self._by_free.values() for node in there)

    def _put(self, job: WaitingJob, nodes: Sequence[StandingNode], begins: float) -> None:
        """Put the job onto the nodes from ``begins`` on. Nodes that do not exist yet count as rented."""
        size = self._offer.size
        for node in nodes:
            there = self._by_free.get(node.free(size), [])
            if node in there:
                there.remove(node)
            else:
                self._more -= 1
            until = _until(job, node, begins)
            self.dollars += self._more_paid(node, until)
            node.add(job.gpus, until)
            self._by_free.setdefault(node.free(size), []).append(node)

    def _more_paid(self, node: StandingNode, until: float) -> float:
        return self._paid(node, max(node.stands, until)) - self._paid(node, node.stands)

    def _paid(self, node: StandingNode, stands: float) -> float:
        return node.price * min(stands, self._seconds)

    def _room(self, job: WaitingJob) -> Sequence[StandingNode] | None:
        """The nodes that the job would get, including nodes to be rented; None if there is no room for the job."""
        found: list[StandingNode] = []
        for free in sorted(self._by_free):
            if free >= job.gpus:
                found += self._by_free[free][: job.nodes - len(found)]
        new = job.nodes - len(found)
        if new > self._more:
            return None
        return [*found, *[StandingNode(self._offer.price, self._offer.start) for _ in range(new)]]


def _begins(nodes: Sequence[StandingNode]) -> float:
    """Seconds until all of a job's nodes are ready."""
    return max([node.ready for node in nodes])


def _until(job: WaitingJob, node: StandingNode, begins: float) -> float:
    """Seconds until the job leaves the node."""
    return (node.ready if job.runs else begins) + job.seconds
