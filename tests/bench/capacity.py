"""What each kind of capacity brings: mean completion time at equal dollars, each kind alone and all together.

    python -m tests.bench.capacity [--jobs 150] [--seeds 4 5] [--rates 7] [--processes 1]

Jobs of Gavel's measurements arrive over 12 hours. Nodes with eight V100 on demand are always there; added are spot
nodes (a third of the price, lifetimes of 1,442 preemptible machines of Google), nodes with K80 and P100, and V100
nodes with one, two and four GPUs. Each is compared with each job on the two GPUs that its owner asks for: mean
completion time at equal dollars, and dollars at an equal time. Curves are exact; hazards are learned. Each row is a
sweep of the exchange rate, read log-log on its lower envelope.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, SpotPolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import CapacityType
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.policies.baselines import RequestedWidth
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench._pollux import START, Point, at_hours, rates
from tests.lifetimes import GCP, lifetimes, missing

KINDS: Mapping[str, Sequence[str]] = {
    "V100 on demand, 8 a node": (),
    "+ spot": ("spot",),
    "+ K80 and P100": ("types",),
    "+ 1, 2 and 4 GPUs a node": ("sizes",),
    "all": ("spot", "types", "sizes"),
}
SPOT_PRICE = 0.3
SECONDS = 43_200.0
START_SECONDS = 120.0
RESTART_SECONDS = 30.0
AS_ASKED = 2
"""GPUs of each job where it is not chosen."""


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation; ``rate`` 0: each job as asked."""

    kinds: str
    seed: int
    rate: float
    dollars: float
    mean: float


@cache
def _lives() -> Sequence[float]:
    return [lived.hours * 3600.0 for lived in lifetimes(GCP)]


def _drawn(seed: int, pool: str, number: int) -> float:
    """The lifetime of a pool's node: the same whoever rents it."""
    return random.Random(f"{seed}/{pool}/{number}").choice(_lives())


def _pool(seed: int, gpu_type: str, size: int, spot: bool) -> PoolModel:
    name = f"{gpu_type}-{size}{'-spot' if spot else ''}"
    hourly = gavel.GPU_HOURS[gpu_type] * size * (SPOT_PRICE if spot else 1.0)
    return PoolModel(
        name,
        size,
        Price.parse(f"{hourly:.4f}"),
        gpu_type,
        start_seconds=START_SECONDS,
        capacity_type=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
        draw_lifetime=(lambda number: _drawn(seed, name, number)) if spot else None,
    )


def pools(kinds: Sequence[str], seed: int) -> tuple[PoolModel, ...]:
    """The pools of some kinds of capacity."""
    types = [*gavel.GPU_HOURS] if "types" in kinds else [gavel.REFERENCE]
    shapes = [(gpu_type, 8) for gpu_type in types]
    shapes += [(gavel.REFERENCE, size) for size in (1, 2, 4)] if "sizes" in kinds else []
    markets = (False, True) if "spot" in kinds else (False,)
    return tuple(_pool(seed, *shape, spot) for shape in shapes for spot in markets)


def simulate(kinds: str, seed: int, rate: float, jobs: int) -> Run:
    """The operator's planner at a rate in dollars an hour; at 0 each job as asked."""
    offered = pools(KINDS[kinds], seed)
    applications = gavel.applications(tuple({pool.gpu_type for pool in offered}))
    terms = JobTerms(Widths(1, 1, 8), ResizePolicy.RESTART, SpotPolicy.ALLOWED)
    budget = new_budget(START, rate=Rate((rate or 1.0) / 3600.0))
    submitted = gavel.submissions(jobs, seed, SECONDS)
    scenario = Scenario(START, submitted, applications, offered, budget, lambda _: terms, RESTART_SECONDS)
    classes = {class_of(name): application for name, application in applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, RESTART_SECONDS))
    asked = {name: max(gpus for gpus in each.widths if gpus <= AS_ASKED) for name, each in applications.items()}
    memo = Memo()
    policy = (lambda snapshot: plan(snapshot, memo)) if rate else RequestedWidth(lambda job: asked[job.application])
    result = Simulation(scenario, policy, knowledge).run()
    return Run(kinds, seed, rate, result.spent.dollars, result.mean_completion_seconds)


def at(points: Sequence[Point], first: float) -> float:
    """The second number of a sweep where the first is at most ``first``: beyond the sweep that of its last point."""
    found = at_hours(points, first)
    if found is not None:
        return found
    within = [second for other, second in points if other <= first]
    return min(within) if within else math.nan


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="*", default=[4, 5])
    parser.add_argument("--rates", type=int, default=7)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    gavel.need_data()
    absent = missing(GCP)
    if absent:
        print(f"skipped: {absent}")
        return
    sweep = rates(asked.rates, 0.3, 100.0)
    base = next(iter(KINDS))
    wanted = [(base, seed, 0.0) for seed in asked.seeds]
    wanted += [(kinds, seed, rate) for seed in asked.seeds for kinds in KINDS for rate in sweep]
    with ProcessPoolExecutor(asked.processes) as pool:
        runs = list(pool.map(simulate, *zip(*wanted, strict=True), [asked.jobs] * len(wanted)))
    for seed in asked.seeds:
        (owners,) = [run for run in runs if run.seed == seed and not run.rate]
        print(f"\n{asked.jobs} jobs, seed {seed}; as asked ${owners.dollars:,.0f}, {owners.mean:,.0f} s a job")
        print(f"{'capacity':28}{'s at these $':>14}{'times':>7}{'$ at these s':>14}{'less':>7}   $/s by rate")
        for kinds in KINDS:
            here = [run for run in runs if run.seed == seed and run.kinds == kinds and run.rate]
            took = at([(run.dollars, run.mean) for run in here], owners.dollars)
            paid = at([(run.mean, run.dollars) for run in here], owners.mean)
            points = " ".join(f"{run.dollars:,.0f}/{run.mean:,.0f}" for run in here)
            figures = f"{took:>14,.0f}{owners.mean / took:>7.2f}{paid:>14,.0f}{1.0 - paid / owners.dollars:>7.0%}"
            print(f"{kinds:28}{figures}   {points}")


if __name__ == "__main__":
    main()
