"""Mixed clusters of unequal GPUs under the policies of Gavel and Sia, beside Charterer at equal dollars.

    python -m tests.bench.types [--beds gavel sia] [--seeds 1 2] [--rates 9] [--jobs 160] [--processes 2]

Bed ``gavel``: Gavel's job mix and measured throughputs on V100, P100 and K80 (12 GPUs each; its paper has 36), each job
on the GPUs that it asks for; jobs come as in its continuous traces. Bed ``sia``: Pollux's workloads 1-4 on Sia's
measured T4 and A100 (24 and 16 GPUs, as in its paper, which also has 24 RTX 2080 Ti that are not in the public data),
batch sizes chosen by goodput; Gavel's policies run each job on the width that it asks for, Sia's and Charterer on any.

A fixed cluster is billed from the first submission to the end of the last job, or, in the second column, only for the
GPU time that jobs held, as if idle GPUs cost nothing. Charterer rents nodes of 4 GPUs (A100: 8), which take 120 s to
start, and pays for them until it ends them. A restart takes 30 s under all. Its mean completion time at the dollars of
each policy is read log-log from a sweep over θ. ρ: finish-time fairness of Themis, completion time ÷ that on an equal
share of the cluster among as many jobs as there were on average under max-min fairness.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import exp, log
from statistics import fmean

from charterer.domain.money import Price
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import class_of
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _pollux as pollux
from tests.bench._rounds import (
    Gavel,
    Objective,
    Sia,
    completions,
    finish_time_fairness,
    makespan,
    max_min,
    max_min_agnostic,
)
from tests.bench._type_beds import BEDS, DOLLARS, RESTART_SECONDS, Bed

START_SECONDS = 120.0
OBJECTIVES: Mapping[str, Objective] = {
    "Gavel max-min, types alike": max_min_agnostic,
    "Gavel max-min fairness": max_min,
    "Gavel finish-time fairness": finish_time_fairness,
    "Gavel makespan": makespan,
    "shortest first by type": completions,
}
FAIREST = "Gavel max-min fairness"


# --- simulations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One simulation. ``billed`` and ``held``: dollars of the fixed cluster, and of the GPU time that jobs held."""

    bed: str
    seed: int
    policy: str
    rate: float | None
    mean: float
    makespan: float
    billed: float
    held: float
    times: Mapping[str, tuple[float, float]]
    """Submission and end of each job, in seconds."""
    restarts: int


def simulate(bed_name: str, seed: int, jobs: int, policy: str, rate: float | None) -> Outcome:
    """A policy of the literature on the fixed cluster, or Charterer at an exchange rate."""
    elastic = policy in ("Charterer", "Charterer, elastic", "Sia") and (bed_name == "sia" or policy.endswith("elastic"))
    bed = BEDS[bed_name](seed, jobs, elastic)
    if rate is None:
        return _fixed(bed, seed, policy)
    pools = [
        PoolModel(
            gpu_type.lower(),
            size,
            Price.parse(f"{DOLLARS[gpu_type] * size:.4f}"),
            gpu_type,
            start_seconds=START_SECONDS,
            max_nodes=1000,
        )
        for gpu_type, size in bed.node_gpus.items()
    ]
    scenario = bed.scenario(pools, rate)
    by_class = {class_of(name): application for name, application in bed.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(by_class, RESTART_SECONDS))
    result = Simulation(scenario, partial(plan, memo=Memo()), knowledge).run()
    return _outcome(bed, seed, policy, rate, result, result.spent.dollars)


def _fixed(bed: Bed, seed: int, policy: str) -> Outcome:
    pools = [
        PoolModel(gpu_type.lower(), 1, Price.parse(f"{DOLLARS[gpu_type]:.4f}"), gpu_type, max_nodes=count)
        for gpu_type, count in bed.clusters.items()
    ]
    nodes = {pool.name: pool.max_nodes for pool in pools}
    chosen: Policy
    if policy == "Sia":
        chosen = Sia(nodes, lambda job: _sia_widths(bed, job), RESTART_SECONDS)
    else:
        chosen = Gavel(nodes, OBJECTIVES[policy], bed.width)
    result = Simulation(bed.scenario(pools, 0.0), chosen, ExactKnowledge({})).run()
    last = max(job.finished or float("nan") for job in result.jobs)
    first = min(job.submitted for job in result.jobs)
    return _outcome(bed, seed, policy, None, result, bed.hourly * (last - first) / 3600.0)


def _sia_widths(bed: Bed, job: SimJob) -> Sequence[int]:
    if not bed.elastic:
        return (bed.width(job),)
    return [gpus for gpus in job.application.widths if gpus in bed.widths]


def _outcome(bed: Bed, seed: int, policy: str, rate: float | None, result: SimulationResult, billed: float) -> Outcome:
    dollars = {gpu_type.lower(): DOLLARS[gpu_type] for gpu_type in bed.clusters}
    held = sum(
        seconds / 3600.0 * dollars[str(pool)] for job in result.jobs for pool, seconds in job.pool_gpu_seconds.items()
    )
    times = {job.name: (job.submitted, job.finished or float("nan")) for job in result.jobs}
    ends = [end for _, end in times.values()]
    return Outcome(
        bed.name,
        seed,
        policy,
        rate,
        result.mean_completion_seconds,
        max(ends) - min(at for at, _ in times.values()),
        billed,
        held,
        times,
        result.restarts,
    )


# --- the table --------------------------------------------------------------------------------------------------------


