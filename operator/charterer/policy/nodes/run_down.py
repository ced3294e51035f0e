"""What the nodes of one pool cost from now on, if nothing comes beside the jobs in sight.

A node is billed as a whole, and stands until the last of its jobs has left: seven empty GPUs beside a job are paid for
as long as that job runs. Jobs that wait go onto GPUs that are free, the fullest node first, then onto new nodes. Those
for which the pool has no room follow each other on its nodes, as many beside each other as a node takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
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

    def stands(self) -> float:
        """Seconds until it can be given back."""
        return max([self.least, *[left for _, left in self.jobs]])


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


@dataclass(frozen=True, slots=True)
class RunDown:
    """``dollars`` that nodes cost. ``ready``: seconds until those of each waiting job are ready; None without room."""

    dollars: float
    ready: Sequence[float | None]


def run_down(nodes: Iterable[StandingNode], waiting: Iterable[WaitingJob], offer: NodeOffer, seconds: float) -> RunDown:
    """What the nodes cost within ``seconds``. ``waiting``: in the order in which the jobs get their GPUs."""
    standing = [StandingNode(node.price, node.ready, node.least, [*node.jobs]) for node in nodes]
    by_free: dict[int, list[StandingNode]] = {}
    for node in standing:
        by_free.setdefault(node.free(offer.size), []).append(node)
    more, queue, ready = offer.most, 0.0, list[float | None]()
    for job in waiting:
        room = sum([len(there) for free, there in by_free.items() if free >= job.gpus])
        if room + more < job.nodes:
            queue += offer.price * job.nodes * min(job.seconds, seconds) / max(offer.size // job.gpus, 1)
            ready.append(None)
            continue
        taken: list[StandingNode] = []
        for free in sorted(by_free):
            while free >= job.gpus and by_free[free] and len(taken) < job.nodes:
                taken.append(by_free[free].pop())
        new = [StandingNode(offer.price, offer.start) for _ in range(job.nodes - len(taken))]
        more -= len(new)
        standing += new
        taken += new
        begin = max([node.ready for node in taken])
        ready.append(begin)
        for node in taken:
            node.jobs.append((job.gpus, (node.ready if job.runs else begin) + job.seconds))
            by_free.setdefault(node.free(offer.size), []).append(node)
    return RunDown(queue + sum([node.price * min(node.stands(), seconds) for node in standing]), ready)
