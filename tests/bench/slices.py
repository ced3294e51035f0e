"""What MIG slices save: cost of small jobs with slices beside whole GPUs, as a part of their cost on whole GPUs alone.

    python -m tests.bench.slices [--jobs small all] [--loads 20] [--rates 0.25] [--profiles 2g.10gb] [--node-gpus 1]

Seven models at four batch sizes, measured on slices of an A100 40 GB (MISO, SoCC 2022), arrive at random and are
simulated with the operator's planner: once where only nodes of whole GPUs can be rented, and once with three more
pools, whose GPUs are cut into 1g.5gb, 2g.10gb and 3g.20gb slices. A GPU-hour costs $3 in all of them; nodes start in
120 s, a restart takes 30 s. A load is the mean number of GPUs in use without slices. Cost is θ times the hours of the
jobs' lives, and the dollars of the nodes, which are billed whole, unused slices too. Rates are θ divided by the price
of a GPU-hour. Small jobs keep at least 40 % of their speed on a 1g slice.

At the end: how far the speed that is expected of a slice before the first report is from the measured one.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from time import process_time

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.time import parse_instant
from charterer.gpu_types import MIG_LAYOUTS, slice_speed, slice_type
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from demo.condense import data_dir

START = parse_instant("2026-06-01T00:00:00Z")
WHOLE = "NVIDIA-A100-SXM4-40GB"
DOLLARS = 3.0
PROFILES = {"1g.5gb": "speed_1g", "2g.10gb": "speed_2g", "3g.20gb": "speed_3g"}
"""Column of the measured speeds, by profile. Nobody would cut a GPU into one 4g slice, whose rest is paid for."""
LOADS = (3.0, 20.0, 100.0)
RATES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
SMALL = 0.4
UNSTEADY = ("deepspeech2",)
"""Its steps take as long as the samples that were drawn, so that two runs cannot be compared."""
HOURS, SPREAD = 2.0, 0.7
"""Mean hours of a job on a whole GPU, and the standard deviation of their logarithms."""
RESTART_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A kind of job: its speed on slices, by profile, as a part of the whole GPU's. Absent where it does not fit."""

    name: str
    speeds: Mapping[str, float]

    @property
    def small(self) -> bool:
        """Whether it keeps much of its speed on the smallest slice."""
        return self.speeds.get("1g.5gb", 0.0) >= SMALL


@cache
def measured() -> Sequence[Measured]:
    """The kinds of jobs; ends with one line where the data is not here."""
    file = data_dir().parent / "sharing" / "mig.csv"
    if not file.is_file():
        print(f"skipped: the measured data is not here: {file}; CHARTERER_DATA_DIR names the folder beside its own")
        sys.exit(0)
    with file.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["job"] not in UNSTEADY]
    return tuple(
        Measured(
            f"{row['job']}-{row['batch']}", {p: float(row[column]) for p, column in PROFILES.items() if row[column]}
        )
        for row in rows
    )


def chosen(jobs: str) -> Sequence[Measured]:
    """``small``, ``large`` or ``all`` of them."""
    return [kind for kind in measured() if jobs == "all" or kind.small == (jobs == "small")]


