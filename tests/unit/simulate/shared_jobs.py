"""Small scenarios in which jobs share GPUs, and a policy that puts each job where the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from charterer.domain.ids import RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.pool import SharingMechanism
from charterer.domain.reasons.nodes import AnyDemand
from charterer.tools.simulator.engine.shared_gpus import SharedRun
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pairs import PairKey, PairMember, PairTable
from charterer.tools.simulator.model.result import JobResult, SimulationResult
from charterer.tools.simulator.model.scenario import Scenario, class_of
from charterer.tools.simulator.model.sim_job import Gpu, SimJob
from charterer.tools.simulator.model.workload import Submission
from tests.unit.simulate.scenarios import run, scenario

MPS = SharingMechanism.MPS
POOL = PoolModel("p", 1, Price.parse("3600"), "V100", sharing=MPS)
"""One GPU for a dollar a second."""
_WHY = Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO))


class JobSpec(NamedTuple):
    """A job of the class ``kind`` that takes so many seconds alone on ``gpus`` GPUs."""

    kind: str
    seconds: float
    at: float = 0.0
    gpus: int = 1


def pairs(kept: Mapping[tuple[str, str], tuple[float, float]], **more: Any) -> PairTable:
    """A table by two classes: what the first keeps beside the second, and the second beside the first."""
    rows: dict[PairKey, float] = {}
    for (first, second), (own, other) in kept.items():
        rows["V100", MPS, PairMember(first), PairMember(second)] = own
        rows["V100", MPS, PairMember(second), PairMember(first)] = other
    return PairTable(rows, **more)


def shared_scenario(
    jobs: Sequence[JobSpec], table: PairTable | None, pool: PoolModel = POOL, **changes: Any
) -> Scenario:
    """The jobs, named j0, j1, ...; no start and no restart takes time unless ``changes`` say so."""
    names = [f"j{number}" for number in range(len(jobs))]
    kinds = dict(zip(names, jobs, strict=True))
    applications = {
        name: application_from_speeds(name, {job.gpus: job.seconds}, gpu_type="V100") for name, job in kinds.items()
    }
    given = replace(
        scenario(pool=pool),
        submissions=tuple(Submission(name, job.at, name, job.gpus) for name, job in kinds.items()),
        applications=applications,
        classes=lambda submission, _: class_of(kinds[submission.name].kind),
        pairs=table,
    )
    return replace(given, **changes)


class Puts(Policy):
    """``nodes`` machines from the first second on, and each job at its arrival on these GPUs (node, number)."""

    def __init__(self, nodes: int, gpus: Mapping[str, Sequence[tuple[int, int]]], passes: int = 1) -> None:
        self._nodes = nodes
        self._gpus = gpus
        self._passes = passes

    def begin_simulation(self, world: World) -> None:
        self.world = world

    def job_arrived(self, job: SimJob) -> None:
        self.rent()
        self.start(job)

    def rent(self) -> None:
        """Rent the machines that are missing."""
        world = self.world
        (pool,) = world.market.pools
        price = world.market.models[pool].hourly
        while world.market.rented_total < self._nodes:
            name = RentalId(str(world.market.rented_total))
            world.rent(Rent(name, pool, world.scenario.budget.id, ZERO, price, _WHY))

    def start(self, job: SimJob) -> None:
        """Put the job on its GPUs."""
        world = self.world
        (pool,) = world.market.pools
        gpus = tuple(Gpu(RentalId(str(node)), number) for node, number in self._gpus[job.submission.name])
        counts: dict[RentalId, int] = {}
        for gpu in gpus:
            counts[gpu.rental] = counts.get(gpu.rental, 0) + 1
        placements = tuple(Placement(rental, count) for rental, count in counts.items())
        option = Option(pool, len(gpus), 1.0, world.market.models[pool].hourly)
        allocation = Allocation(job.runs + 1, option, placements, world.clock.instant)
        world.allocate(job, allocation, SharedRun(gpus, self._passes))

    def decide(self) -> None:
        world = self.world
        if not world.unsubmitted and not world.jobs:
            for name in tuple(world.market.machines):
                world.release(name)


def simulate(
    jobs: Sequence[JobSpec],
    table: PairTable | None,
    gpus: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    nodes: int = 1,
    passes: int = 1,
    **changes: Any,
) -> SimulationResult:
    """All jobs on the first node's first GPU, or where ``gpus`` says."""
    where = gpus or {f"j{number}": [(0, 0)] for number in range(len(jobs))}
    return run(shared_scenario(jobs, table, **changes), Puts(nodes, where, passes))


def ends(result: SimulationResult) -> dict[str, float | None]:
    """The second at which each job ended, by name."""
    return {name: job.finished for name, job in by_name(result).items()}


def by_name(result: SimulationResult) -> dict[str, JobResult]:
    """The results of the jobs."""
    return {job.name: job for job in sorted(result.jobs, key=lambda job: job.name)}
