"""Which jobs are on which GPUs, with at most two on each, and how fast they train there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from charterer.domain.ids import ClassId, RentalId
from charterer.domain.job import Allocation
from charterer.domain.time import Instant, after
from charterer.gpu_types import sharers, slice_profile, whole_type
from charterer.tools.simulator.model.node_market import NodeMarket
from charterer.tools.simulator.model.pairs import PairMember, PairTable
from charterer.tools.simulator.model.sim_job import Gpu, SimJob

# The virtual clock: a queue of events in order of their times.


class Clock:
    """A virtual clock. ``now``: seconds since ``start``. ``instant``: the same time as an Instant.

    Events at the same time happen in the order in which they were scheduled.
    """

    __slots__ = ("_events", "_scheduled", "instant", "now", "start")

    def __init__(self, start: Instant) -> None:
        self.start = start
        self.now = 0.0
        self.instant = start
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0

    def at(self, when: float, callback: Callable[..., None], *arguments: Any) -> None:
        """Call ``callback(*arguments)`` at that time. If the time has passed, the call is the last event of the present
        time.
        """
        self._scheduled += 1
        heappush(self._events, (when, self._scheduled, callback, arguments))

    def before_all(self, when: float, rank: int, callback: Callable[..., None], *arguments: Any) -> None:
        """Like ``at``, but before everything that ``at`` scheduled for that time.

        Such events are in order of ``rank``, from 0.
        """
        heappush(self._events, (when, rank - (1 << 62), callback, arguments))

    def step(self, until: float) -> bool:
        """Run all events of the next time that has any. Returns False if no event is left up to ``until``."""
        events = self._events
        if not events or events[0][0] > until:
            return False
        now = self.now = events[0][0]
        self.instant = after(self.start, now)
        while events and events[0][0] <= now:
            _, _, callback, arguments = heappop(events)
            callback(*arguments)
        return True


_MOST_JOBS = 2


class SharedRun(NamedTuple):
    """The GPUs of a run. Each GPU is free or has one other job. ``passes``: number of passes in which the job does a
    step there.
    """

    gpus: tuple[Gpu, ...]
    passes: int = 1


def member(job: SimJob) -> PairMember:
    """The job as a partner on a GPU."""
    return PairMember(job.class_id.name, job.passes)


class SharedGpus:
    """The jobs on each GPU.

    A job's partner counts from the partner's first step on. While the partner starts or stands still, the job trains as
    if it were alone and holds all of the GPU's time. A job on several GPUs trains as slowly as on the slowest of them.
    The GPU time of two partners is divided in proportion to the fractions of their speeds that they keep. ``retrain``
    schedules a job's completion anew.
    """

    def __init__(self, clock: Clock, market: NodeMarket, table: PairTable, retrain: Callable[[SimJob], None]) -> None:
        self.table = table
        self._clock = clock
        self._market = market
        self._retrain = retrain
        self._on: dict[Gpu, list[SimJob]] = {}

    def jobs_on(self, gpu: Gpu) -> Sequence[SimJob]:
        """The jobs on a GPU, in the order in which they came."""
        return self._on.get(gpu, ())

    def both_kept(self, job: SimJob, passes: int, other: SimJob, rental: RentalId) -> tuple[float, float] | None:
        """The fractions of their speeds that the job, in ``passes`` passes, and the other job would keep on one GPU of
        that machine.

        None if the two do not fit, or if the machine's GPUs may not be shared.
        """
        model = self._market.machines[rental].model
        if model.sharing is None:
            return None
        own = PairMember(job.class_id.name, passes)
        return self.table.both_kept(whole_type(model.gpu_type), model.sharing, own, member(other))

    def enter(self, job: SimJob, allocation: Allocation, run: SharedRun | None) -> None:
        """Start the job's run. If ``run`` is None, the job gets the first GPUs of each placement that have no job.

        Raises ValueError if the GPUs are not those of the allocation, or if a job on them does not permit a partner.
        """
        if run is None:
            run = SharedRun(self._unused(allocation))
        else:
            self._check(job, allocation, run)
        job.devices, job.passes = run
        for gpu in run.gpus:
            self._on.setdefault(gpu, []).append(job)
        job.share(*self._parts(job))
        self.stands(job)

    def stands(self, job: SimJob) -> None:
        """Note that the job stands still until ``training_from``. Until then its partners train faster."""
        for other in self._partners(job):
            self._settle(other)
        if job.training_from > self._clock.now:
            self._clock.at(job.training_from, self._begins, job, job.runs)

    def leave(self, job: SimJob) -> None:
        """End the job's run. From now on its partners train alone."""
        partners = self._partners(job)
        for gpu in job.devices:
            jobs = self._on.get(gpu, [])
            if job in jobs:
                jobs.remove(job)
            if not jobs:
                self._on.pop(gpu, None)
        for other in partners:
            self._settle(other)

    def _begins(self, job: SimJob, run: int) -> None:
        if job.runs == run and job.allocation is not None and job.finished is None:
            self._settle(job)
            for other in self._partners(job):
                self._settle(other)

    def _unused(self, allocation: Allocation) -> tuple[Gpu, ...]:
        """GPUs for the allocation.

        In a pool of shared GPUs, these are the GPUs with the fewest jobs, because a device plugin spreads jobs in this
        way.
        """
        found: list[Gpu] = []
        for place in allocation.placements:
            model = self._market.machines[place.rental].model
            most = sharers(slice_profile(model.gpu_type))
            gpus = [Gpu(place.rental, number) for number in range(model.gpus_per_node // most)]
            there = {gpu: len(self.jobs_on(gpu)) for gpu in gpus}
            unused = sorted([gpu for gpu in gpus if there[gpu] < most], key=lambda gpu: there[gpu])
            if len(unused) < place.gpus:
                raise ValueError(f"{place.gpus} GPUs of {place.rental}, of which {len(unused)} have room")
            found += unused[: place.gpus]
        return tuple(found)

    def _check(self, job: SimJob, allocation: Allocation, run: SharedRun) -> None:
        there = Counter(gpu.rental for gpu in run.gpus)
        asked = {place.rental: place.gpus for place in allocation.placements}
        if there != asked or len(set(run.gpus)) < len(run.gpus):
            raise ValueError(f"GPUs {run.gpus}, which are not those of its placements {allocation.placements}")
        for gpu in run.gpus:
            size = self._market.machines[gpu.rental].model.gpus_per_node
            if not 0 <= gpu.number < size:
                raise ValueError(f"GPU {gpu.number} of {gpu.rental}, which has {size}")
            jobs = self.jobs_on(gpu)
            if len(jobs) >= _MOST_JOBS:
                raise ValueError(f"GPU {gpu.number} of {gpu.rental}, where two jobs are")
            for other in jobs:
                if self.both_kept(job, run.passes, other, gpu.rental) is None:
                    raise ValueError(f"GPU {gpu.number} of {gpu.rental} beside {other.id}, with which it does not fit")

    def _partners(self, job: SimJob) -> list[SimJob]:
        found = {other.id: other for gpu in job.devices for other in self.jobs_on(gpu) if other is not job}
        return list(found.values())

    def _settle(self, job: SimJob) -> None:
        """Let the job train on, at the speed and with the GPU time that follow from the jobs that are there now."""
        before = job.keeps
        job.advance(self._clock.now)
        job.share(*self._parts(job))
        if job.keeps != before and job.session is None:
            self._retrain(job)

    def _parts(self, job: SimJob) -> tuple[float, float, tuple[ClassId, ...]]:
        """The fraction of its speed that the job keeps now, the GPUs that the job holds, and the classes that train
        beside it.

        A GPU that the job shares counts in part.
        """
        now, own = self._clock.now, member(job)
        keeps = self.table.kept_alone(job.gpu_type, own)
        held = 0.0
        trains = job.training_from <= now
        for gpu in job.devices:
            other = next((there for there in self.jobs_on(gpu) if there is not job), None)
            if other is None:
                held += 1.0
                continue
            kept = self.both_kept(job, job.passes, other, gpu.rental)
            assert kept is not None
            other_trains = other.training_from <= now
            if other_trains:
                keeps = min(keeps, kept[0])
            if trains == other_trains:
                held += kept[0] / (kept[0] + kept[1]) if trains else 0.5
            elif trains:
                held += 1.0
        return keeps, held, tuple([other.run_class for other in self._partners(job) if other.training_from <= now])