def scenario(jobs: str, load: float, ratio: float, node_gpus: int, number: int, cut: Sequence[str]) -> Scenario:
    """``number`` jobs at that load. ``cut``: profiles of which there are pools, beside that of whole GPUs."""
    rng, kinds = random.Random(1), chosen(jobs)
    applications: dict[str, Application] = {}
    submissions, at = [], 0.0
    for index in range(number):
        at += rng.expovariate(load / HOURS / 3600.0)
        kind = rng.choice(kinds)
        hours = HOURS * math.exp(rng.gauss(0.0, SPREAD) - SPREAD**2 / 2.0)
        size = 2.0 ** round(math.log2(hours))
        name = f"{kind.name}-{size:g}h"
        rates = {slice_type(WHOLE, profile): speed for profile, speed in kind.speeds.items()} | {WHOLE: 1.0}
        applications[name] = Application(
            name, (1.0,), {gpu_type: ({1: speed / size / 3600.0},) for gpu_type, speed in rates.items()}
        )
        submissions.append(Submission(f"j{index}", at, name, 1))
    layouts = MIG_LAYOUTS["A100", 40].slices
    sold = {WHOLE: 1} | {slice_type(WHOLE, profile): layouts[profile] for profile in cut}
    price = Price.parse(f"{DOLLARS * node_gpus:.2f}")
    pools = [
        PoolModel(f"pool-{at}", each * node_gpus, price, gpu_type, start_seconds=120.0, max_nodes=10_000)
        for at, (gpu_type, each) in enumerate(sold.items())
    ]
    terms = JobTerms(Widths(1, 1, 1, tuple(PROFILES)), ResizePolicy.RESTART, gpu_types=(WHOLE,))
    budget = new_budget(START, rate=Rate(ratio * DOLLARS / 3600.0))
    return Scenario(START, tuple(submissions), applications, tuple(pools), budget, lambda _: terms, RESTART_SECONDS)


def simulate(world: Scenario) -> SimulationResult:
    """The operator's planner, with exact curves."""
    classes = {class_of(name): application for name, application in world.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, RESTART_SECONDS))
    return Simulation(world, partial(plan, memo=Memo()), knowledge).run()


def cost(result: SimulationResult, ratio: float) -> float:
    """Dollars of the nodes, and θ for each hour of a job's life."""
    return result.spent.dollars + ratio * DOLLARS * len(result.jobs) * result.mean_completion_seconds / 3600.0


def on_slices(result: SimulationResult) -> float:
    """Part of the jobs that ended on a slice."""
    return statistics.fmean(job.gpu_types[-1][1] != WHOLE for job in result.jobs if job.gpu_types)


def main() -> None:
    """Print a line for each kind of jobs, load and rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="*", choices=("small", "large", "all"), default=["small", "all"])
    parser.add_argument("--loads", nargs="*", type=float, default=LOADS, help="mean GPUs in use without slices")
    parser.add_argument("--rates", nargs="*", type=float, default=RATES, help="θ divided by a GPU-hour's price")
    parser.add_argument("--profiles", nargs="*", choices=PROFILES, default=list(PROFILES), help="pools of slices")
    parser.add_argument("--node-gpus", type=int, default=1, help="GPUs of a node")
    parser.add_argument("--number", type=int, default=600, help="jobs of each simulation")
    arguments = parser.parse_args()
    for jobs in arguments.jobs:
        for load in arguments.loads:
            for ratio in arguments.rates:
                began = process_time()
                worlds = [
                    scenario(jobs, load, ratio, arguments.node_gpus, arguments.number, cut)
                    for cut in ((), arguments.profiles)
                ]
                without, with_slices = map(simulate, worlds)
                print(
                    f"{jobs}, load {load:g}, θ/c {ratio:g}: cost {cost(with_slices, ratio) / cost(without, ratio):.3f} "
                    f"of whole GPUs', dollars {with_slices.spent.dollars / without.spent.dollars:.3f}, "
                    f"time {with_slices.mean_completion_seconds / without.mean_completion_seconds:.2f}; "
                    f"{on_slices(with_slices):.0%} of jobs on slices, "
                    f"{with_slices.restarts / len(with_slices.jobs):.2f} restarts a job "
                    f"({process_time() - began:.0f} s to compute)",
                    flush=True,
                )
    for profile in PROFILES:
        expected = slice_speed(slice_type(WHOLE, profile))
        off = [math.log(kind.speeds[profile] / expected) for kind in measured() if profile in kind.speeds]
        mean, deviation = math.exp(statistics.fmean(off)), statistics.pstdev(off)
        print(
            f"{profile}: {expected:.2f} of the GPU's speed expected; measured speeds are {mean:.2f} times that in the "
            f"geometric mean, and their logarithms deviate by {deviation:.2f}"
        )


if __name__ == "__main__":
    main()
