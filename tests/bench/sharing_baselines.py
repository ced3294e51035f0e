"""Schedulers of a fixed number of GPUs whose jobs share them in pairs, and Charterer without pairs at equal GPU-hours.

    python -m tests.bench.sharing_baselines [--seeds 1 2 3] [--loads 2 1 0.5] [--pairs "V100, all" 1/1.25] [--rates 9]

SJF-BSBF (arXiv 2407.13088) beside SJF, least attained service, shortest remaining time, and first fit sharing: jobs of
fixed widths (1, 2, 4, 8 GPUs) on GPUs that are there from the beginning. What pairs keep is Gavel's, measured under
MPS, or the same for all. Load: GPU time that comes in an hour, alone, ÷ GPUs. A figure is the mean completion time of
SJF-BSBF divided by the other's, the geometric mean over seeds.

Then the same jobs under Charterer's planner, which knows nothing of pairs, on nodes of one GPU that take 120 s to
start: at the widths asked for, on any that were measured, and there with P100 and K80 on sale. Its mean completion time
at the GPU-hours (with three types: dollars) of a scheduler is read log-log from a sweep over θ. A fixed cluster is
billed from the first submission to the last end, or, in the second figure, only for GPUs that a job was on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from statistics import fmean
from typing import NamedTuple

from charterer.domain.ids import PoolId
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.pairs import PairTable
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import class_of
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.policy_registry import SHARING, baseline_policy
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as measured
from tests.bench import _gavel_pairs as gavel_pairs
from tests.bench.types import at_dollars

OTHERS = {"SJF": "shortest", "LAS": "las", "SRTF": "srtf", "SJF-FFS": "sjf-ffs"}
BSBF = "sjf-bsbf"
ORDERS = (*OTHERS.values(), BSBF)
START_SECONDS = 120.0
MOST_NODES = 1000


class Rates(NamedTuple):
    """What pairs keep: of GPU type and mix, measured, or ``kept`` for all pairs."""

    label: str
    gpu_type: str
    mix: str = "all"
    kept: float | None = None
    sub_batches: bool = True

    @property
    def kinds(self) -> Sequence[str]:
        """The classes from which jobs are drawn."""
        return gavel_pairs.models(self.gpu_type) if self.mix == "all" else gavel_pairs.usual(self.gpu_type)

    @property
    def table(self) -> PairTable:
        """What they keep beside each other."""
        if self.kept is not None:
            return gavel_pairs.constant(self.kept)
        return gavel_pairs.table(self.gpu_type, sub_batches=self.sub_batches)


RATES = (
    Rates("V100, all", "v100"),
    Rates("V100, usual", "v100", "usual"),
    Rates("V100, all, no sub-batches", "v100", sub_batches=False),
    Rates("P100, all", "p100"),
    Rates("K80, all", "k80"),
    *(Rates(f"1/{slower:g}", "v100", kept=1 / slower) for slower in (1.1, 1.25, 1.5, 1.75, 2.0)),
)
GOALS = (("1/1.25", 2.0, "LAS", 0.73), ("1/1.75", 2.0, "SJF-FFS", 0.90))
"""Rates, load, the other scheduler, and the ratio at which our baselines are as good as the paper's."""


@dataclass(frozen=True)
class Case:
    """Jobs that are drawn by a seed, on so many GPUs."""

    rates: Rates
    load: float
    seed: int
    jobs: int
    gpus: int

    def without_pairs(self) -> Case:
        """The case with the same jobs whose results stand for all in which nobody shares."""
        rates = next(one for one in RATES if (one.gpu_type, one.mix) == (self.rates.gpu_type, self.rates.mix))
        return replace(self, rates=rates)

    def bed(self) -> gavel_pairs.PairBed:
        """The jobs."""
        rates = self.rates
        return gavel_pairs.bed(rates.gpu_type, rates.kinds, rates.table, self.load, self.seed, self.jobs, self.gpus)


@dataclass(frozen=True)
class Point:
    """A simulation. ``billed`` and ``held``: GPU-hours and dollars that were paid for, and on which a job was."""

    mean: float
    restarts: float
    hours: tuple[float, float]
    dollars: tuple[float, float]


def fixed(case: Case, order: str) -> Point:
    """A scheduler of the fixed number of GPUs."""
    bed = case.bed()

    def seconds(submission: Submission, gpu_type: str, gpus: int) -> float:
        return bed.applications[submission.application].seconds_left(0.0, gpu_type, gpus)

    policy = baseline_policy(f"fixed:{case.gpus}:{order}", lambda submission: submission.gpus, seconds)
    assert policy is not None
    scenario = bed.shared([gavel_pairs.pool(case.rates.gpu_type, case.gpus)])
    return _point(Simulation(scenario, policy, ExactKnowledge({})).run())


class Rented(NamedTuple):
    """What Charterer may rent, and whether at any width."""

    gpu_types: Sequence[str]
    elastic: bool


KINDS: Mapping[str, Rented] = {
    "widths asked for": Rented(("v100",), False),
    "free widths": Rented(("v100",), True),
    "and three types": Rented(tuple(measured.GPU_HOURS), True),
}


def charterer(case: Case, kind: Rented, rate: float) -> Point:
    """Charterer at an exchange rate, in a world in which nobody shares."""
    pools = [gavel_pairs.pool(gpu_type, MOST_NODES, START_SECONDS) for gpu_type in kind.gpu_types]
    scenario = case.bed().alone(pools, rate, elastic=kind.elastic)
    by_class = {class_of(name): application for name, application in scenario.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(by_class, gavel_pairs.RESTART_SECONDS))
    return _point(Simulation(scenario, partial(plan, memo=Memo()), knowledge).run())


