"""Baselines: common practice without Charterer, for comparison in simulations. The operator never uses them.

``RequestedWidth`` runs each job at the width that its owner asked for, on nodes of a cluster autoscaler. ``FixedFleet``
has a fixed number of nodes and a gang queue. ``UtilisationAutoscaler`` has a gang queue on a fleet that grows and
shrinks with its use. All policies place a job of less than a node on the fullest node that fits, and a wider job on
whole nodes. Their state is updated event by event, so an event costs the same for any number of jobs and nodes. Only if
jobs share GPUs does it cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import ceil

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import Allocation, Placement, SpotPolicy
from charterer.domain.time import Instant, after
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.fleet import BaselineFleet, nodes_for
from charterer.tools.simulator.policies.queues import GangQueue, PartnerRank, SharingQueue

SCALE_DOWN_SECONDS = 600.0
"""Idle seconds after which a node is ended: the default of the Kubernetes cluster autoscaler."""

RequestedGpus = Callable[[Submission], int]
"""The width that a job's owner asked for."""
SecondsAt = Callable[[Submission, str, int], float]
"""Seconds that a job takes on GPUs of a type, given their number."""


class QueueOrder(StrEnum):
    """Which job in the queue comes first."""

    FIFO = "fifo"
    SHORTEST = "shortest"
    FAIR = "fair"


def _same_rank(_: SimJob) -> float:
    return 0.0


@dataclass(slots=True)
class PoolQueue:
    """The nodes of one pool, and the queue of the pool's jobs. ``wanted``: number of GPUs that these jobs hold or wait
    for.
    """

    fleet: BaselineFleet
    queue: GangQueue
    wanted: int = 0

    def has_nodes_for(self, gpus: int) -> bool:
        """Whether there are nodes now for a job of that width, in addition to the nodes for the jobs that wait."""
        fleet = self.fleet
        if not self.queue and fleet.place(gpus) is not None:
            return True
        free = fleet.idle + fleet.booting + max(fleet.most_now - len(fleet), 0)
        return nodes_for((*self.queue.widths(), gpus), fleet.size) <= free


class _GangPolicy(Policy):
    """Fleets, and queues of jobs that wait until all the GPUs that they asked for are free.

    A job runs in the cheapest pool that has nodes for it when it arrives. If no pool has nodes then, it runs in the
    cheapest pool that could ever have them. A job runs only on GPU types for which it has a curve, and on spot nodes
    only if its owner allows them. A job that no pool can run never runs.
    """

    def __init__(self, asked: RequestedGpus) -> None:
        self._asked = asked

    def begin_simulation(self, world: World) -> None:
        self._world = world
        fleets = {pool: BaselineFleet(world, pool) for pool in world.market.models}
        self._pools = {pool: PoolQueue(fleet, self._new_queue(fleet)) for pool, fleet in fleets.items()}

    def _new_queue(self, fleet: BaselineFleet) -> GangQueue:
        """A queue in which the job that came first is served first."""
        return GangQueue(_same_rank)

    def width(self, job: SimJob, pool: PoolQueue) -> int:
        """The width that the job gets in the pool."""
        return pool.fleet.placeable_width(self._asked(job.submission))

    def job_arrived(self, job: SimJob) -> None:
        widths = [(pool, self.width(job, pool)) for pool in self._pools.values()]
        fitting = [(pool, gpus) for pool, gpus in widths if self._fits(job, pool.fleet, gpus)]
        if len(fitting) > 1:
            fitting.sort(key=lambda choice: choice[0].fleet.gpu_price)
        if fitting:
            ready = (choice for choice in fitting if len(fitting) == 1 or choice[0].has_nodes_for(choice[1]))
            pool, gpus = next(ready, fitting[0])
            pool.queue.put(job, gpus)
            pool.wanted += gpus

    def _fits(self, job: SimJob, fleet: BaselineFleet, gpus: int) -> bool:
        terms = self._world.scenario.terms(job.submission)
        return (
            gpus <= fleet.most * fleet.size
            and job.application.runs_on(fleet.gpu_type, gpus)
            and fleet.gpu_type in (terms.gpu_types or (fleet.gpu_type,))
            and terms.asked_pool in ("", fleet.name)
            and (terms.spot is SpotPolicy.ALLOWED or not fleet.spot)
        )

    def job_completed(self, job: SimJob) -> None:
        assert job.allocation is not None
        pool = self._pools[job.allocation.option.pool]
        pool.fleet.left(job, job.allocation.placements)
        pool.wanted -= job.allocation.option.gpus

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        pool = self._pools[held.option.pool]
        pool.fleet.left(job, held.placements)
        pool.queue.put(job, self.width(job, pool))

    def machine_ready(self, machine: SimMachine) -> None:
        self._pools[machine.order.pool].fleet.machine_ready(machine)

    def machine_lost(self, machine: SimMachine) -> None:
        self._pools[machine.order.pool].fleet.machine_lost(machine)


