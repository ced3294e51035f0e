"""Gang queues on a fixed number of nodes that stop running jobs for others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import JobId
from charterer.domain.job import Placement
from charterer.domain.time import Instant, after
from charterer.simulate.model.sim_job import SimJob
from charterer.simulate.policies.baselines import FixedFleet, PoolQueue, RequestedGpus
from charterer.simulate.policies.fleet import BaselineFleet

ROUND_SECONDS = 60.0
"""Between two rounds in which running jobs may be stopped, as in the simulators of Tiresias and Pollux."""
LONG_GPU_SECONDS = 3600.0
"""GPU-seconds after which a job no longer counts as short."""


class PreemptiveOrder(StrEnum):
    """Which jobs run. LAS: those that have held fewer than ``LONG_GPU_SECONDS``, then those that came first, which
    is Tiresias (NSDI'19) with two queues. SRTF: those that take the fewest seconds to their ends.
    """

    LAS = "las"
    SRTF = "srtf"


class PreemptiveFleet(FixedFleet):
    """The nodes of a ``FixedFleet``. Free GPUs are given at once to the job that came first of those that fit.

    In each round the jobs that come first in ``order`` and for which there are GPUs shall run. A job that shall not is
    stopped only if they take its GPUs; to go on later costs it a restart.
    """

    def __init__(self, nodes: int, asked: RequestedGpus, order: PreemptiveOrder) -> None:
        super().__init__(nodes, asked)
        self._preemptive_order = order
        self._next_round = Instant(0)

    def decide(self) -> Instant | None:
        """Start the jobs that fit; if a round is due, stop others for those that come before them."""
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
        """The pool's jobs and their widths, those that shall run first."""
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
    """Who is stopped, and who starts where, if ``jobs`` (with widths, in order) shall run on the fleet's nodes."""

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
        """The running jobs, in order, whose GPUs others take."""
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
        """GPUs of the fullest node that fits, or whole nodes, whoever is there that shall not run."""
        on_each = min(gpus, self.fleet.size)
        fitting = sorted((left, name) for name, left in self._left.items() if left >= on_each)
        if len(fitting) * on_each < gpus:
            return ()
        return tuple(Placement(name, on_each) for _, name in fitting[: gpus // on_each])


def _placements(job: SimJob) -> tuple[Placement, ...]:
    assert job.allocation is not None
    return job.allocation.placements
