"""What is done without Purser, as planners of the same simulation: to compare with, never used by the operator.

``AsAsked``: each job at the width its owner asked for, on nodes of a cluster autoscaler. ``FixedFleet``: so many nodes
and a gang queue. ``ByUtilisation``: the same with a fleet that grows and shrinks with its use. All of them place a job
of less than a node into the fullest node that fits, and wider ones on whole nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from purser.domain.ids import ClassId, JobId, PoolId, RentalId
from purser.domain.job import Allocation, Job, Placement
from purser.domain.money import ZERO, Money, Price
from purser.domain.option import Option
from purser.domain.plan import Allocate, Command, Plan, Reason, Release, Rent, Why
from purser.domain.rental import RentalPhase
from purser.domain.snapshot import Snapshot
from purser.domain.time import Instant, after, seconds_between

SCALE_DOWN_SECONDS = 600.0
"""A node that was idle for so long is ended: the default of the Kubernetes cluster autoscaler."""
_REASON = Reason(Why.DEMAND, 0.0, ZERO, "a baseline")


class Order(StrEnum):
    """Who in the queue comes first."""

    FIFO = "fifo"
    SHORTEST = "shortest"
    FAIR = "fair"


def _plan(commands: Iterable[Command], again_at: Instant | None) -> Plan:
    return Plan(tuple(commands), {}, {}, (), {}, (), again_at)


class Fleet:
    """The nodes of the one pool, with what is free on them while a plan is made."""

    def __init__(self, snapshot: Snapshot) -> None:
        (pool,) = snapshot.pools.values()
        assert pool.offering is not None
        assert pool.quote is not None
        self.pool: PoolId = pool.id
        self.size = pool.offering.gpus_per_node
        self.node_price: Price = pool.quote.price
        self._budget = next(iter(snapshot.budgets))
        self.free: dict[RentalId, int] = {}
        self.booting = 0
        for rental in snapshot.rentals.values():
            if rental.phase is RentalPhase.READY:
                self.free[rental.id] = self.size
            else:
                self.booting += 1
        for job in snapshot.jobs.values():
            for place in () if job.allocation is None else job.allocation.placements:
                self.free[place.rental] -= place.gpus
        self._names = set(snapshot.rentals)
        self.commands: list[Command] = []

    def idle(self) -> list[RentalId]:
        """Ready nodes on which nothing runs."""
        return [name for name, free in self.free.items() if free == self.size]

    def place(self, gpus: int) -> tuple[Placement, ...] | None:
        """Take GPUs on ready nodes, if there are as many in the right shape."""
        if gpus < self.size:
            fits = min(((free, name) for name, free in self.free.items() if free >= gpus), default=None)
            if fits is None:
                return None
            self.free[fits[1]] -= gpus
            return (Placement(fits[1], gpus),)
        whole = self.idle()[: gpus // self.size]
        if len(whole) < gpus // self.size:
            return None
        for name in whole:
            self.free[name] = 0
        return tuple(Placement(name, self.size) for name in whole)

    def give_back(self, job: Job) -> None:
        """Free what the job holds, before it is placed anew."""
        for place in () if job.allocation is None else job.allocation.placements:
            self.free[place.rental] += place.gpus

    def allocate(self, job: Job, placements: tuple[Placement, ...], now: Instant) -> None:
        """Start the job there."""
        gpus = sum(place.gpus for place in placements)
        option = Option(self.pool, gpus, 1.0, self.node_price.share(gpus, self.size))
        self.commands.append(Allocate(job.id, Allocation(job.last_run + 1, option, placements, now), _REASON))

    def rent(self, nodes: int) -> None:
        """Ask for more nodes."""
        number = 1
        for _ in range(nodes):
            while (name := RentalId(f"{self.pool}-{number}")) in self._names:
                number += 1
            self._names.add(name)
            self.commands.append(Rent(name, self.pool, self._budget, Money(0), self.node_price, _REASON))

    def release(self, name: RentalId) -> None:
        """End an idle node."""
        del self.free[name]
        self.commands.append(Release(name, _REASON))


def _whole(gpus: int, size: int) -> int:
    """The width that can be placed: below a node as it is, else whole nodes."""
    return gpus if gpus < size else ceil(gpus / size) * size


def nodes_for(widths: Iterable[int], size: int) -> int:
    """Nodes that take jobs of these widths, packed first-fit by falling width."""
    nodes, spare = 0, list[int]()
    for gpus in sorted(widths, reverse=True):
        if gpus >= size:
            nodes += gpus // size
            continue
        at = next((at for at, free in enumerate(spare) if free >= gpus), None)
        if at is None:
            spare.append(size - gpus)
        else:
            spare[at] -= gpus
    return nodes + len(spare)


@dataclass(slots=True)
class AsAsked:
    """Each job at the width that ``asked`` gives, on nodes that an autoscaler adds and ends when idle for long."""

    asked: Callable[[Job], int]
    scale_down_seconds: float = SCALE_DOWN_SECONDS
    _idle_since: dict[RentalId, Instant] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot) -> Plan:
        fleet = Fleet(snapshot)
        pending: list[int] = []
        for job in _waiting(snapshot):
            gpus = _whole(self.asked(job), fleet.size)
            placements = fleet.place(gpus)
            if placements is None:
                pending.append(gpus)
            else:
                fleet.allocate(job, placements, snapshot.now)
        if pending:
            spare = len(fleet.idle()) + fleet.booting
            fleet.rent(max(nodes_for(pending, fleet.size) - spare, 0))
        idle = fleet.idle()
        since = {name: self._idle_since.get(name, snapshot.now) for name in idle}
        self._idle_since = since
        for name in () if pending else idle:
            if seconds_between(since[name], snapshot.now) >= self.scale_down_seconds:
                fleet.release(name)
        ends = [after(at, self.scale_down_seconds) for at in since.values()]
        return _plan(fleet.commands, min((end for end in ends if end > snapshot.now), default=None))


@dataclass(slots=True)
class FixedFleet:
    """``nodes`` nodes, rented as long as there is work, and a gang queue: the first in ``order`` that fits runs.

    ``seconds_at``: how long a job runs at a width (for the shortest first). Fair: the class with the least GPU-seconds
    so far first. Who fits may pass who does not.
    """

    nodes: int
    asked: Callable[[Job], int]
    order: Order = Order.FIFO
    seconds_at: Callable[[Job, int], float] = lambda job, gpus: 0.0
    _used: dict[ClassId, float] = field(default_factory=dict)
    _seen: Instant | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        fleet = Fleet(snapshot)
        self._account(snapshot)
        have = len(fleet.free) + fleet.booting
        if have < self.nodes:
            fleet.rent(self.nodes - have)
        _queue(fleet, snapshot, self.asked, self._key)
        return _plan(fleet.commands, None)

    def _account(self, snapshot: Snapshot) -> None:
        passed = 0.0 if self._seen is None else seconds_between(self._seen, snapshot.now)
        for job in snapshot.jobs.values():
            if job.allocation is not None:
                used = self._used.get(job.class_id, 0.0)
                self._used[job.class_id] = used + job.allocation.option.gpus * passed
        self._seen = snapshot.now

    def _key(self, job: Job) -> tuple[float, Instant, JobId]:
        match self.order:
            case Order.FIFO:
                first = 0.0
            case Order.SHORTEST:
                first = self.seconds_at(job, self.asked(job))
            case Order.FAIR:
                first = self._used.get(job.class_id, 0.0)
        return first, job.created, job.id


@dataclass(slots=True)
class ByUtilisation:
    """A gang queue on a fleet that is grown while its use is above ``high``, and shrunk while it is below ``low``.

    Use is GPUs held, or waited for, ÷ GPUs rented; it is looked at every ``every_seconds``, and idle nodes are ended.
    """

    asked: Callable[[Job], int]
    low: float = 0.5
    high: float = 0.8
    least: int = 1
    most: int = 1_000
    every_seconds: float = 60.0
    _looked: Instant | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        fleet = Fleet(snapshot)
        _queue(fleet, snapshot, self.asked, lambda job: (job.created, job.id))
        again = snapshot.now if self._looked is None else after(self._looked, self.every_seconds)
        if snapshot.now >= again:
            self._looked = snapshot.now
            again = after(snapshot.now, self.every_seconds)
            self._scale(fleet, snapshot)
        return _plan(fleet.commands, again if snapshot.jobs or snapshot.rentals else None)

    def _scale(self, fleet: Fleet, snapshot: Snapshot) -> None:
        wanted = sum(_whole(self.asked(job), fleet.size) for job in snapshot.jobs.values())
        nodes = len(fleet.free) + fleet.booting
        use = wanted / (nodes * fleet.size) if nodes else float("inf")
        target = min(max(ceil(wanted / (fleet.size * (self.low + self.high) / 2)), self.least), self.most)
        if not snapshot.jobs:
            target = 0
        if use > self.high and target > nodes:
            fleet.rent(target - nodes)
        elif use < self.low:
            for name in fleet.idle()[: max(nodes - target, 0)]:
                fleet.release(name)


def _waiting(snapshot: Snapshot) -> list[Job]:
    """Jobs without a place, the oldest first."""
    found = [job for job in snapshot.jobs.values() if job.allocation is None]
    return sorted(found, key=lambda job: (job.created, job.id))


def _queue(
    fleet: Fleet,
    snapshot: Snapshot,
    asked: Callable[[Job], int],
    key: Callable[[Job], object],
) -> None:
    """Start what fits, in order."""
    for job in sorted(_waiting(snapshot), key=key):  # type: ignore[arg-type]
        placements = fleet.place(_whole(asked(job), fleet.size))
        if placements is not None:
            fleet.allocate(job, placements, snapshot.now)


@dataclass(slots=True)
class Plain:
    """The plain budget-optimal policy: at each tick, each job at the width that is best in its present epoch.

    ``rates(job)[gpus]``: the part of the job a second in its present epoch. It knows neither sizes nor what a restart
    costs: it is what the theory says, carried out as it stands, and what the better planner is measured against.
    """

    worth: float
    rates: Callable[[Job], Mapping[int, float]]
    tick_seconds: float = 60.0

    def __call__(self, snapshot: Snapshot) -> Plan:
        past = seconds_between(self._epoch(snapshot.now), snapshot.now)
        ticks = past / self.tick_seconds
        if ticks != int(ticks):
            return _plan((), after(self._epoch(snapshot.now), ceil(ticks) * self.tick_seconds))
        again = after(snapshot.now, self.tick_seconds)
        fleet = Fleet(snapshot)
        price = fleet.node_price.dollars_per_second / fleet.size
        missing: list[int] = []
        for job in sorted(snapshot.jobs.values(), key=lambda job: (job.created, job.id)):
            rates = self.rates(job)
            gpus = min(rates, key=lambda width: (self.worth + price * width) / rates[width])
            if job.allocation is not None and job.allocation.option.gpus == gpus:
                continue
            fleet.give_back(job)
            placements = fleet.place(gpus)
            if placements is not None:
                fleet.allocate(job, placements, snapshot.now)
                continue
            missing.append(gpus)
            for place in () if job.allocation is None else job.allocation.placements:
                fleet.free[place.rental] -= place.gpus
        if missing:
            fleet.rent(max(nodes_for(missing, fleet.size) - len(fleet.idle()) - fleet.booting, 0))
        else:
            for name in fleet.idle():
                fleet.release(name)
        return _plan(fleet.commands, again if snapshot.jobs or snapshot.rentals else None)

    @staticmethod
    def _epoch(now: Instant) -> Instant:
        """Ticks are counted from full hours."""
        return Instant(now - now % 3_600_000_000)
