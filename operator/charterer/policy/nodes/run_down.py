"""What the nodes of one pool cost from now on, if nothing comes beside the jobs in sight.

A node is billed as a whole, and stands until the last of its jobs has left: seven empty GPUs beside a job are paid for
as long as that job runs. Jobs that wait go onto GPUs that are free, the fullest node first, then onto new nodes, or
where GPUs come free first if that is what they wait for. Those for which the pool has no room follow each other on its
nodes, as many beside each other as a node takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import inf


@dataclass(slots=True, eq=False)
class StandingNode:
    """A node at ``price`` dollars a second, ready in ``ready`` seconds, with (GPUs, seconds left) of each job on it.

    ``least``: seconds for which it is paid for in any case.
    """

    price: float
    ready: float = 0.0
    least: float = 0.0
    jobs: list[tuple[int, float]] = field(default_factory=list)

    def free(self, size: int) -> int:
        """GPUs of its ``size`` that no job has."""
        return size - sum([gpus for gpus, _ in self.jobs])

    def left_in(self, gpus: int, size: int) -> float:
        """Seconds until its jobs have left so many of its ``size`` GPUs; infinite if they never do."""
        free = self.free(size)
        for left, more in sorted([(left, more) for more, left in self.jobs]):
            free += more
            if free >= gpus:
                return left
        return inf

    def stands(self) -> float:
        """Seconds until it can be given back."""
        return max([self.least, *[left for _, left in self.jobs]])


class StandingNodes:
    """Nodes as they stand, and what they cost within any time."""

    def __init__(self, nodes: Iterable[StandingNode]) -> None:
        self.nodes = tuple(nodes)

    def dollars(self, seconds: float) -> float:
        """What they cost within so many seconds, until they can be given back."""
        stands, paid, prices = self._sums
        over = bisect_right(stands, seconds)
        return paid[over] + (seconds * prices[over] if prices[over] else 0.0)

    @cached_property
    def _sums(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """For how long each stands, the soonest first; for each number of these what they cost in all, and what a
        second of all others costs.
        """
        each = sorted([(node.stands(), node.price) for node in self.nodes])
        paid = accumulate([stands * price for stands, price in each], initial=0.0)
        prices = accumulate([price for _, price in reversed(each)], initial=0.0)
        return [stands for stands, _ in each], [*paid], [*prices][::-1]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that needs ``gpus`` GPUs on each of ``nodes`` nodes, for ``seconds`` once they are ready.

    ``runs``: whether it runs until then, so that what nodes cost while they wait for others brings it on.
    """

    gpus: int
    nodes: int
    seconds: float
    runs: bool = False


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """New nodes of ``size`` GPUs: ``price`` dollars a second, ready after ``start`` seconds, ``most`` of them."""

    size: int
    price: float
    start: float
    most: int


class RunDown:
    """The nodes of a pool, and the ``dollars`` that they cost within ``seconds``."""

    def __init__(self, nodes: StandingNodes, offer: NodeOffer, seconds: float) -> None:
        self.dollars = nodes.dollars(seconds)
        self._standing = nodes
        self._offer = offer
        self._seconds = seconds
        self._more = offer.most

    @cached_property
    def _by_free(self) -> dict[int, list[StandingNode]]:
        """Its own nodes, by their free GPUs."""
        found: dict[int, list[StandingNode]] = {}
        for node in self._standing.nodes:
            own = StandingNode(node.price, node.ready, node.least, [*node.jobs])
            found.setdefault(own.free(self._offer.size), []).append(own)
        return found

    @property
    def most_free(self) -> int:
        """The most GPUs that are free on a node."""
        return max([free for free, there in self._by_free.items() if there], default=0)

    def adds(self, job: WaitingJob) -> float:
        """Dollars that the job would add, if it came next."""
        nodes = self._room(job)
        if nodes is None:
            beside = max(self._offer.size // job.gpus, 1)
            return self._offer.price * job.nodes * min(job.seconds, self._seconds) / beside
        begins = _begins(nodes)
        return sum([self._more_paid(node, _until(job, node, begins)) for node in nodes])

    def add(self, job: WaitingJob) -> float | None:
        """Add the job. Returns in how many seconds its nodes are ready; None where there is no room for it."""
        nodes = self._room(job)
        if nodes is None:
            self.dollars += self.adds(job)
            return None
        begins = _begins(nodes)
        self._put(job, nodes, begins)
        return begins

    def follow(self, job: WaitingJob) -> None:
        """Add a job that waits for GPUs which others leave, where they come free first: like any other if there are
        none, or if the pool is full and many wait.
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
        """Put the job onto the nodes from ``begins`` on, of which those that are not there yet are rented."""
        size = self._offer.size
        for node in nodes:
            there = self._by_free.get(node.free(size), [])
            if node in there:
                there.remove(node)
            else:
                self._more -= 1
            until = _until(job, node, begins)
            self.dollars += self._more_paid(node, until)
            node.jobs.append((job.gpus, until))
            self._by_free.setdefault(node.free(size), []).append(node)

    def _more_paid(self, node: StandingNode, until: float) -> float:
        return self._paid(node, max(node.stands(), until)) - self._paid(node, node.stands())

    def _paid(self, node: StandingNode, stands: float) -> float:
        return node.price * min(stands, self._seconds)

    def _room(self, job: WaitingJob) -> Sequence[StandingNode] | None:
        """The nodes that the job would have, those to be rented included; None where there is no room for it."""
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
    """Seconds until the job leaves one of its nodes."""
    return (node.ready if job.runs else begins) + job.seconds