def at_dollars(points: Sequence[tuple[float, float]], dollars: float) -> float | None:
    """Charterer's mean seconds at those dollars: its fastest point, if they are more than that costs."""
    lowest = pollux.envelope(points)
    if dollars >= lowest[-1][0]:
        return lowest[-1][1]
    return pollux.at_hours(points, dollars)


def fairness(bed: Bed, outcome: Outcome, reference: Outcome) -> list[float]:
    """ρ of each job, ascending."""
    spans = list(reference.times.values())
    total = sum(bed.clusters.values())
    ratios = []
    for submission in bed.submissions:
        begin, end = reference.times[submission.name]
        there = sum(max(0.0, min(end, other_end) - max(begin, other)) for other, other_end in spans) / (end - begin)
        application = bed.applications[submission.application]
        gpus = bed.asked(submission)
        of_time = min(1.0, total / (gpus * max(there, 1.0)))
        speed = sum(
            count / total / application.seconds_left(0.0, gpu_type, gpus)
            for gpu_type, count in bed.clusters.items()
            if application.runs_on(gpu_type, gpus)
        )
        at, ended = outcome.times[submission.name]
        ratios.append((ended - at) * of_time * speed)
    return sorted(ratios)


def show(bed: Bed, outcomes: Sequence[Outcome]) -> list[tuple[str, float | None, float | None]]:
    """Print the rows of one bed and seed; returns by policy the ratios at equal dollars."""
    fixed = [outcome for outcome in outcomes if outcome.rate is None]
    reference = next(outcome for outcome in fixed if outcome.policy == FAIREST)
    ours: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.rate is not None:
            ours.setdefault(outcome.policy, []).append(outcome)
    print(
        f"\n{bed.name}, {len(bed.submissions)} jobs, seed or workload {reference.seed}; cluster "
        + ", ".join(f"{count} {gpu_type}" for gpu_type, count in bed.clusters.items())
        + f" at ${bed.hourly:.2f} an hour"
    )
    print(
        f"{'policy':30} {'mean h':>7} {'makespan h':>10} {'ρ mean':>7} {'ρ max':>6} {'billed $':>9} {'held $':>8} "
        + " ".join(f"{'÷ ' + name + ' at billed, at held':>44}" for name in ours)
    )
    ratios = []
    for outcome in fixed:
        rho = fairness(bed, outcome, reference)
        cells = []
        for points in ours.values():
            pairs = [(point.billed, point.mean) for point in points]
            found = [at_dollars(pairs, dollars) for dollars in (outcome.billed, outcome.held)]
            ratio = [None if mean is None else outcome.mean / mean for mean in found]
            cells.append(", ".join("-" if value is None else f"{value:.2f}" for value in ratio))
            if len(cells) == 1:
                ratios.append((outcome.policy, ratio[0], ratio[1]))
        print(
            f"{outcome.policy:30} {outcome.mean / 3600:7.2f} {outcome.makespan / 3600:10.1f} {fmean(rho):7.2f} "
            f"{rho[-1]:6.2f} {outcome.billed:9,.0f} {outcome.held:8,.0f} " + " ".join(f"{cell:>44}" for cell in cells)
        )
    for name, points in ours.items():
        for point in sorted(points, key=lambda point: point.rate or 0.0):
            rho = fairness(bed, point, reference)
            print(
                f"{name + f' at ${point.rate:g}':30} {point.mean / 3600:7.2f} {point.makespan / 3600:10.1f} "
                f"{fmean(rho):7.2f} {rho[-1]:6.2f} {point.billed:9,.0f} {point.held:8,.0f}   restarts {point.restarts}"
            )
    return ratios


def main() -> None:
    """Simulates, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beds", nargs="*", choices=list(BEDS), default=list(BEDS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2], help="seeds, or numbers of workloads")
    parser.add_argument("--rates", type=int, default=9, help="values of θ")
    parser.add_argument("--jobs", type=int, default=160)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    pollux.need_data()
    rates = [0.25 * (128.0 / 0.25) ** (at / max(arguments.rates - 1, 1)) for at in range(arguments.rates)]
    collected: dict[tuple[str, str], list[tuple[float | None, float | None]]] = {}
    with ProcessPoolExecutor(arguments.processes) as pool:
        for name in arguments.beds:
            kinds = ("Charterer", "Charterer, elastic") if name == "gavel" else ("Charterer",)
            for seed in arguments.seeds:
                work: list[tuple[str, float | None]] = [(policy, None) for policy in (*OBJECTIVES, "Sia")]
                work += [(kind, float(f"{rate:.2g}")) for kind in kinds for rate in rates]
                tasks = [pool.submit(simulate, name, seed, arguments.jobs, *task) for task in work]
                outcomes = [task.result() for task in tasks]
                for policy, *ratio in show(BEDS[name](seed, arguments.jobs, False), outcomes):
                    collected.setdefault((name, policy), []).append((ratio[0], ratio[1]))
    print("\ngeometric means over seeds: mean completion time ÷ Charterer's at the dollars billed, and at those held")
    for (name, policy), pairs in collected.items():
        found = [[value for value in values if value is not None] for values in zip(*pairs, strict=True)]
        print(f"{name:6} {policy:30} " + "  ".join(_geometric(values) for values in found))


def _geometric(values: Sequence[float]) -> str:
    return f"{exp(fmean(map(log, values))):.2f} ({len(values)})" if values else "-"


if __name__ == "__main__":
    main()
