"""What whole nodes cost where jobs are narrow: dollars and completion times against nodes of one GPU.

    python -m tests.bench.packing [--loads a c] [--nodes 8 4,1] [--rates 7] [--start 120] [--amounts 60000 90000]

Jobs of seven applications of Gavel's measurements on V100 GPUs, of 1 to 8 GPUs each, arrive over 12 hours. A GPU-hour
costs the same on nodes of every size; nodes start in 120 s, a restart takes 30 s, curves are exact. Each load is
simulated over a sweep of θ with nodes of each size, also of several sizes at once (``8,4,2,1``), or with budgets of so
many dollars a month. The table compares the dollars at equal mean completion times, read log-log on the lower envelope
of the sweep. It also says what nodes of one GPU would cost if their very schedule were packed on whole nodes, with jobs
moved between nodes at any instant for nothing.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from time import process_time

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan, ReasonCode
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import parse_instant, seconds_between
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import JobResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.policies.baselines import RequestedWidth
from charterer.tools.simulator.simulation import Planner, Simulation
from tests.bench import _gavel as gavel
from tests.bench._pollux import START, at_hours

LOADS = {"a": (400, 4), "b": (400, 5), "c": (150, 4), "d": (150, 5), "e": (1200, 4), "f": (1200, 5)}
"""Jobs in 12 hours, and the seed of their classes and arrivals."""
RATES = (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)
"""Dollars that a budget pays for an hour of a job's life."""
SECONDS = 43_200
AS_ASKED = 2
"""GPUs of each job where it is not chosen."""
_NOTICEABLE = 0.005


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation. ``given``: θ in dollars an hour, or a budget's amount in dollars a month. ``restarts``: a job.
    ``waits``: mean and longest seconds to the first start.

    ``late``: jobs that began later than by the node that was to be rented at the latest, as they were told.
    ``gpus``: (second, GPUs that jobs hold from then on) at each change.
    """

    load: str
    nodes: str
    given: float
    dollars: float
    mean: float
    restarts: float
    waits: tuple[float, float]
    late: int
    seconds: float
    gpus: tuple[tuple[float, int], ...]

    def packed(self, size: int) -> float:
        """Dollars for as few whole nodes of ``size`` GPUs as hold the GPUs in use at each instant."""
        node_seconds = sum(-(-gpus // size) * (until - since) for (since, gpus), (until, _) in pairwise(self.gpus))
        return node_seconds * size * gavel.GPU_HOURS[gavel.REFERENCE] / 3600.0


@dataclass(frozen=True, slots=True)
class Bed:
    """Seconds that nodes take to start and jobs to restart. ``monthly``: budgets have an amount, and find their θ."""

    start_seconds: float = 120.0
    restart_seconds: float = 30.0
    monthly: bool = False


def scenario(load: str, nodes: str, given: float, bed: Bed) -> Scenario:
    """A load on pools of nodes of the sizes named. ``given``: as in ``Run``."""
    sizes = [int(size) for size in nodes.split(",")]
    pools = tuple(
        PoolModel(
            f"v100-{size}",
            size,
            Price.parse(f"{gavel.GPU_HOURS[gavel.REFERENCE] * size:.2f}"),
            gavel.REFERENCE,
            start_seconds=bed.start_seconds,
            max_nodes=10_000,
        )
        for size in sizes
    )
    terms = JobTerms(Widths(1, 1, 8), ResizePolicy.RESTART)
    budget = new_budget(START, Money.of(given)) if bed.monthly else new_budget(START, rate=Rate(given / 3600.0))
    submitted = gavel.submissions(*LOADS[load], SECONDS)
    return Scenario(START, submitted, gavel.applications(), pools, budget, lambda _: terms, bed.restart_seconds)


class _Told:
    """The operator's planner, and the latest start that each waiting job was told first."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._latest: dict[str, float] = {}

    def plan(self, snapshot: Snapshot) -> Plan:
        """The operator's plan."""
        found = plan(snapshot, self._memo)
        for job, verdict in found.jobs.items():
            if verdict.reason.code is ReasonCode.WAITING_FOR_FREE_GPUS and snapshot.jobs[job].last_run == 0:
                (latest,) = re.findall(r"(?:rented|elsewhere) at (\S+) at the latest", verdict.reason.message)
                name = snapshot.jobs[job].name
                self._latest.setdefault(name, seconds_between(START, parse_instant(latest)))
        return found

    def late(self, jobs: Sequence[JobResult], start_seconds: float) -> int:
        """How many began more than a node's start-up after that."""
        return sum(
            job.started > self._latest[job.name] + start_seconds + 1.0
            for job in jobs
            if job.started is not None and job.name in self._latest
        )


def simulate(load: str, nodes: str, given: float, bed: Bed) -> Run:
    """The operator's planner; given 0, each job as asked."""
    began = process_time()
    world = scenario(load, nodes, given or 1.0, bed)
    classes = {class_of(name): application for name, application in world.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, bed.restart_seconds))
    widths = {name: max(gpus for gpus in each.widths if gpus <= AS_ASKED) for name, each in world.applications.items()}
    told = _Told()
    policy: Policy | Planner = RequestedWidth(lambda submission: widths[submission.application])
    if given:
        policy = told.plan
    result = Simulation(world, policy, knowledge).run()
    first = [job.started - job.submitted for job in result.jobs if job.started is not None]
    return Run(
        load,
        nodes,
        given,
        result.spent.dollars,
        result.mean_completion_seconds,
        result.restarts / len(result.jobs),
        (statistics.fmean(first), max(first)),
        told.late(result.jobs, bed.start_seconds),
        process_time() - began,
        _in_use(result.jobs),
    )


