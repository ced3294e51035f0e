"""What GPUs that two jobs share save under the planner: cost with pools of shared GPUs beside that without.

    python -m tests.bench.sharing [--kinds usual light] [--rates 0.15 0.3 0.6 1 2 4] [--learned [30]] [--load 20]

Jobs come at random, each of one of Gavel's seven applications of the other benches, with the curves and the pairs
that Gavel measured on V100 GPUs under MPS (``usual``), or of three classes of jobs that use little of a GPU (``light``:
means of Lucid's measurements). A GPU-hour costs $2.48 on nodes of whole GPUs and of shared ones; nodes have one GPU and
start in 120 s, a restart takes 30 s. The load is the mean number of GPUs in use without sharing. A rate is θ in dollars
for an hour of a job's life; cost is θ times the hours of the jobs' lives, and the dollars of the nodes. ``--learned``:
nothing is known at first, with sharing and without, and jobs report every ten seconds, or every so many. Otherwise all
pairs are known.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from time import process_time

from scipy.optimize import linprog

from charterer.domain.ids import ClassId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import SharingMechanism
from charterer.domain.profile import PairSpeed
from charterer.gpu_types import slice_type
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.tools.simulator.engine.events import Knowledge
from charterer.tools.simulator.knowledge import ExactKnowledge, LearnedKnowledge, ReportModel, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application, application_from_speeds, joined, with_step_times
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pairs import PairMember, PairTable
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as measured
from tests.bench import _gavel_pairs as gavel
from tests.bench import _pollux as pollux

V100 = "v100"
PLACE = slice_type(V100, SharingMechanism.MPS.profile(2))
DOLLARS = 2.48
RESTART_SECONDS = 30.0
RATES = (0.15, 0.3, 0.6, 1.0, 2.0, 4.0)
LIGHT: Mapping[str, Sequence[float]] = {
    "low": (0.980, 0.977, 0.950),
    "middle": (0.951, 0.914, 0.825),
    "high": (0.938, 0.879, 0.753),
}
"""What jobs of a class keep beside low, middle and high ones: means of 1,388 pairs of small jobs on an RTX 3090, by GPU
utilisation alone (medians 13, 44, 94 %; Hu et al., Lucid, ASPLOS 2023)."""


@dataclass(frozen=True)
class Kinds:
    """Kinds of jobs: hours alone on one GPU, speeds by width, what each keeps beside each other."""

    hours: Mapping[str, float]
    speeds: Mapping[str, Mapping[int, float]]
    kept: Mapping[tuple[str, str], float]


def kinds_of(name: str, gpu_type: str = V100) -> Kinds:
    """``usual``, of that GPU type's measurements, or ``light``."""
    if name == "light":
        often = ["low0", "low1", "low2", "middle0", "middle1", "high0", "high1", "high2"]
        column = {"low": 0, "middle": 1, "high": 2}
        kept = {(a, b): LIGHT[a[:-1]][column[b[:-1]]] for a in often for b in often}
        return Kinds(dict.fromkeys(often, 2.0), {kind: {1: 1.0} for kind in often}, kept)
    names = gavel.usual(gpu_type)
    table = gavel.table(gpu_type, sub_batches=False)
    kept = {(a, b): table.kept(gpu_type, gavel.MPS, PairMember(a), PairMember(b)) for a in names for b in names}
    draw = random.Random(4)
    steps = {each: gavel.speeds(gpu_type, each) for each in names}
    hours = {each: math.exp(draw.uniform(math.log(0.3), math.log(6))) for each in names}
    return Kinds(hours, {each: {w: s / speeds[1] for w, s in speeds.items()} for each, speeds in steps.items()}, kept)


def _equilibrium(kinds: Kinds, rate: float) -> Mapping[str, float]:
    """What each kind keeps on a shared GPU, on average over the partners that it meets there.

    Partners are those kinds to which a place is worth it: of all, the one that loses most goes, and so on. If none
    stays, what each would keep beside the last one.
    """
    best = _best_alone(kinds, rate)
    there = set(kinds.hours)
    while True:
        kept = dict.fromkeys(kinds.hours, 1.0)
        for _ in range(50):
            weights = {kind: kinds.hours[kind] / _seen_as(kept[kind]) for kind in there}
            total = sum(weights.values())
            kept = {
                kind: sum(weight * kinds.kept[kind, other] for other, weight in weights.items()) / total
                for kind in kinds.hours
            }
        loses = {kind: (rate + DOLLARS / 2.0) / _seen_as(kept[kind]) / best[kind] for kind in there}
        worst = max(there, key=lambda kind: loses[kind])
        if loses[worst] <= 1.0 or len(there) == 1:
            return kept
        there.remove(worst)


