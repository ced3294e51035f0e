"""Simulates the same jobs as if each got the GPUs that its owner asked for at once, for a comparison.

It uses the replay's own tables, prices and start-up times. When a job arrives, its pods go to free GPUs of rented nodes
(the fullest that fit) or to new nodes, in the first zone that can take all of them. The job trains once its nodes are
up and its pods have started. A node is given back when its last job ends. There is no budget.

The simulator's own baselines know one pool and whole nodes only; this one has zones with stock, and shared nodes.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from demo.scenario import PoolPlan, ReplayJob, Scenario


@dataclass(frozen=True, slots=True)
class RentedNode:
    """A node of the simulation: when it was rented (workload seconds), and its cost."""

    pool: PoolPlan
    launched: float
    ended: float
    dollars: float


@dataclass(frozen=True, slots=True)
class BaselineJob:
    """A job of the simulation, and when it trained (workload seconds)."""

    job: ReplayJob
    started: float
    ended: float

    @property
    def completion_seconds(self) -> float:
        """Seconds from submission to completion."""
        return self.ended - self.job.submitted


@dataclass(frozen=True, slots=True)
class Baseline:
    """The simulated jobs in order of completion, and the nodes."""

    jobs: tuple[BaselineJob, ...]
    nodes: tuple[RentedNode, ...]

    @property
    def mean_completion_seconds(self) -> float:
        """The mean time in seconds from submission to completion."""
        return sum(job.completion_seconds for job in self.jobs) / len(self.jobs)

    @property
    def dollars(self) -> float:
        """The cost of all nodes."""
        return sum(node.dollars for node in self.nodes)


@dataclass(slots=True)
class _Node:
    pool: PoolPlan
    launched: float
    ready: float
    free: int
    gpus_of: dict[str, int] = field(default_factory=dict)


def pods(gpus: int, per_node: int) -> tuple[int, ...]:
    """The GPUs of each pod of a job of ``gpus`` GPUs: whole nodes, then the rest."""
    whole, rest = divmod(gpus, per_node)
    return (per_node,) * whole + ((rest,) if rest else ())


class _Cloud:
    """The nodes that are rented in the simulation."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._starts: dict[str, Iterator[float]] = {
            pool.name: itertools.cycle(pool.start_seconds) for pool in scenario.pools
        }
        self._nodes: list[_Node] = []
        self.ended: list[RentedNode] = []

    def place(self, job: ReplayJob, at: float) -> float:
        """Assign nodes to the job; returns the second at which the last of them is up. ValueError: too large."""
        for pool in self._scenario.pools:
            if self._place_in(pool, job, at):
                return max(at, *(node.ready for node in self._nodes if job.name in node.gpus_of))
        raise ValueError(f"{job.name} asks for {job.asked} GPUs, more than any zone of the scenario has free")

    def _place_in(self, pool: PoolPlan, job: ReplayJob, at: float) -> bool:
        rented = [node for node in self._nodes if node.pool == pool]
        chosen: list[tuple[_Node, int]] = []
        for gpus in pods(job.asked, pool.gpus_per_node):
            taken = {id(node) for node, _ in chosen}
            fitting = [node for node in rented if node.free >= gpus and id(node) not in taken]
            if fitting:
                node = min(fitting, key=lambda node: (node.free, node.ready))
            else:
                node = _Node(pool, at, math.inf, pool.gpus_per_node)
            chosen.append((node, gpus))
        fresh = [node for node, _ in chosen if math.isinf(node.ready)]
        if pool.stock is not None and len(rented) + len(fresh) > pool.stock:
            return False
        for node in fresh:
            node.ready = at + next(self._starts[pool.name])
        self._nodes += fresh
        for node, gpus in chosen:
            node.free -= gpus
            node.gpus_of[job.name] = gpus
        return True

    def leave(self, job: ReplayJob, at: float) -> None:
        """Remove the job from its nodes, and give back the empty ones."""
        for node in self._nodes:
            node.free += node.gpus_of.pop(job.name, 0)
        for node in [node for node in self._nodes if not node.gpus_of]:
            self._nodes.remove(node)
            seconds = max(math.ceil(at - node.launched), node.pool.billing_minimum_seconds)
            self.ended.append(RentedNode(node.pool, node.launched, at, node.pool.hourly_price / 3600 * seconds))


def simulate(scenario: Scenario, pod_seconds: float = 0.0) -> Baseline:
    """Simulate the scenario's jobs at the widths that their owners asked for.

    ``pod_seconds``: the time that Kubernetes took in the replay to start and end a job's pods. ValueError: a job asks
    for more GPUs than any zone has.
    """
    cloud = _Cloud(scenario)
    running: list[tuple[float, int, BaselineJob]] = []
    trained: list[BaselineJob] = []

    def end_until(at: float) -> None:
        while running and running[0][0] <= at:
            ended, _, job = heapq.heappop(running)
            cloud.leave(job.job, ended)
            trained.append(job)

    for number, job in enumerate(scenario.jobs):
        end_until(job.submitted)
        started = cloud.place(job, job.submitted)
        ended = started + pod_seconds + scenario.restart_seconds + job.seconds(job.asked)
        heapq.heappush(running, (ended, number, BaselineJob(job, started, ended)))
    end_until(math.inf)
    return Baseline(tuple(trained), tuple(cloud.ended))
