"""How much sooner jobs complete than under the schedulers of the literature, at equal rented GPU-hours.

    python -m tests.bench.goals [--rates 60] [--workloads 1234] [--start 0 120] [--tables true estimated]
                                [--changes 30 8 place place:8]

For each workload and at least 60 values of θ the operator's planner is simulated; the table holds the geometric mean
over the workloads of (scheduler's mean completion time ÷ Charterer's), and each application's completion time by
itself. True tables: curves and best batch sizes are known. Estimated: at the beginning of each workload no class was
ever seen, and all is learned from what trainers report, with noise. ``--changes``: what a change of width takes, a
restart of so many seconds, or in place between whole nodes: pods that join are ready 30 s after they started, while the
others train, and training then stands still for 1 s; any other change is a restart of 30 s. ``place:8``: of 8 s each.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter

from rich.progress import Progress

from charterer.domain.job import ResizePolicy
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, LearnedKnowledge, ReportModel, exact_profiles
from charterer.tools.simulator.model.scenario import Scenario, class_of
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _pollux as pollux
from tests.measured import GPUS_PER_NODE

GOALS = (
    ("Pollux, fixed 16 nodes", 0.0, 1.92, 1.80),
    ("Pollux autoscaling, utilisation 0.35-0.65", 0.0, 1.56, 1.48),
    ("Pollux autoscaling, utilisation 0.70-0.90", 0.0, 1.55, 1.42),
    ("Pollux autoscaling, utilisation 0.35-0.65", 120.0, 1.40, 1.32),
)
"""Scheduler, start-up of Charterer's nodes in seconds, ratios to reach with true and with estimated tables."""
GPU_TYPE = "gpu"
RESTART_SECONDS = 30.0
IN_PLACE, STANDSTILL_SECONDS = "place", 1.0
TABLES = ("true", "estimated")


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation."""

    tables: str
    workload: int
    rate: float
    start_seconds: float
    change: str
    hours: float
    mean: float
    p50: float
    p90: float
    restarts: int
    by_application: Mapping[str, float]
    seconds: float


def simulate(tables: str, workload: int, rate: float, start_seconds: float, change: str) -> Run:
    """The operator's planner at one exchange rate, with exact curves or with what trainers reported so far."""
    began = perf_counter()
    scenario = changing(pollux.scenario(workload, rate, start_seconds), change)
    restart, resize = scenario.restart_seconds, scenario.resize_seconds
    applications = {class_of(name): application for name, application in pollux.applications().items()}
    knowledge: Knowledge = ExactKnowledge(exact_profiles(applications, restart, resize))
    if tables == "estimated":
        noise = random.Random(f"{workload}/{rate}/{start_seconds}")
        reporting = ReportModel(lambda: noise.gauss(0.0, 1.0))
        knowledge = LearnedKnowledge(
            applications, {GPU_TYPE: GPUS_PER_NODE}, restart, scenario.budget.id, reporting, resize_seconds=resize
        )
    memo = Memo()
    result = Simulation(scenario, lambda snapshot: plan(snapshot, memo), knowledge).run()
    times: dict[str, list[float]] = {}
    for job in result.jobs:
        times.setdefault(job.application, []).append(job.completion_seconds or float("inf"))
    return Run(
        tables,
        workload,
        rate,
        start_seconds,
        change,
        result.total_gpu_hours,
        result.mean_completion_seconds,
        result.quantile(0.5),
        result.quantile(0.9),
        result.restarts,
        {name: statistics.fmean(seconds) for name, seconds in sorted(times.items())},
        perf_counter() - began,
    )


def changing(scenario: Scenario, change: str) -> Scenario:
    """The scenario with changes of width of that kind."""
    kind, _, start = change.partition(":")
    if kind != IN_PLACE:
        return replace(scenario, restart_seconds=float(change))
    terms = scenario.terms
    return replace(
        scenario,
        restart_seconds=float(start) if start else RESTART_SECONDS,
        resize_seconds=STANDSTILL_SECONDS,
        terms=lambda submission: replace(terms(submission), resize=ResizePolicy.IN_PLACE),
    )