def bounds(kinds: Kinds, rate: float) -> tuple[float, float]:
    """Cost by that without sharing, if partners are always there and nothing is lost at a start or a restart.

    With partners met at random; and with the best pairs of all.
    """
    best = _best_alone(kinds, rate)
    alone = sum(hours * best[kind] for kind, hours in kinds.hours.items())
    kept = _equilibrium(kinds, rate)
    met = sum(
        hours * min(best[kind], (rate + DOLLARS / 2.0) / _seen_as(kept[kind])) for kind, hours in kinds.hours.items()
    )
    return met / alone, _best_pairs(kinds, rate) / alone


def _best_pairs(kinds: Kinds, rate: float) -> float:
    """The least cost of a job of each kind, of a linear program.

    Its activities are a job alone on each width and each two kinds on one GPU, its rows the work of each kind.
    """
    names = list(kinds.hours)
    row = {kind: number for number, kind in enumerate(names)}
    columns, costs = [], []
    for kind in names:
        for width, speed in kinds.speeds[kind].items():
            columns.append({row[kind]: speed})
            costs.append(rate + DOLLARS * width)
    for one, other in combinations_with_replacement(names, 2):
        rates = {row[one]: kinds.kept[one, other]}
        rates[row[other]] = rates.get(row[other], 0.0) + kinds.kept[other, one]
        columns.append(rates)
        costs.append(2.0 * rate + DOLLARS)
    work = [[column.get(number, 0.0) for column in columns] for number in range(len(names))]
    return float(linprog(costs, A_eq=work, b_eq=[kinds.hours[kind] for kind in names], method="highs").fun)


def _best_alone(kinds: Kinds, rate: float) -> Mapping[str, float]:
    """What an hour of a kind's work on one GPU costs at its best width."""
    return {
        kind: min((rate + DOLLARS * width) / speed for width, speed in speeds.items())
        for kind, speeds in kinds.speeds.items()
    }


def scenario(kinds: Kinds, number: int, load: float, rate: float, seed: int, *, shared: bool) -> Scenario:
    """``number`` jobs at that load, with or without a pool of shared GPUs."""
    draw = random.Random(seed)
    applications = {}
    for kind, hours in kinds.hours.items():
        seconds = {width: 3600.0 * hours / speed for width, speed in kinds.speeds[kind].items()}
        whole = application_from_speeds(kind, seconds, range(1, max(seconds) + 1), V100)
        both = joined([whole, application_from_speeds(kind, {1: seconds[1]}, gpu_type=PLACE)])
        applications[kind] = with_step_times(both, 1_000.0 * hours)
    mean = sum(kinds.hours.values()) / len(kinds.hours)
    at, submissions = 0.0, []
    for index in range(number):
        at += draw.expovariate(load / mean / 3600.0)
        submissions.append(Submission(f"j{index}", at, draw.choice(sorted(kinds.hours)), 1))
    price = Price.parse(str(DOLLARS))
    pools = [PoolModel("whole", 1, price, V100, start_seconds=120.0, max_nodes=10_000)]
    if shared:
        pools.append(PoolModel("shared", 2, price, PLACE, start_seconds=120.0, max_nodes=10_000, sharing=gavel.MPS))
    table = PairTable({(V100, gavel.MPS, PairMember(a), PairMember(b)): kept for (a, b), kept in kinds.kept.items()})

    def terms(submission: Submission) -> JobTerms:
        widest = max(kinds.speeds[submission.application])
        return JobTerms(Widths(1, 1, widest, shared_mib=1), ResizePolicy.RESTART)

    budget = new_budget(pollux.START, rate=Rate(rate / 3600.0))
    return Scenario(
        pollux.START,
        tuple(submissions),
        applications,
        tuple(pools),
        budget,
        terms,
        RESTART_SECONDS,
        classes=lambda _, application: class_of(application.name),
        pairs=table,
    )


