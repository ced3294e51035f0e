"""What is done without Charterer, as policies of the same simulation: to compare with, never used by the operator.

``RequestedWidth``: each job at the width its owner asked for, on nodes of a cluster autoscaler. ``FixedFleet``: so many
nodes and a gang queue. ``ByUtilisation``: the same with a fleet that grows and shrinks with its use. All of them place
a job of less than a node into the fullest node that fits, and wider ones on whole nodes. They keep what they need to
know as things happen, so that an event costs the same however many jobs and nodes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import ceil

from charterer.domain.ids import ClassId
from charterer.domain.job import Allocation
from charterer.domain.time import Instant, after, seconds_between
from charterer.simulate.engine.node_market import SimMachine
from charterer.simulate.engine.policy import Policy
from charterer.simulate.engine.sim_job import SimJob
from charterer.simulate.engine.workload import Submission
from charterer.simulate.engine.world import World
from charterer.simulate.policies.fleet import BaselineFleet, nodes_for
from charterer.simulate.policies.gang_queue import GangQueue

SCALE_DOWN_SECONDS = 600.0
"""A node that was idle for so long is ended: the default of the Kubernetes cluster autoscaler."""

RequestedGpus = Callable[[Submission], int]
"""The width that a job's owner asked for."""


class Order(StrEnum):
    """Who in the queue comes first."""

    FIFO = "fifo"
    SHORTEST = "shortest"
    FAIR = "fair"


def _alike(_: SimJob) -> float:
    return 0.0


class _Gangs(Policy):
    """A fleet, and jobs that wait until all GPUs that were asked for are free."""

    def __init__(self, asked: RequestedGpus) -> None:
        self._asked = asked

    def begins(self, world: World) -> None:
        self._world = world
        self._fleet = BaselineFleet(world)
        self._queue = self._line_up()

    def _line_up(self) -> GangQueue:
        """First come, first served."""
        return GangQueue(_alike)

    def width(self, task: SimJob) -> int:
        """GPUs that it gets."""
        return self._fleet.whole(self._asked(task.submission))

    def arrived(self, task: SimJob) -> None:
        self._queue.put(task, self.width(task))

    def completed(self, task: SimJob) -> None:
        assert task.allocation is not None
        self._fleet.give_back(task.allocation.placements)

    def interrupted(self, task: SimJob, held: Allocation) -> None:
        self._fleet.give_back(held.placements)
        self._queue.put(task, self.width(task))

    def ready(self, machine: SimMachine) -> None:
        self._fleet.ready(machine)

    def taken(self, machine: SimMachine) -> None:
        self._fleet.taken(machine)


class RequestedWidth(_Gangs):
    """Each job at the width that ``asked`` gives, on nodes that an autoscaler adds and ends when idle for long."""

    def __init__(self, asked: RequestedGpus, scale_down_seconds: float = SCALE_DOWN_SECONDS) -> None:
        super().__init__(asked)
        self._scale_down_seconds = scale_down_seconds

    def decide(self) -> Instant | None:
        """Start who fits, rent for who does not, and end what was idle for too long if everybody does."""
        fleet, now = self._fleet, self._world.clock.instant
        self._queue.serve(fleet)
        if self._queue:
            fleet.rent(nodes_for(self._queue.widths(), fleet.size) - fleet.idle - fleet.booting)
        due, over, again = after(now, -self._scale_down_seconds), 0, None
        for since in fleet.idle_since.values():
            if since > due:
                again = after(since, self._scale_down_seconds)
                break
            over += 1
        if over and not self._queue:
            ended = set(islice(fleet.idle_since, over))
            fleet.release([name for name in fleet.idle_nodes() if name in ended])
        return again


class FixedFleet(_Gangs):
    """``nodes`` nodes, rented as long as there is work, and a gang queue: the first in ``order`` that fits runs.

    ``seconds_at``: how long a job runs at a width (for the shortest first). Fair: the class with the least GPU-seconds
    so far first.
    """

    def __init__(
        self,
        nodes: int,
        asked: RequestedGpus,
        order: Order = Order.FIFO,
        seconds_at: Callable[[Submission, int], float] = lambda submission, gpus: 0.0,
    ) -> None:
        super().__init__(asked)
        self._nodes = nodes
        self._order = order
        self._seconds_at = seconds_at
        self._usage: dict[ClassId, _Usage] = {}

    def _line_up(self) -> GangQueue:
        match self._order:
            case Order.FIFO:
                return GangQueue(_alike)
            case Order.SHORTEST:
                return GangQueue(lambda task: self._seconds_at(task.submission, self._asked(task.submission)))
            case Order.FAIR:
                return GangQueue(_alike, lambda class_id: self._used(class_id).until(self._world.clock.now))

    def completed(self, task: SimJob) -> None:
        super().completed(task)
        assert task.allocation is not None
        self._used(task.class_id).holds(-task.allocation.option.gpus, self._world.clock.now)

    def interrupted(self, task: SimJob, held: Allocation) -> None:
        super().interrupted(task, held)
        self._used(task.class_id).holds(-held.option.gpus, self._world.clock.now)

    def decide(self) -> Instant | None:
        """Start who fits, and rent what is missing."""
        for task in self._queue.serve(self._fleet):
            assert task.allocation is not None
            self._used(task.class_id).holds(task.allocation.option.gpus, self._world.clock.now)
        if self._world.tasks:
            self._fleet.rent(self._nodes - len(self._fleet))
        return None

    def _used(self, class_id: ClassId) -> _Usage:
        return self._usage.setdefault(class_id, _Usage())