def _in_use(jobs: Sequence[JobResult]) -> tuple[tuple[float, int], ...]:
    """(second, GPUs that jobs hold from then on) at each change."""
    changes = Counter[float]()
    for job in jobs:
        ends = [(job.finished, 0)] if job.finished is not None else []
        for (_, before), (second, gpus) in pairwise([(0.0, 0), *job.widths, *ends]):
            changes[second] += gpus - before
    return tuple(zip(sorted(changes), accumulate(changes[second] for second in sorted(changes)), strict=True))


def dollars_at(runs: Sequence[Run], mean: float) -> float | None:
    """Dollars at a mean completion time, log-log on the lower envelope; None beyond the sweep."""
    return at_hours([(run.mean, run.dollars) for run in runs], mean)


def excess(runs: Sequence[Run], reference: Sequence[Run]) -> Sequence[float]:
    """Fraction by which the runs cost more than the reference at equal mean times, at 50 of them."""
    least = max(min(run.mean for run in each) for each in (runs, reference))
    most = min(max(run.mean for run in each) for each in (runs, reference))
    found = []
    for step in range(50):
        mean = least * (most / least) ** (step / 49)
        ours, theirs = dollars_at(runs, mean), dollars_at(reference, mean)
        if ours is not None and theirs is not None:
            found.append(ours / theirs - 1.0)
    return found


@dataclass(frozen=True, slots=True)
class Reversals:
    """Steps of a rising θ that go the wrong way: how many noticeably, and by what fraction the largest one does."""

    count: int
    largest: float

    @classmethod
    def of(cls, fallen: Sequence[float]) -> Reversals:
        """Count them. ``fallen``: the fraction by which each step goes the wrong way; negative for the right one."""
        return cls(sum(fraction > _NOTICEABLE for fraction in fallen), max([0.0, *fallen]))

    def __str__(self) -> str:
        return f"{self.count} (the largest {self.largest:.1%})"


def reversals(runs: Sequence[Run]) -> tuple[Reversals, Reversals]:
    """Steps of a rising θ at which jobs take longer, and at which they cost less."""
    steps = list(pairwise(sorted(runs, key=lambda run: run.given)))
    longer = Reversals.of([higher.mean / lower.mean - 1.0 for lower, higher in steps])
    return longer, Reversals.of([1.0 - higher.dollars / lower.dollars for lower, higher in steps])


def _print(load: str, nodes: str, runs: Sequence[Run], reference: Sequence[Run], asked: Run, bed: Bed) -> None:
    name = "dollars a month" if bed.monthly else "θ"
    print(f"\n{load} ({LOADS[load][0]} jobs, seed {LOADS[load][1]}), nodes of {nodes} GPUs:")
    for run in sorted(runs, key=lambda run: run.given):
        print(
            f"    {name} {run.given:6g}  ${run.dollars:8,.0f}  {run.mean:6,.0f} s  {run.restarts:.2f} restarts a job"
            f"  first start after {run.waits[0]:.0f} s, at most {run.waits[1]:.0f} s, {run.late} later than told"
            f"  ({run.seconds:.0f} s to compute)"
        )
    longer, cheaper = reversals(runs)
    text = (
        f"    steps of {name} with longer times {longer}, with fewer dollars {cheaper} (by more than {_NOTICEABLE:.1%})"
    )
    ours = dollars_at(runs, asked.mean)
    if ours is not None:
        text += f"; at {asked.mean:,.0f} s ${ours:,.0f}, as asked ${asked.dollars:,.0f}"
    if nodes != "1":
        above = excess(runs, reference)
        if above:
            text += f"; above nodes of one GPU {min(above):.1%} to {max(above):.1%}, mean {statistics.fmean(above):.1%}"
        packed = [run.packed(max(map(int, nodes.split(",")))) / run.dollars - 1.0 for run in reference]
        text += f"; their schedules on whole nodes, moves for nothing, {min(packed):.1%} to {max(packed):.1%} above"
    print(text, flush=True)


def main() -> None:
    """Sweeps, and prints each load's table as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", nargs="*", choices=LOADS, default=list(LOADS), help="which of the six")
    parser.add_argument("--nodes", nargs="*", default=["8", "8,4,2,1"], help="GPUs of a node, sizes sold together")
    parser.add_argument("--rates", type=int, default=7, help="values of θ: 7, or that many evenly spread")
    parser.add_argument("--start", type=float, default=120.0, help="start-up of nodes in seconds")
    parser.add_argument("--restart", type=float, default=30.0, help="restart of a job in seconds")
    parser.add_argument("--amounts", nargs="*", type=float, help="budgets in dollars a month, instead of θ")
    parser.add_argument("--processes", type=int, default=None, help="simulations at once")
    arguments = parser.parse_args()
    gavel.need_data()
    rates = RATES
    if arguments.rates != len(RATES):
        ratio = RATES[-1] / RATES[0]
        rates = tuple(RATES[0] * ratio ** (at / max(arguments.rates - 1, 1)) for at in range(arguments.rates))
    bed = Bed(arguments.start, arguments.restart, monthly=bool(arguments.amounts))
    given = arguments.amounts or rates
    with ProcessPoolExecutor(arguments.processes) as pool:
        for load in arguments.loads:
            work = {
                nodes: [pool.submit(simulate, load, nodes, each, bed) for each in given]
                for nodes in dict.fromkeys(["1", *arguments.nodes])
            }
            runs = {nodes: [future.result() for future in futures] for nodes, futures in work.items()}
            for nodes in arguments.nodes:
                asked = simulate(load, nodes.split(",")[0], 0.0, bed)
                _print(load, nodes, runs[nodes], runs["1"], asked, bed)


if __name__ == "__main__":
    main()