class RequestedWidth(_GangPolicy):
    """Runs each job at the width of ``asked``. An autoscaler adds the nodes, and ends nodes that are idle for long."""

    def __init__(self, asked: RequestedGpus, scale_down_seconds: float = SCALE_DOWN_SECONDS) -> None:
        super().__init__(asked)
        self._scale_down_seconds = scale_down_seconds

    def decide(self) -> Instant | None:
        """Start the jobs that fit, and rent nodes for the other jobs. If all jobs fit, end nodes that were idle for too
        long.
        """
        again = [self._decide_in(pool) for pool in self._pools.values()]
        return min((at for at in again if at is not None), default=None)

    def _decide_in(self, pool: PoolQueue) -> Instant | None:
        fleet, queue, now = pool.fleet, pool.queue, self._world.clock.instant
        queue.serve(fleet)
        if queue:
            fleet.rent(nodes_for(queue.widths(), fleet.size) - fleet.idle - fleet.booting)
        idle_before, overdue, again = after(now, -self._scale_down_seconds), 0, None
        for since in fleet.idle_since.values():
            if since > idle_before:
                again = after(since, self._scale_down_seconds)
                break
            overdue += 1
        if overdue and not queue:
            ended = set(islice(fleet.idle_since, overdue))
            fleet.release([name for name in fleet.idle_nodes() if name in ended])
        return again


class FixedFleet(_GangPolicy):
    """A fixed number of nodes with a gang queue. The first job of the queue that fits runs.

    ``nodes``: number of nodes in each pool. The nodes of a pool are rented from the pool's first job until the last job
    of all pools.
    ``order``: which job comes first. In the fair order it is a job of the class with the fewest GPU-seconds so far.
    ``seconds_at``: how long jobs take. The order "shortest first" needs it.
    ``partners``: if given, jobs that find no free GPUs share the GPUs of other jobs, by this rank.
    """

    def __init__(
        self,
        nodes: int,
        asked: RequestedGpus,
        order: QueueOrder = QueueOrder.FIFO,
        seconds_at: SecondsAt = lambda submission, gpu_type, gpus: 0.0,
        partners: PartnerRank | None = None,
    ) -> None:
        super().__init__(asked)
        self._nodes = nodes
        self._partners = partners
        self._order = order
        self._seconds_at = seconds_at
        self._usage: dict[ClassId, _Usage] = {}

    def _new_queue(self, fleet: BaselineFleet) -> GangQueue:
        match self._order:
            case QueueOrder.FIFO:
                return GangQueue(_same_rank)
            case QueueOrder.SHORTEST if self._partners is not None:
                return SharingQueue(self._world, lambda job: self._seconds(job, fleet), self._partners)
            case QueueOrder.SHORTEST:
                return GangQueue(lambda job: self._seconds(job, fleet))
            case QueueOrder.FAIR:
                return GangQueue(_same_rank, lambda class_id: self._used(class_id).until(self._world.clock.instant))

    def job_completed(self, job: SimJob) -> None:
        super().job_completed(job)
        assert job.allocation is not None
        self._used(job.class_id).hold(-job.allocation.option.gpus, self._world.clock.instant)

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        super().job_interrupted(job, held)
        self._used(job.class_id).hold(-held.option.gpus, self._world.clock.instant)

    def decide(self) -> Instant | None:
        """Start the jobs that fit, and rent missing nodes. End all nodes when no job is left and none is still to
        come.
        """
        for pool in self._pools.values():
            for job in pool.queue.serve(pool.fleet):
                assert job.allocation is not None
                self._used(job.class_id).hold(job.allocation.option.gpus, self._world.clock.instant)
        self._rent_or_end()
        return None

    def _rent_or_end(self) -> None:
        """Rent missing nodes. End all nodes when no job is left and none is still to come."""
        for pool in self._pools.values():
            if pool.wanted:
                pool.fleet.rent(self._nodes - len(pool.fleet))
        if not self._world.unsubmitted and not any(pool.wanted for pool in self._pools.values()):
            for pool in self._pools.values():
                pool.fleet.end_all()

    def _seconds(self, job: SimJob, fleet: BaselineFleet) -> float:
        return self._seconds_at(job.submission, fleet.gpu_type, fleet.placeable_width(self._asked(job.submission)))

    def _used(self, class_id: ClassId) -> _Usage:
        return self._usage.setdefault(class_id, _Usage())