def _point(result: SimulationResult) -> Point:
    assert not result.never_completed
    prices = {PoolId(name): price for name, price in measured.GPU_HOURS.items()}
    held = sum(seconds / 3600.0 * prices[pool] for job in result.jobs for pool, seconds in job.pool_gpu_seconds.items())
    return Point(
        result.mean_completion_seconds,
        result.restarts / len(result.jobs),
        (result.total_gpu_hours, result.used_gpu_hours),
        (result.spent.dollars, held),
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def geometric(values: Sequence[float]) -> float:
    return exp(fmean(map(log, values)))


def show_fixed(found: Mapping[tuple[Case, str], Point], cases: Sequence[Case]) -> None:
    """SJF-BSBF ÷ the others, by rates and load."""
    print(
        f"\n{'SJF-BSBF ÷':26} {'load':>5} " + " ".join(f"{name:>8}" for name in OTHERS) + "   restarts a job: LAS, SRTF"
    )
    ratios: dict[tuple[str, float, str], float] = {}
    for rates in dict.fromkeys(case.rates for case in cases):
        for load in dict.fromkeys(case.load for case in cases):
            of_seeds = [case for case in cases if case.rates == rates and case.load == load]
            for name, order in OTHERS.items():
                ratios[rates.label, load, name] = geometric(
                    [found[case, BSBF].mean / found[case, order].mean for case in of_seeds]
                )
            restarts = [fmean(found[case, order].restarts for case in of_seeds) for order in ("las", "srtf")]
            print(
                f"{rates.label:26} {load:5g} "
                + " ".join(f"{ratios[rates.label, load, name]:8.3f}" for name in OTHERS)
                + f"   {restarts[0]:.2f}, {restarts[1]:.2f}",
                flush=True,
            )
    for label, load, name, goal in GOALS:
        ratio = ratios.get((label, load, name))
        if ratio is not None:
            print(f"goal: SJF-BSBF ÷ {name} at {label} and load {load:g}: {ratio:.3f} (at most {goal:.2f})")


def show_rented(
    found: Mapping[tuple[Case, str], Point], rented: Mapping[tuple[Case, str], Sequence[Point]], cases: Sequence[Case]
) -> None:
    """The mean completion time of each scheduler ÷ Charterer's at equal GPU-hours or dollars."""
    print("\nmean completion time ÷ Charterer's without pairs: at what is billed, and at what jobs were on")
    print(f"{'':26} {'load':>5} {'':9} {'hours':>13} " + " ".join(f"{kind:>18}" for kind in KINDS))
    for rates in dict.fromkeys(case.rates for case in cases):
        for load in dict.fromkeys(case.load for case in cases):
            of_seeds = [case for case in cases if case.rates == rates and case.load == load]
            for name, order in {**OTHERS, "SJF-BSBF": BSBF}.items():
                cells = []
                for kind in KINDS:
                    at = (_beside(found[case, order], rented[case.without_pairs(), kind], kind) for case in of_seeds)
                    cells.append(", ".join(_mean(values) for values in zip(*at, strict=True)))
                hours = [fmean(found[case, order].hours[which] for case in of_seeds) for which in (0, 1)]
                print(
                    f"{rates.label:26} {load:5g} {name:9} {hours[0]:6,.0f} {hours[1]:6,.0f} "
                    + " ".join(f"{cell:>18}" for cell in cells)
                )


def _beside(point: Point, sweep: Sequence[Point], kind: str) -> tuple[float | None, float | None]:
    by_dollars = len(KINDS[kind].gpu_types) > 1
    points = [(one.dollars[0] if by_dollars else one.hours[0], one.mean) for one in sweep]
    means = [at_dollars(points, paid) for paid in (point.dollars if by_dollars else point.hours)]
    first, second = (None if mean is None else point.mean / mean for mean in means)
    return first, second


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{geometric(known):.2f}" if len(known) == len(values) else "-"


def main() -> None:
    """Simulates, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--loads", nargs="*", type=float, default=[2.0, 1.0, 0.5])
    parser.add_argument("--jobs", type=int, default=240)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--pairs", nargs="*", choices=[rates.label for rates in RATES], help="default: all")
    parser.add_argument("--rates", type=int, default=9, help="values of θ; 0: the fixed cluster only")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    measured.need_data()
    cases = [
        Case(rates, load, seed, arguments.jobs, arguments.gpus)
        for rates in RATES
        for load in arguments.loads
        for seed in arguments.seeds
        if rates.label in (arguments.pairs or rates.label)
    ]
    thetas = [0.25 * (64.0 / 0.25) ** (at / max(arguments.rates - 1, 1)) for at in range(arguments.rates)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        tasks: dict[tuple[Case, str], Future[Point]] = {}
        for case in cases:
            for order in ORDERS:
                key = case if order in SHARING else case.without_pairs(), order
                if key not in tasks:
                    tasks[key] = pool.submit(fixed, *key)
                tasks[case, order] = tasks[key]
        same_jobs = [case for case in cases if (case.rates.gpu_type, case.rates.mix) == ("v100", "all")]
        rented_tasks = {
            (case, name): [pool.submit(charterer, case, kind, rate) for rate in thetas]
            for case in dict.fromkeys(case.without_pairs() for case in same_jobs)
            for name, kind in KINDS.items()
        }
        found = {key: task.result() for key, task in tasks.items()}
        show_fixed(found, cases)
        rented = {key: [task.result() for task in of_rates] for key, of_rates in rented_tasks.items()}
    if thetas:
        show_rented(found, rented, same_jobs)


if __name__ == "__main__":
    main()
