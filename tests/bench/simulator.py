"""How fast simulations are:  python -m tests.bench.simulator [--jobs 20000] [--profile POLICY]

Job events a second of one core: processor time, the best of three runs (one where a run takes longer than ten seconds).
A job event is an arrival, the start of a run (the first one, one at another width, or one after an interruption), an
interruption, a report or a completion. What happens to nodes, and instants at which a policy only wanted to be asked,
take time too; they are printed, and not counted as job events.

A month in which 20,000 jobs of five applications arrive at random and ask for 1 to 16 GPUs; policies that take longer
see its first days. The bare engine: a policy that only starts each job at its width, on nodes that are kept; the same
with reports every 10 s of which nothing is learned; and with eight changes of width in a job's life. Then the baselines
(one of them also with a third of the nodes that it would need, so that thousands wait), and the operator's planner with
exact curves.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import process_time

from charterer.domain.ids import PoolId, Rate, RentalId
from charterer.domain.job import Allocation, Placement, Widths
from charterer.domain.money import ZERO, Price
from charterer.domain.option import Option
from charterer.domain.plan import Reason, ReasonCode, Rent
from charterer.domain.reasons.nodes import AnyDemand
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.engine.world import Policy, World
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel, SimMachine
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policies.baselines import FixedFleet, QueueOrder, RequestedWidth, UtilisationAutoscaler
from charterer.tools.simulator.simulation import PlannerPolicy, Simulation
from tests.boa_reference import BoaReference

START = parse_instant("2026-06-01T00:00:00Z")
MONTH, PER_MONTH = 30 * 86_400.0, 20_000
WIDTHS = (1, 2, *range(4, 33, 4))
NODES = 48
RESTART_SECONDS = 30.0
REPORT_SECONDS = 10.0
CHANGES = 8
RATE = 8.0
"""Dollars that an hour of a job's life is worth."""
ONCE_SECONDS = 10.0
POOL = PoolModel("pool", 4, Price.parse("4"), start_seconds=120.0)
AT_ONCE = replace(POOL, start_seconds=0.0)


def application(name: str, hours: float, epochs: int, parallel: float) -> Application:
    """``hours`` on one GPU, by Amdahl's law, the more parallel the further it is."""
    parts = [parallel * (0.9 + 0.1 * epoch / epochs) for epoch in range(epochs)]
    rates = [{gpus: 1.0 / (3600.0 * hours * (1.0 - part + part / gpus)) for gpus in WIDTHS} for part in parts]
    return Application(name, [(epoch + 1) / epochs for epoch in range(epochs)], {POOL.gpu_type: rates})


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of an application: how often, and the GPUs that are asked for."""

    application: Application
    often: int
    asked: tuple[int, ...]


KINDS = (
    Kind(application("tiny", 0.2, 2, 0.8), 40, (1, 2)),
    Kind(application("small", 1.0, 10, 0.9), 30, (1, 2, 4)),
    Kind(application("medium", 4.0, 30, 0.95), 20, (2, 4, 8)),
    Kind(application("large", 16.0, 60, 0.98), 8, (4, 8, 16)),
    Kind(application("huge", 64.0, 90, 0.995), 2, (8, 16)),
)
APPLICATIONS = {kind.application.name: kind.application for kind in KINDS}


def scenario(jobs: int, pool: PoolModel) -> Scenario:
    """The first ``jobs`` of the month."""
    draw, at, submissions = random.Random(1), 0.0, list[Submission]()
    for number in range(jobs):
        at += draw.expovariate(PER_MONTH / MONTH)
        (kind,) = draw.choices(KINDS, [kind.often for kind in KINDS])
        submissions.append(Submission(f"job-{number}", at, kind.application.name, draw.choice(kind.asked)))
    budget, terms = new_budget(START, rate=Rate(RATE / 3600.0)), JobTerms(Widths(1, 1, WIDTHS[-1]))
    return Scenario(START, tuple(submissions), APPLICATIONS, (pool,), budget, lambda _: terms, RESTART_SECONDS)


class Bare(Policy):
    """Starts each job at its width, on the nodes that were idle last; they are rented where none is, and kept."""

    def begin_simulation(self, world: World) -> None:
        """Nothing is rented yet."""
        self.world = world
        self.idle: list[RentalId] = []
        self.options = {
            gpus: Option(PoolId(POOL.name), gpus, 1.0, POOL.hourly.for_gpus(gpus, POOL.gpus_per_node))
            for gpus in WIDTHS
        }

    def job_arrived(self, job: SimJob) -> None:
        """Started at once."""
        self.start(job, job.submission.gpus)

    def job_completed(self, job: SimJob) -> None:
        """Its nodes are the next one's."""
        assert job.allocation is not None
        self.idle.extend([place.rental for place in job.allocation.placements])

    def machine_ready(self, machine: SimMachine) -> None:
        """For whoever it was rented."""
        self.idle.append(machine.id)

    def start(self, job: SimJob, gpus: int) -> None:
        """Here and now."""
        world, each = self.world, min(gpus, POOL.gpus_per_node)
        count = gpus // each
        while len(self.idle) < count:
            name, why = (
                RentalId(f"node-{world.market.rented_total}"),
                Reason(ReasonCode.DEMAND, 0.0, ZERO, AnyDemand(ZERO)),
            )
            world.rent(Rent(name, PoolId(POOL.name), world.scenario.budget.id, ZERO, POOL.hourly, why))
        placements = tuple([Placement(self.idle.pop(), each) for _ in range(count)])
        world.allocate(job, Allocation(job.runs + 1, self.options[gpus], placements, world.clock.instant))