@dataclass(slots=True)
class _Usage:
    """The GPU-microseconds of a class up to ``since``, and the GPUs that the class holds from then on.

    Both are integers, so that two classes with the same use are equal, in whatever order their jobs are added up.
    """

    micros: int = 0
    gpus: int = 0
    since: int = 0

    def until(self, now: Instant) -> int:
        """GPU-microseconds up to ``now``."""
        return self.micros + self.gpus * (now - self.since)

    def hold(self, more: int, now: Instant) -> None:
        """Hold ``more`` more GPUs from now on, or fewer if it is negative."""
        self.micros, self.gpus, self.since = self.until(now), self.gpus + more, now


class UtilisationAutoscaler(_GangPolicy):
    """A gang queue on a fleet that grows while its use is above ``high``, and shrinks while it is below ``low``.

    Use is GPUs held or waited for ÷ GPUs rented. The use is checked every ``every_seconds``. Only idle nodes are ended.
    """

    def __init__(
        self, asked: RequestedGpus, low: float = 0.5, high: float = 0.8, least: int = 1, every_seconds: float = 60.0
    ) -> None:
        super().__init__(asked)
        self._low, self._high = low, high
        self._least = least
        self._every_seconds = every_seconds
        self._again = Instant(0)

    def decide(self) -> Instant | None:
        """Start the jobs that fit, and scale the fleets when that is due."""
        world, pools = self._world, self._pools.values()
        for pool in pools:
            pool.queue.serve(pool.fleet)
        now = world.clock.instant
        if now >= self._again:
            self._again = after(now, self._every_seconds)
            for pool in pools:
                self._scale(pool)
        return self._again if any(pool.wanted for pool in pools) or world.market.machines else None

    def _scale(self, pool: PoolQueue) -> None:
        fleet, wanted, nodes = pool.fleet, pool.wanted, len(pool.fleet)
        use = wanted / (nodes * fleet.size) if nodes else float("inf")
        target = max(ceil(wanted / (fleet.size * (self._low + self._high) / 2)), self._least) if wanted else 0
        if use > self._high and target > nodes:
            fleet.rent(target - nodes)
        elif use < self._low:
            fleet.release(fleet.idle_nodes()[: max(nodes - target, 0)])


# Gang queues on a fixed number of nodes that stop running jobs in favour of others.


ROUND_SECONDS = 60.0
"""Seconds between two rounds in which running jobs may be stopped, as in the simulators of Tiresias and Pollux."""
LONG_GPU_SECONDS = 3600.0
"""GPU-seconds from which on a job no longer counts as short."""


class PreemptiveOrder(StrEnum):
    """Which jobs run.

    LAS: jobs that have held fewer than ``LONG_GPU_SECONDS`` come first. Among equals, the job that came first is first.
    This is Tiresias (NSDI'19) with two queues. SRTF: the job with the fewest seconds to its end comes first.
    """

    LAS = "las"
    SRTF = "srtf"