@dataclass(slots=True)
class _Usage:
    """GPU-seconds of a class up to ``since``, and the GPUs that it holds from then on."""

    seconds: float = 0.0
    gpus: int = 0
    since: float = 0.0

    def until(self, now: float) -> float:
        """GPU-seconds up to ``now``."""
        return self.seconds + self.gpus * (now - self.since)

    def holds(self, more: int, now: float) -> None:
        """From now on it holds so many more."""
        self.seconds, self.gpus, self.since = self.until(now), self.gpus + more, now


class ByUtilisation(_Gangs):
    """A gang queue on a fleet that is grown while its use is above ``high``, and shrunk while it is below ``low``.

    Use is GPUs held, or waited for, ÷ GPUs rented; it is looked at every ``every_seconds``, and idle nodes are ended.
    """

    def __init__(
        self,
        asked: RequestedGpus,
        low: float = 0.5,
        high: float = 0.8,
        least: int = 1,
        most: int = 1_000,
        every_seconds: float = 60.0,
    ) -> None:
        super().__init__(asked)
        self._low, self._high = low, high
        self._least, self._most = least, most
        self._every_seconds = every_seconds
        self._wanted = 0
        self._again = Instant(0)

    def arrived(self, task: SimJob) -> None:
        super().arrived(task)
        self._wanted += self.width(task)

    def completed(self, task: SimJob) -> None:
        super().completed(task)
        self._wanted -= self.width(task)

    def decide(self) -> Instant | None:
        """Start who fits, and from time to time look at the use."""
        world = self._world
        self._queue.serve(self._fleet)
        now = world.clock.instant
        if now >= self._again:
            self._again = after(now, self._every_seconds)
            self._scale()
        return self._again if world.tasks or world.market.machines else None

    def _scale(self) -> None:
        fleet, wanted, nodes = self._fleet, self._wanted, len(self._fleet)
        use = wanted / (nodes * fleet.size) if nodes else float("inf")
        target = min(max(ceil(wanted / (fleet.size * (self._low + self._high) / 2)), self._least), self._most)
        if not self._world.tasks:
            target = 0
        if use > self._high and target > nodes:
            fleet.rent(target - nodes)
        elif use < self._low:
            fleet.release(fleet.idle_nodes()[: max(nodes - target, 0)])


class BoaReference(Policy):
    """The plain budget-optimal policy: at each tick, each job at the width that is best in its present epoch.

    ``rates(task, done)[gpus]``: the part of the job a second once the part ``done`` is done. It knows neither sizes nor
    what a restart costs: it is what the theory says, carried out as it stands, and what the better planner is measured
    against.
    """

    def __init__(
        self, worth: float, rates: Callable[[SimJob, float], Mapping[int, float]], tick_seconds: float = 60.0
    ) -> None:
        self._worth = worth
        self._rates = rates
        self._tick_seconds = tick_seconds

    def begins(self, world: World) -> None:
        self._world = world
        self._fleet = BaselineFleet(world)

    def completed(self, task: SimJob) -> None:
        assert task.allocation is not None
        self._fleet.give_back(task.allocation.placements)

    def interrupted(self, task: SimJob, held: Allocation) -> None:
        self._fleet.give_back(held.placements)

    def ready(self, machine: SimMachine) -> None:
        self._fleet.ready(machine)

    def taken(self, machine: SimMachine) -> None:
        self._fleet.taken(machine)

    def decide(self) -> Instant | None:
        """At a tick, each job's width anew; nodes for who does not fit, else the idle ones are ended."""
        world, fleet = self._world, self._fleet
        now = world.clock.instant
        ticks = seconds_between(self._epoch(now), now) / self._tick_seconds
        if ticks != int(ticks):
            return after(self._epoch(now), ceil(ticks) * self._tick_seconds)
        price = fleet.price.dollars_per_second / fleet.size
        missing: list[int] = []
        for task in sorted(world.tasks.values(), key=lambda task: (task.created, task.id)):
            task.advance(world.clock.now)
            rates = self._rates(task, task.done)
            gpus = min(rates, key=lambda width: (self._worth + price * width) / rates[width])
            held = task.allocation
            if held is not None and held.option.gpus == gpus:
                continue
            if held is not None:
                fleet.give_back(held.placements)
            placements = fleet.place(gpus)
            if placements is not None:
                fleet.start(task, placements)
                continue
            missing.append(gpus)
            if held is not None:
                fleet.take(held.placements)
        if missing:
            fleet.rent(nodes_for(missing, fleet.size) - fleet.idle - fleet.booting)
        else:
            fleet.release(fleet.idle_nodes())
        return after(now, self._tick_seconds) if world.tasks or world.market.machines else None

    @staticmethod
    def _epoch(now: Instant) -> Instant:
        """Ticks are counted from full hours."""
        return Instant(now - now % 3_600_000_000)