def simulate(kinds: Kinds, world: Scenario, rate: float, *, learned: float | None) -> SimulationResult:
    """The operator's planner. ``learned``: seconds between reports; None: all is known."""
    classes = {class_of(name): application for name, application in world.applications.items()}
    memo = Memo()
    return Simulation(world, partial(plan, memo=memo), _knowledge(kinds, classes, world, rate, learned)).run()


def _knowledge(
    kinds: Kinds, classes: Mapping[ClassId, Application], world: Scenario, rate: float, learned: float | None
) -> Knowledge:
    if learned is not None:
        noise = random.Random(1)
        reporting = ReportModel(lambda: noise.gauss(0.0, 1.0), seconds=learned)
        return LearnedKnowledge(classes, {V100: 1, PLACE: 2}, RESTART_SECONDS, world.budget.id, reporting)
    kept = _equilibrium(kinds, rate)
    seen = {class_id: _as_seen(each, kept[each.name]) for class_id, each in classes.items()}
    profiles = exact_profiles(seen, RESTART_SECONDS)
    names = {class_id: each.name for class_id, each in classes.items()}
    return ExactKnowledge(
        {
            own: replace(
                profile,
                pairs=tuple(
                    [PairSpeed(PLACE, other, _seen_as(kinds.kept[names[own], names[other]]), 1) for other in names]
                ),
            )
            for own, profile in profiles.items()
        }
    )


def _seen_as(kept: float) -> float:
    """As reports would tell it: two that do not fit beside each other keep next to nothing."""
    return max(kept, 1e-4)


def _as_seen(application: Application, kept: float) -> Application:
    """The application, as slow on shared GPUs as it is there on average."""
    ((rates,), (place,)) = application.rates[V100], application.rates[PLACE]
    return Application(application.name, (1.0,), {V100: (rates,), PLACE: ({1: place[1] * _seen_as(kept)},)})


def cost(result: SimulationResult, rate: float) -> float:
    """Dollars of the nodes, and θ for each hour of a job's life."""
    return result.spent.dollars + rate * len(result.jobs) * result.mean_completion_seconds / 3600.0


def _run(kinds: Kinds, told: argparse.Namespace, rate: float, seed: int, *, shared: bool) -> SimulationResult:
    world = scenario(kinds, told.number, told.load, rate, seed, shared=shared)
    return simulate(kinds, world, rate, learned=told.learned)


def main() -> None:
    """Print a line for each kind of jobs and rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=("usual", "light"), default=["usual", "light"])
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--gpu-type", choices=("v100", "p100", "k80"), default=V100)
    parser.add_argument("--load", type=float, default=20.0)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--learned", nargs="?", type=float, const=10.0)
    told = parser.parse_args()
    measured.need_data()
    for name in told.kinds:
        kinds = kinds_of(name, told.gpu_type)
        for rate in told.rates:
            began = process_time()
            pairs = [[_run(kinds, told, rate, seed, shared=shared) for shared in (False, True)] for seed in told.seeds]
            without, beside = (sum(cost(pair[which], rate) for pair in pairs) for which in (0, 1))
            dollars = [sum(pair[which].spent.dollars for pair in pairs) for which in (0, 1)]
            hours = [sum(pair[which].mean_completion_seconds for pair in pairs) for which in (0, 1)]
            jobs = [job for pair in pairs for job in pair[1].jobs]
            places = sum(bool(job.gpu_types) and job.gpu_types[-1][1] == PLACE for job in jobs) / len(jobs)
            restarts = sum(pair[1].restarts for pair in pairs) / len(jobs)
            print(
                f"{name}, load {told.load:g}, θ/c {rate / DOLLARS:.2f}: cost {beside / without:.3f} of that without, "
                f"dollars {dollars[1] / dollars[0]:.3f}, time {hours[1] / hours[0]:.2f}; {places:.0%} of jobs end on a "
                f"shared GPU, {restarts:.2f} restarts a job ({process_time() - began:.0f} s to compute); "
                "partners met at random {:.3f}, chosen pairs {:.3f}".format(*bounds(kinds, rate)),
                flush=True,
            )


if __name__ == "__main__":
    main()
