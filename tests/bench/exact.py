"""Sharing out too little room:  python -m tests.bench.exact [--programs 20] [--seeds 2] [--jobs 160] [--budget]
[--workloads philly pollux] [--loads 0.6 0.8 1 1.2]

First the program alone: 500 jobs in sight and five full pools, without and with jobs that run already; its processor
time (the least of three), and the gap to its bound. Then simulations at 60 to 120 % of capacity, with the same planner
that gives GPUs to one job after the other, and with the program where a pool is full: Philly's jobs (drawn by a seed,
widths from half to four times what was asked for, three in ten of that width only, Amdahl's law) on 8-GPU nodes, and
Pollux's workloads 1 and 2 on 4-GPU nodes. The load is the GPU time of all jobs at the widths asked for, by the time in
which they come. Nodes start in 120 s, a restart takes 30 s, a job-hour is worth $8 at $2 (Philly) or $1 (Pollux) a
GPU-hour.
``--budget``: a month's budget instead, of what the nodes in use would cost if jobs had the widths asked for, so that
the exchange rate and its calibration work too.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from unittest.mock import patch

from charterer.domain.budget import Budget
from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.policy.solve.linear_program import Claimant, NodeRoom, Way, allocate
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_phases, exact_profile, exact_profiles
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import ApplicationWidths
from charterer.tools.simulator.simulation import Simulation
from demo.condense import data_dir
from tests.bench import _pollux

LOADS = (0.6, 0.8, 1.0, 1.2)
WORK = 8_000
PARALLEL: Mapping[str, float] = {"good": 0.995, "fair": 0.96, "poor": 0.85}
"""Parallel part of the work by class."""
SIZE, NODES = 8, 6
WIDTHS = (1, 2, *range(4, SIZE * NODES + 1, 4))
SHORTEST, LONGEST = 300.0, 8 * 3600.0
"""Seconds of the jobs that are drawn: longer ones than a working day would decide the means alone."""
RIGID = 0.3
WORTH = 8.0
MONTH_HOURS = 30 * 24


# --- the program alone ------------------------------------------------------------------------------------------------


def program(
    seed: int, jobs: int, pools: int, size: int, running: float
) -> tuple[list[Claimant], dict[PoolId, NodeRoom]]:
    """Amdahl jobs with up to three pools each, for 60 % more GPUs than there are; some run somewhere already."""
    draw = random.Random(seed)
    names = [PoolId(f"p{number}") for number in range(pools)]
    prices = {name: draw.uniform(0.5, 4.0) for name in names}
    speeds = {name: prices[name] * draw.uniform(0.7, 1.4) for name in names}
    waiting: list[Claimant] = []
    for _ in range(jobs):
        parallel, weight = draw.choice([0.8, 0.95, 0.99, 0.999]), draw.choice([0.5, 1.0, 1.0, 1.0, 2.0])
        worth, widest = draw.uniform(2.0, 6.0) * weight, draw.choice([1, 2, 4, 8, 16, 32])
        widths = [widest] if draw.random() < RIGID else [gpus for gpus in (1, 2, 4, 8, 16, 32) if gpus <= widest]
        ways = [
            Way(pool, gpus, worth * speeds[pool] / (1 - parallel + parallel / gpus) - 0.2 * prices[pool] * gpus)
            for pool in draw.sample(names, draw.randint(1, min(3, pools)))
            for gpus in widths
        ]
        waiting.append(Claimant(tuple(sorted(ways, key=lambda way: -way.value))))
    nodes = {}
    for name in names:
        wanted = sum(one.ways[0].gpus for one in waiting if one.ways[0].pool == name)
        count = max(int(wanted / 1.6 / size), 3)
        free = [draw.randint(0, size) if draw.random() < 0.2 else size for _ in range(count)]
        nodes[name] = NodeRoom(size, tuple(free))
    return _some_run(waiting, nodes, running, draw), nodes


def _some_run(
    waiting: Sequence[Claimant], nodes: Mapping[PoolId, NodeRoom], running: float, draw: random.Random
) -> list[Claimant]:
    """A fraction of the jobs runs somewhere, and loses 5 % of a way's value by moving."""
    free = {name: list(pool.free) for name, pool in nodes.items()}
    found = []
    for one in waiting:
        at, wanted = draw.randrange(len(one.ways)), draw.random() < running
        way = one.ways[at]
        part, count = min(way.gpus, nodes[way.pool].size), max(way.gpus // nodes[way.pool].size, 1)
        on = [node for node, gpus in enumerate(free[way.pool]) if gpus >= part][:count]
        if not wanted or len(on) < count:
            found.append(one)
            continue
        for node in on:
            free[way.pool][node] -= part
        ways = tuple(other if other is way else other._replace(value=0.95 * other.value) for other in one.ways)
        found.append(Claimant(ways, at, tuple((node, part) for node in on)))
    return found


def programs(count: int) -> None:
    """A row for each size of nodes, number of jobs and fraction of jobs that run."""
    allocate(*program(0, 20, 2, 8, 0.0), WORK)  # loads the library
    print("jobs pools  GPUs a node  running   ms: median    most   gap: median    most   over one after the other")
    for jobs, pools in ((500, 5), (60, 2), (20, 1)):
        for size, running in ((4, 0.0), (8, 0.0), (4, 0.5), (8, 0.5)):
            took, answers = [], []
            for seed in range(count):
                claimants, nodes = program(seed, jobs, pools, size, running)
                times = []
                for _ in range(3):
                    began = time.process_time()
                    answer = allocate(claimants, nodes, WORK)
                    times.append((time.process_time() - began) * 1e3)
                answers.append(answer)
                took.append(min(times))
            gaps = [answer.gap for answer in answers]
            more = statistics.median(answer.value / answer.first - 1.0 for answer in answers)
            print(
                f"{jobs:4} {pools:5} {size:12} {running:8.0%} {statistics.median(took):12.0f} {max(took):7.0f}"
                f" {statistics.median(gaps):13.2%} {max(gaps):7.2%} {more:10.1%}",
                flush=True,
            )


# --- simulations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """``workload``: philly or pollux, with the seed or number. ``allotted``: whether the program allots room."""

    workload: str
    seed: int
    load: float
    jobs: int
    budget: bool
    allotted: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean seconds until the first start and completion; useful: GPU-hours at the widths asked ÷ those rented.

    ``allotted``: how often the program was solved. ``dollars``: of a job.
    """

    wait: float
    completion: float
    useful: float
    restarts: float
    longest: float
    dollars: float
    allotted: int


class _KnownSizes(ExactKnowledge):
    """Jobs of a class share its curve, and each says how much work it is."""

    __slots__ = ()

    def expected_work(self, job: SimJob) -> float | None:
        return job.application.reference_seconds


@cache
def philly() -> Sequence[tuple[float, int]]:
    """Duration and GPUs of the trace's jobs that run for minutes to hours on up to 16 GPUs."""
    with (data_dir() / "pollux" / "philly.csv").open(newline="") as lines:
        jobs = [(float(row["duration"]), int(row["num_gpus"])) for row in csv.DictReader(lines)]
    return [(took, gpus) for took, gpus in jobs if SHORTEST <= took <= LONGEST and gpus in (1, 2, 4, 8, 16)]


def _philly(case: Case) -> tuple[Scenario, Knowledge]:
    draw = random.Random(case.seed)
    drawn = draw.sample(philly(), case.jobs)
    span = sum(took * gpus for took, gpus in drawn) / (SIZE * NODES * case.load)
    applications: dict[str, Application] = {}
    submissions: list[Submission] = []
    terms: dict[str, JobTerms] = {}
    for number, (took, gpus) in enumerate(drawn):
        kind = draw.choice(list(PARALLEL))
        parallel = PARALLEL[kind]
        alone = took / (1 - parallel + parallel / gpus)
        name = f"{kind}-{number}"
        rates = {width: 1.0 / (alone * (1 - parallel + parallel / width)) for width in WIDTHS}
        applications[name] = Application(name, (1.0,), {GPU_TYPE: (rates,)})
        rigid = draw.random() < RIGID
        widths = Widths(gpus, gpus, gpus) if rigid else Widths(max(gpus // 2, 1), gpus, min(4 * gpus, SIZE * NODES))
        terms[name] = JobTerms(widths, ResizePolicy.NEVER if rigid else ResizePolicy.RESTART)
        submissions.append(Submission(name, draw.uniform(0.0, span), name, gpus))
    profiles = {}
    for kind in PARALLEL:
        alike = [application for name, application in applications.items() if name.startswith(kind)]
        profile = exact_profile(class_of(kind), exact_phases(alike[0]), 30.0)
        mean = statistics.mean(application.reference_seconds for application in alike)
        profiles[profile.id] = replace(profile, mean_work=mean)
    pool = PoolModel("v100", SIZE, Price.parse("16"), GPU_TYPE, start_seconds=120.0, max_nodes=NODES)
    scenario = Scenario(
        start=_pollux.START,
        submissions=tuple(sorted(submissions, key=lambda submission: submission.at)),
        applications=applications,
        pools=(pool,),
        budget=_budget(pool, case.load) if case.budget else new_budget(_pollux.START, rate=Rate(WORTH / 3600.0)),
        terms=lambda submission: terms[submission.name],
        classes=lambda _, application: class_of(application.name.partition("-")[0]),
    )
    return scenario, _KnownSizes(profiles)


def _budget(pool: PoolModel, load: float) -> Budget:
    """A budget that pays for the pool's nodes in use for a month."""
    hours = MONTH_HOURS * pool.max_nodes * min(load, 1.0)
    return new_budget(_pollux.START, Money.of(hours * pool.hourly.dollars_per_second * 3600.0))


def _pollux_workload(case: Case) -> tuple[Scenario, Knowledge]:
    scenario = _pollux.scenario(case.seed, WORTH, 120.0)
    asked = ApplicationWidths(scenario.applications).asked
    needed = sum(
        asked(submission) * scenario.applications[submission.application].seconds_left(0.0, GPU_TYPE, asked(submission))
        for submission in scenario.submissions
    )
    (pool,) = scenario.pools
    nodes = max(round(needed / (8 * 3600.0 * case.load * pool.gpus_per_node)), 1)
    pool = replace(pool, max_nodes=nodes)
    budget = _budget(pool, case.load) if case.budget else scenario.budget
    by_class = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(by_class, scenario.restart_seconds))
    return replace(scenario, pools=(pool,), budget=budget), knowledge


def run(case: Case) -> Figures:
    """One simulation, until the last job is done."""
    scenario, knowledge = _philly(case) if case.workload == "philly" else _pollux_workload(case)
    memo = Memo()
    simulation = Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge)
    with (
        patch("charterer.policy.actions.admission.shortage.allocate", side_effect=allocate) as solved,
        nullcontext()
        if case.allotted
        else patch("charterer.policy.actions.admission.queue.allot_room", lambda *_: None),
    ):
        result = simulation.run()
    asked = {submission.name: submission.gpus for submission in scenario.submissions}
    if case.workload == "pollux":
        widths = ApplicationWidths(scenario.applications).asked
        asked = {submission.name: widths(submission) for submission in scenario.submissions}
    waits = [job.started - job.submitted for job in result.jobs if job.started is not None]
    work = sum(
        asked[job.name] * scenario.applications[job.application].seconds_left(0.0, GPU_TYPE, asked[job.name])
        for job in result.jobs
    )
    return Figures(
        wait=statistics.mean(waits),
        completion=result.mean_completion_seconds,
        useful=work / 3600.0 / result.total_gpu_hours,
        restarts=statistics.mean(job.restarts for job in result.jobs),
        longest=max(waits),
        dollars=result.spent.dollars / len(result.jobs),
        allotted=solved.call_count,
    )


def simulations(workloads: Sequence[str], loads: Sequence[float], seeds: int, jobs: int, budget: bool) -> None:
    """A row for each workload, seed and load: one after the other, then allotted."""
    print("workload      load   mean wait (s)   completion (s)   dollars of a job   useful part    restarts   solved")
    cases = [
        Case(workload, seed, load, jobs, budget, allotted)
        for workload in workloads
        for load in loads
        for seed in range(1, seeds + 1)
        for allotted in (False, True)
    ]
    with ProcessPoolExecutor(2) as pool:
        for case, figures in zip(cases, pool.map(run, cases), strict=True):
            if not case.allotted:
                before = figures
                continue
            print(
                f"{case.workload:7} {case.seed:3} {case.load:8.0%} {before.wait:7.0f} {figures.wait:7.0f}"
                f" {before.completion:8.0f} {figures.completion:7.0f} {before.dollars:10.2f} {figures.dollars:7.2f}"
                f" {before.useful:9.3f} {figures.useful:6.3f} {before.restarts:6.2f} {figures.restarts:5.2f}"
                f" {figures.allotted:8}   longest wait {before.longest:.0f} {figures.longest:.0f}",
                flush=True,
            )


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20, help="of each kind; 0: none")
    parser.add_argument("--workloads", nargs="*", default=["philly", "pollux"])
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=160)
    parser.add_argument("--budget", action="store_true")
    chosen = parser.parse_args()
    if chosen.programs:
        programs(chosen.programs)
    if chosen.workloads:
        _pollux.need_data()
        simulations(chosen.workloads, chosen.loads, chosen.seeds, chosen.jobs, chosen.budget)


if __name__ == "__main__":
    main()
