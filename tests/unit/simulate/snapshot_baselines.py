"""The baselines as planners that examine the whole snapshot at every event: slow, and simple enough to be right.

The state that ``charterer.tools.simulator.policies.baselines`` updates event by event is derived anew from each
snapshot here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil

from charterer.domain.ids import ClassId, JobId, RentalId
from charterer.domain.job import Allocation, Job, Placement
from charterer.domain.money import ZERO
from charterer.domain.option import Option
from charterer.domain.plan import Allocate, Command, Plan, Reason, ReasonCode, Release, Rent
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.tools.simulator.policies.fleet import nodes_for

_REASON = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))
Asked = Callable[[Job], int]


class Nodes:
    """The nodes of the one pool, in order of renting, with what is free on them while a plan is made."""

    def __init__(self, snapshot: Snapshot) -> None:
        (self.pool,) = snapshot.pools.values()
        assert self.pool.offering is not None
        self.size = self.pool.offering.gpus_per_node
        self.snapshot = snapshot
        self.ready = [rental for rental in snapshot.rentals.values() if rental.phase is RentalPhase.READY]
        self.booting = len(snapshot.rentals) - len(self.ready)
        self.free = {rental.id: self.size for rental in self.ready}
        for job in snapshot.jobs.values():
            for place in () if job.allocation is None else job.allocation.placements:
                self.free[place.rental] -= place.gpus
        self.commands: list[Command] = []

    def idle(self) -> list[RentalId]:
        return [name for name, free in self.free.items() if free == self.size]

    def whole(self, gpus: int) -> int:
        return gpus if gpus < self.size else ceil(gpus / self.size) * self.size

    def start_those_that_fit(self, waiting: Iterable[Job], asked: Asked) -> list[Job]:
        """Start the jobs that fit; returns the others."""
        left = []
        for job in waiting:
            gpus = self.whole(asked(job))
            if gpus < self.size:
                fits = min(((free, name) for name, free in self.free.items() if free >= gpus), default=None)
                placements = [] if fits is None else [Placement(fits[1], gpus)]
            else:
                whole = self.idle()[: gpus // self.size]
                placements = [Placement(name, self.size) for name in whole] if len(whole) == gpus // self.size else []
            for place in placements:
                self.free[place.rental] -= place.gpus
            if placements:
                assert self.pool.quote is not None
                option = Option(self.pool.id, gpus, 1.0, self.pool.quote.price.for_gpus(gpus, self.size))
                allocation = Allocation(job.last_run + 1, option, tuple(placements), self.snapshot.now)
                self.commands.append(Allocate(job.id, allocation, _REASON))
            else:
                left.append(job)
        return left

    def rent(self, nodes: int) -> None:
        assert self.pool.quote is not None
        names, number = set(self.snapshot.rentals), 1
        for _ in range(nodes):
            while (name := RentalId(f"{self.pool.id}-{number}")) in names:
                number += 1
            names.add(name)
            budget = next(iter(self.snapshot.budgets))
            self.commands.append(Rent(name, self.pool.id, budget, ZERO, self.pool.quote.price, _REASON))

    def release(self, names: Iterable[RentalId]) -> None:
        self.commands += [Release(name, _REASON) for name in names]

    def plan(self, again_at: Instant | None) -> Plan:
        return Plan(tuple(self.commands), {}, {}, (), {}, (), again_at)


def waiting(snapshot: Snapshot) -> list[Job]:
    """Jobs without a place, the oldest first."""
    without_place = [job for job in snapshot.jobs.values() if job.allocation is None]
    return sorted(without_place, key=lambda job: (job.created, job.id))


@dataclass
class AsAskedPlanner:
    asked: Asked
    scale_down_seconds: float
    idle_since: dict[RentalId, Instant] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot) -> Plan:
        nodes, now = Nodes(snapshot), snapshot.now
        pending = nodes.start_those_that_fit(waiting(snapshot), self.asked)
        if pending:
            needed = nodes_for((nodes.whole(self.asked(job)) for job in pending), nodes.size)
            nodes.rent(max(needed - len(nodes.idle()) - nodes.booting, 0))
        self.idle_since = {name: self.idle_since.get(name, now) for name in nodes.idle()}
        ends = {name: after(since, self.scale_down_seconds) for name, since in self.idle_since.items()}
        nodes.release(name for name, end in ends.items() if end <= now and not pending)
        return nodes.plan(min((end for end in ends.values() if end > now), default=None))


@dataclass
class FixedFleetPlanner:
    nodes: int
    asked: Asked
    jobs: int
    first: Callable[[Job], float] = lambda job: 0.0
    fair: bool = False
    used: dict[ClassId, int] = field(default_factory=dict)
    running: dict[JobId, tuple[ClassId, int]] = field(default_factory=dict)
    seen: Instant | None = None
    arrived: set[JobId] = field(default_factory=set)

    def __call__(self, snapshot: Snapshot) -> Plan:
        passed = 0 if self.seen is None else snapshot.now - self.seen
        for class_id, gpus in self.running.values():
            self.used[class_id] = self.used.get(class_id, 0) + gpus * passed
        self.seen = snapshot.now
        nodes = Nodes(snapshot)
        self.arrived.update(snapshot.jobs)
        if not snapshot.jobs and len(self.arrived) == self.jobs:
            nodes.release(snapshot.rentals)
        nodes.rent(max(self.nodes - len(snapshot.rentals), 0) if snapshot.jobs else 0)
        queue = sorted(waiting(snapshot), key=lambda job: (self.rank(job), job.created, job.id))
        nodes.start_those_that_fit(queue, self.asked)
        self.running = {
            job.id: (job.class_id, job.allocation.option.gpus)
            for job in snapshot.jobs.values()
            if job.allocation is not None
        }
        for command in nodes.commands:
            if isinstance(command, Allocate) and command.allocation is not None:
                self.running[command.job] = snapshot.jobs[command.job].class_id, command.allocation.option.gpus
        return nodes.plan(None)

    def rank(self, job: Job) -> float:
        return self.used.get(job.class_id, 0) if self.fair else self.first(job)


@dataclass
class UtilisationPlanner:
    asked: Asked
    low: float = 0.5
    high: float = 0.8
    scaled_at: Instant | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        nodes, now = Nodes(snapshot), snapshot.now
        nodes.start_those_that_fit(waiting(snapshot), self.asked)
        again = now if self.scaled_at is None else after(self.scaled_at, 60.0)
        if now >= again:
            self.scaled_at, again = now, after(now, 60.0)
            self.scale(nodes)
        return nodes.plan(again if snapshot.jobs or snapshot.rentals else None)

    def scale(self, nodes: Nodes) -> None:
        jobs = nodes.snapshot.jobs.values()
        wanted, rented = sum(nodes.whole(self.asked(job)) for job in jobs), len(nodes.snapshot.rentals)
        use = wanted / (rented * nodes.size) if rented else float("inf")
        target = max(ceil(wanted / (nodes.size * (self.low + self.high) / 2)), 1) if jobs else 0
        if use > self.high and target > rented:
            nodes.rent(target - rented)
        elif use < self.low:
            nodes.release(nodes.idle()[: max(rented - target, 0)])