def ratios(runs: Sequence[Run], scheduler: str) -> list[tuple[int, float | None]]:
    """By workload: the scheduler's mean completion time ÷ Charterer's at its rented GPU-hours."""
    by_workload: list[tuple[int, float | None]] = []
    for row in pollux.baseline("schedulers"):
        workload = int(row["workload"])
        points = [(run.hours, run.mean) for run in runs if run.workload == workload]
        if row["scheduler"] == scheduler and points:
            ours = pollux.at_hours(points, float(row["rented_gpu_h"]))
            by_workload.append((workload, None if ours is None else float(row["mean_jct_s"]) / ours))
    return by_workload


def beside(runs: Sequence[Run], scheduler: str) -> None:
    """The run of each workload whose hours are next to the scheduler's: median, 90th percentile, applications."""
    for row in pollux.baseline("schedulers"):
        if row["scheduler"] != scheduler:
            continue
        selected = [run for run in runs if run.workload == int(row["workload"])]
        if selected:
            run = min(selected, key=lambda run: abs(run.hours - float(row["rented_gpu_h"])))
            each = "  ".join(f"{name} {seconds:,.0f}" for name, seconds in run.by_application.items())
            print(
                f"    {run.workload}: {run.hours:,.0f} h (theirs {float(row['rented_gpu_h']):,.0f})"
                f"  median {run.p50:,.0f} s ({float(row['p50_s']):,.0f})"
                f"  p90 {run.p90:,.0f} s ({float(row['p90_s']):,.0f})"
                f"  restarts {run.restarts} ({row['restarts']})\n       mean s: {each}"
            )


def main() -> None:
    """Sweeps, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, default=60, help="values of θ per workload")
    parser.add_argument("--workloads", default="1234", help="which of the four, as digits")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=TABLES, help="what the planner knows")
    parser.add_argument("--start", type=float, nargs="*", default=[0.0, 120.0], help="start-up of nodes in seconds")
    parser.add_argument("--changes", nargs="*", default=["30"], help="seconds of a restart, place, or place:seconds")
    arguments = parser.parse_args()
    pollux.need_data()
    work = [
        (tables, int(digit), rate, start, change)
        for tables in arguments.tables
        for change in arguments.changes
        for start in arguments.start
        for rate in pollux.rates(arguments.rates)
        for digit in arguments.workloads
    ]
    runs: list[Run] = []
    with ProcessPoolExecutor() as pool, Progress() as progress:
        bar = progress.add_task(f"{len(work)} simulations", total=len(work))
        for done in as_completed([pool.submit(simulate, *arguments_of_run) for arguments_of_run in work]):
            runs.append(done.result())
            progress.advance(bar)
    print(f"{len(runs)} simulations, {statistics.fmean(run.seconds for run in runs):.2f} s each on one core")
    for tables, change in product(arguments.tables, arguments.changes):
        for scheduler, start, *goals in GOALS:
            selected = [run for run in runs if (run.tables, run.start_seconds, run.change) == (tables, start, change)]
            if selected:
                by_workload = ratios(selected, scheduler)
                mean = pollux.geometric_mean([ratio for _, ratio in by_workload if ratio is not None])
                each = "  ".join(
                    f"{workload}: {'-' if ratio is None else f'{ratio:.3f}'}" for workload, ratio in by_workload
                )
                goal = goals[TABLES.index(tables)]
                how = change.replace(IN_PLACE, "in place") if change.startswith(IN_PLACE) else f"restarts of {change} s"
                print(f"{tables} tables, {how}: {scheduler}, nodes of Charterer start in {start:g} s:", end=" ")
                print(f"{mean:.3f} (goal {goal:.2f})   {each}")
                beside(selected, scheduler)


if __name__ == "__main__":
    main()