class PreemptiveFleet(FixedFleet):
    """The nodes of a ``FixedFleet``. Free GPUs are given at once to the first job that fits.

    In each round, the first jobs in ``order`` are chosen to run, as many as there are GPUs for. A job that is not
    chosen is stopped only if a chosen job needs its GPUs, because to go on later costs the stopped job a restart.
    """

    def __init__(self, nodes: int, asked: RequestedGpus, order: PreemptiveOrder) -> None:
        super().__init__(nodes, asked)
        self._preemptive_order = order
        self._next_round = Instant(0)

    def decide(self) -> Instant | None:
        """Start the jobs that fit. If a round is due, stop other jobs for those that come before them."""
        now = self._world.clock.instant
        if now >= self._next_round and any(pool.queue for pool in self._pools.values()):
            self._next_round = after(now, ROUND_SECONDS)
            for pool in self._pools.values():
                self._hold_round(pool)
        super().decide()
        return self._next_round if any(pool.queue for pool in self._pools.values()) else None

    def _hold_round(self, pool: PoolQueue) -> None:
        fleet = pool.fleet
        round_ = _Round(fleet, dict(self._in_order(pool)))
        for job in round_.stopped():
            assert job.allocation is not None
            held = job.allocation
            self._world.stop(job)
            fleet.left(job, held.placements)
            self._used(job.class_id).hold(-held.option.gpus, self._world.clock.instant)
            pool.queue.put(job, held.option.gpus)
        started = set[JobId]()
        for job, placements in round_.started.items():
            fleet.start(job, placements)
            self._used(job.class_id).hold(round_.jobs[job], self._world.clock.instant)
            started.add(job.id)
        pool.queue.remove(started)

    def _in_order(self, pool: PoolQueue) -> Iterator[tuple[SimJob, int]]:
        """The pool's jobs and their widths, in the order in which they are chosen to run."""
        widths = {job: gpus for gpus, job in pool.queue.waiting()}
        for job in self._world.jobs.values():
            if job.allocation is not None and job.allocation.option.pool == pool.fleet.pool:
                widths[job] = job.allocation.option.gpus
        ranked = sorted(widths, key=lambda job: (self._rank(job, widths[job], pool.fleet), job.created, job.id))
        return ((job, widths[job]) for job in ranked)

    def _rank(self, job: SimJob, gpus: int, fleet: BaselineFleet) -> float:
        job.advance(self._world.clock.now)
        match self._preemptive_order:
            case PreemptiveOrder.LAS:
                return float(sum(job.gpu_seconds.values()) >= LONG_GPU_SECONDS)
            case PreemptiveOrder.SRTF:
                return job.application.seconds_left(job.done, fleet.gpu_type, gpus)


@dataclass
class _Round:
    """The jobs that are stopped or started so that the chosen ``jobs`` (with widths, in order) run on the fleet's
    nodes.
    """

    fleet: BaselineFleet
    jobs: dict[SimJob, int]

    def __post_init__(self) -> None:
        size, room = self.fleet.size, self.fleet.size * len(self.fleet.ready_nodes)
        shall = list[SimJob]()
        for job, gpus in self.jobs.items():
            if gpus <= room:
                room -= gpus
                shall.append(job)
        self._left = dict.fromkeys(self.fleet.ready_nodes, size)
        self._staying = {job for job in shall if job.allocation is not None}
        for job in self._staying:
            self._take(_placements(job))
        self.started = dict[SimJob, tuple[Placement, ...]]()
        for job in shall:
            if job.allocation is None and (placements := self._place(self.jobs[job])):
                self._take(placements)
                self.started[job] = placements

    def stopped(self) -> list[SimJob]:
        """The running jobs, in order, whose GPUs other jobs take."""
        stopped = []
        for job in self.jobs:
            if job.allocation is None or job in self._staying:
                continue
            if all(self._left[place.rental] >= place.gpus for place in _placements(job)):
                self._take(_placements(job))
            else:
                stopped.append(job)
        return stopped

    def _take(self, placements: tuple[Placement, ...]) -> None:
        for place in placements:
            self._left[place.rental] -= place.gpus

    def _place(self, gpus: int) -> tuple[Placement, ...]:
        """GPUs of the fullest node that fits, or whole nodes. The GPUs of a job that is not chosen to run count as
        free.
        """
        on_each = min(gpus, self.fleet.size)
        fitting = sorted((left, name) for name, left in self._left.items() if left >= on_each)
        if len(fitting) * on_each < gpus:
            return ()
        return tuple(Placement(name, on_each) for _, name in fitting[: gpus // on_each])


def _placements(job: SimJob) -> tuple[Placement, ...]:
    assert job.allocation is not None
    return job.allocation.placements