class Changing(Bare):
    """The same; and at each arrival CHANGES running jobs, in turn, change between what was asked for and one node."""

    def begin_simulation(self, world: World) -> None:
        """Nobody runs yet."""
        super().begin_simulation(world)
        self.turn: deque[SimJob] = deque()

    def job_arrived(self, job: SimJob) -> None:
        """It starts, and others change their width."""
        super().job_arrived(job)
        self.turn.append(job)
        for _ in range(CHANGES):
            changing = self.turn.popleft()
            while changing.finished is not None:
                changing = self.turn.popleft()
            held = changing.allocation
            assert held is not None
            one_node = held.option.gpus == POOL.gpus_per_node
            self.start(changing, changing.submission.gpus if one_node else POOL.gpus_per_node)
            self.idle.extend([place.rental for place in held.placements])
            self.turn.append(changing)


_NOTHING = ExactKnowledge({})


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, of the jobs of a month the part that it sees, and what it knows."""

    policy: Callable[[], Policy]
    part: float = 1.0
    pool: PoolModel = POOL
    knowledge: Knowledge = _NOTHING


def _asked(submission: Submission) -> int:
    return submission.gpus


def _seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
    return APPLICATIONS[submission.application].seconds_left(0.0, gpu_type, gpus)


def _rates(job: SimJob, done: float) -> Mapping[int, float]:
    return job.application.rates[POOL.gpu_type][job.application.epoch(done)]


def _planned() -> Policy:
    memo = Memo()
    return PlannerPolicy(lambda snapshot: plan(snapshot, memo, verdicts=False))


def cases() -> Mapping[str, Case]:
    """By name."""
    curves = {class_of(name): application for name, application in APPLICATIONS.items()}
    exact = ExactKnowledge(exact_profiles(curves, RESTART_SECONDS))
    fixed = {
        f"fixed:{NODES}:{order}": Case(partial(FixedFleet, NODES, _asked, order, _seconds)) for order in QueueOrder
    }
    return {
        "bare engine": Case(Bare, pool=AT_ONCE),
        "bare, reports": Case(Bare, 0.02, AT_ONCE, ExactKnowledge({}, REPORT_SECONDS)),
        "bare, changing widths": Case(Changing, 0.25, AT_ONCE),
        "as-asked": Case(lambda: RequestedWidth(_asked)),
        **fixed,
        f"fixed:{NODES // 3}:fifo": Case(lambda: FixedFleet(NODES // 3, _asked)),
        "utilisation": Case(lambda: UtilisationAutoscaler(_asked)),
        "plain, ticks of 60 s": Case(lambda: BoaReference(RATE / 3600.0, _rates), 0.1),
        "charterer": Case(_planned, 0.02, knowledge=exact),
    }


def measure(case: Case, jobs: int) -> tuple[SimulationResult, float]:
    """What came of it, and processor seconds."""
    given = scenario(max(round(jobs * case.part), 1), case.pool)
    seconds = list[float]()
    while len(seconds) < 3 and sum(seconds) < ONCE_SECONDS:
        simulation = Simulation(given, case.policy(), case.knowledge)
        gc.collect()  # what the last one left is not this one's
        began = process_time()
        result = simulation.run()
        seconds.append(process_time() - began)
    return result, min(seconds)


def main() -> None:
    """A row for each policy; or where one policy's time goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=PER_MONTH, help="of the month")
    parser.add_argument("--profile", choices=list(cases()), help="where the time of this one goes")
    arguments = parser.parse_args()
    if arguments.profile:
        case = cases()[arguments.profile]
        simulation = Simulation(scenario(round(arguments.jobs * case.part), case.pool), case.policy(), case.knowledge)
        with cProfile.Profile() as profile:
            simulation.run()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    print("policy                     jobs  job events   instants   nodes  seconds  µs per job event  job events/s")
    for name, case in cases().items():
        result, seconds = measure(case, arguments.jobs)
        counts = result.counts
        each = seconds / counts.job_events
        print(
            f"{name:22} {counts.arrivals:8,} {counts.job_events:11,} {counts.instants:10,} {counts.machines:7,}"
            f" {seconds:8.2f} {each * 1e6:17.1f} {1 / each:13,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
