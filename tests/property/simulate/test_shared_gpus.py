"""Jobs that come, share GPUs, are stopped and go on: work is the integral of rates, and a GPU's time is held once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charterer.domain.ids import RentalId
from charterer.tools.simulator.engine.world import World
from charterer.tools.simulator.model.pairs import PairKey, PairMember, PairTable
from charterer.tools.simulator.model.sim_job import Gpu, SimJob
from tests import lanes
from tests.unit.simulate.scenarios import run
from tests.unit.simulate.shared_jobs import MPS, POOL, JobSpec, Puts, ends, shared_scenario, simulate

SEEDS = st.integers(0, 1 << 32)
KINDS = "abc"
NODES = 4
TWO_GPUS = replace(POOL, gpus_per_node=2)
"""Two GPUs for a dollar a second."""


def random_table(draw: Random) -> PairTable:
    """What each kind keeps beside each; some pairs do not fit."""
    pairs: dict[PairKey, float] = {}
    for first, second in ((first, second) for first in KINDS for second in KINDS if first <= second):
        fits = draw.random() < 0.8
        for own, other in ((first, second), (second, first)):
            pairs["V100", MPS, PairMember(own), PairMember(other)] = draw.uniform(0.2, 1.0) if fits else 0.0
    return PairTable(pairs)


@dataclass(frozen=True)
class Stay:
    """A job was on these GPUs from ``begin`` to ``end``, and trained from ``trains`` on."""

    job: str
    kind: str
    gpus: tuple[Gpu, ...]
    begin: float
    trains: float
    end: float


@dataclass
class Roams(Puts):
    """Puts jobs on any GPUs on which they fit, and now and then stops one."""

    draw: Random
    stays: list[Stay] = field(default_factory=list)
    open: dict[str, tuple[SimJob, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(NODES, {})

    def job_arrived(self, job: SimJob) -> None:
        self.rent()
        self.wake()

    def job_completed(self, job: SimJob) -> None:
        self.close(job)
        self.wake()

    def close(self, job: SimJob) -> None:
        _, begin, trains = self.open.pop(job.submission.name)
        now = self.world.clock.now
        self.stays.append(Stay(job.submission.name, job.class_id.name, job.devices, begin, trains, now))

    def wake(self) -> None:
        world = self.world
        if self.open and self.draw.random() < 0.3:
            job = self.draw.choice([job for job, _, _ in self.open.values()])
            world.stop(job)
            self.close(job)
        for job in world.jobs.values():
            if job.allocation is None and self.draw.random() < 0.9:
                self.try_to_put(job, world)
        if any(job.allocation is None for job in world.jobs.values()):
            world.clock.at(world.clock.now + self.draw.uniform(1.0, 60.0), self.wake)

    def try_to_put(self, job: SimJob, world: World) -> None:
        shared = world.shared_gpus
        assert shared is not None
        gpus = [Gpu(RentalId(str(node)), number) for node in range(NODES) for number in range(2)]
        fitting = [
            gpu
            for gpu in gpus
            if not (jobs := shared.jobs_on(gpu))
            or (len(jobs) == 1 and shared.both_kept(job, 1, jobs[0], gpu.rental) is not None)
        ]
        if len(fitting) < job.submission.gpus:
            return
        chosen = self.draw.sample(fitting, job.submission.gpus)
        self._gpus = {job.submission.name: [(int(gpu.rental), gpu.number) for gpu in chosen]}
        self.start(job)
        self.open[job.submission.name] = job, world.clock.now, job.training_from


def work_done(stays: list[Stay], job: str, table: PairTable) -> float:
    """Seconds of training alone that the job did, summed up over the spans in which nothing changes."""
    moments = sorted({moment for stay in stays for moment in (stay.begin, stay.trains, stay.end)})
    return sum(
        (end - begin) * rate for begin, end in pairwise(moments) for rate in rates(stays, job, (begin + end) / 2, table)
    )


def rates(stays: list[Stay], job: str, at: float, table: PairTable) -> Iterator[float]:
    for own in stays:
        if own.job == job and own.trains <= at < own.end:
            beside = [
                other
                for other in stays
                if other.job != job and other.trains <= at < other.end and set(other.gpus) & set(own.gpus)
            ]
            keys = [("V100", MPS, PairMember(own.kind), PairMember(other.kind)) for other in beside]
            yield min((table.pairs[key] for key in keys), default=1.0)


@settings(max_examples=lanes.examples(60))
@given(SEEDS, st.sampled_from([0.0, 30.0]))
def test_work_is_conserved_at_the_rates_of_the_table_and_each_gpu_is_held_once(seed: int, restart: float) -> None:
    draw = Random(seed)
    table = random_table(draw)
    jobs = [
        JobSpec(draw.choice(KINDS), draw.uniform(20.0, 400.0), draw.choice([0.0, draw.uniform(0.0, 600.0)]), width)
        for width in draw.choices([1, 1, 2, 3], k=draw.randint(2, 7))
    ]
    policy = Roams(draw)
    result = run(shared_scenario(jobs, table, TWO_GPUS, restart_seconds=restart), policy)
    for job, spec in zip(sorted(result.jobs, key=lambda job: job.name), jobs, strict=True):
        assert work_done(policy.stays, job.name, table) == pytest.approx(spec.seconds)
    occupied = sum(
        (end - begin) * len({gpu for stay in policy.stays if stay.begin <= begin < stay.end for gpu in stay.gpus})
        for begin, end in pairwise(sorted({moment for stay in policy.stays for moment in (stay.begin, stay.end)}))
    )
    assert result.used_gpu_hours * 3600.0 == pytest.approx(occupied)
    rented = result.ended_at - min(job.submitted for job in result.jobs)
    assert result.spent.dollars == pytest.approx(NODES * rented, abs=NODES)


@settings(max_examples=lanes.examples(30))
@given(SEEDS)
def test_the_order_of_jobs_that_come_at_once_does_not_matter(seed: int) -> None:
    draw = Random(seed)
    table = PairTable({}, absent=lambda key: (1 + KINDS.index(key[2].class_name) + KINDS.index(key[3].class_name)) / 6)
    slots = [(node, number) for node in range(NODES) for number in range(2)] * 2
    draw.shuffle(slots)
    jobs, where = list[JobSpec](), dict[str, list[tuple[int, int]]]()
    while len(slots) > 3:
        width = draw.choice([1, 2])
        gpus = sorted({slots.pop() for _ in range(width)})
        where[f"j{len(jobs)}"] = gpus
        jobs.append(JobSpec(draw.choice(KINDS), draw.uniform(20.0, 400.0), gpus=len(gpus)))
    turned = {f"j{len(jobs) - 1 - int(name[1:])}": gpus for name, gpus in where.items()}
    first = ends(simulate(jobs, table, where, NODES, pool=TWO_GPUS))
    again = ends(simulate(jobs[::-1], table, turned, NODES, pool=TWO_GPUS))
    for name, at in first.items():
        assert again[f"j{len(jobs) - 1 - int(name[1:])}"] == pytest.approx(at)
