"""What a full pool's price brings:  python -m tests.bench.full_pool [--seeds 2] [--amount 75000] [--dearer 1.5]
                                   python -m tests.bench.full_pool --ceilings 3 5 10 20 --amount 250000

Two pools, the cheap one with few nodes; Amdahl classes that scale well or badly; a budget for a month of arrivals. The
operator's planner with prices for room, and without: then each job takes what is best at the bare bill, and where that
pool is full the next best. Either all classes run as fast in both pools (then it matters little who gets the room), or
one class can only run in the cheap pool. Prints the mean completion times at the same budget and their ratio.

``--ceilings``: instead, what other defaults of ``maxPaysPerHourSaved`` cost, as multiples of an hour of the job as it
was asked for in the dearest pool (``options.ceiling``), in hours and dollars. Money must be left, or none binds.
"""

from __future__ import annotations

import argparse
import random
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import exp, log
from unittest.mock import patch

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.profile import Profile
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.options.ceiling import FACTOR
from charterer.policy.planner import plan
from charterer.simulate.knowledge.exact_knowledge import ExactKnowledge, exact_phases, exact_profile
from charterer.simulate.model.ground_truth import Application
from charterer.simulate.model.node_market import PoolModel
from charterer.simulate.model.result import SimulationResult
from charterer.simulate.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.simulate.model.workload import Submission
from charterer.simulate.simulation import Simulation

START = parse_instant("2026-06-01T00:00:00Z")
DAY = 86_400.0
WIDTHS = (1, 2, 4, *range(8, 65, 8))
NODES = (2, 4, 6)
RESTART_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of ``hours`` on one GPU, ``arrivals`` an hour."""

    name: str
    parallel: float
    hours: float
    arrivals: float

    def application(self) -> Application:
        """The truth."""
        rates = {k: 1.0 / (3600.0 * self.hours * (1.0 - self.parallel + self.parallel / k)) for k in WIDTHS}
        return Application(self.name, (1.0,), {"cheap": (rates,), "dear": (rates,)})

    def profile(self, *, anywhere: bool) -> Profile:
        """What the planner knows: all of it."""
        (phase,) = exact_phases(self.application())
        curves = phase.curves if anywhere else phase.curves[:1]
        return exact_profile(class_of(self.name), [replace(phase, curves=curves)], RESTART_SECONDS, self.arrivals)


KINDS = (Kind("wide", 0.995, 60.0, 0.2), Kind("medium", 0.97, 30.0, 0.3), Kind("narrow", 0.80, 10.0, 0.5))
BOUND = "narrow"
"""The class that can only run in the cheap pool, where one cannot run anywhere."""


@dataclass(frozen=True, slots=True)
class Case:
    """``amount``: dollars a month, or ``theta`` dollars for an hour of a job's life instead. ``nodes`` of the cheap
    pool; ``dearer``: the other's price by the cheap one's, or 0 where there is no other.

    ``priced``, ``shared``: whether full pools have prices, and whether their room is shared out. ``ceiling``: the
    multiple of an hour of a job that is paid at most to end it an hour earlier.
    """

    seed: int
    amount: int
    nodes: int
    dearer: float
    anywhere: bool
    priced: bool
    shared: bool = True
    theta: float | None = None
    resize: ResizePolicy = ResizePolicy.NEVER
    days: float = 30.0
    ceiling: float = FACTOR


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean completion in hours, dollars, GPU-hours rented in the cheap pool, and jobs."""

    hours: float
    dollars: float
    cheap: float
    jobs: int

    def objective(self, theta: float) -> float:
        """θ·a + m of all jobs together, for θ dollars a job-hour."""
        return theta * self.hours * self.jobs + self.dollars


def run(case: Case) -> Figures:
    """One simulation, until the last job is done."""
    draw = random.Random(case.seed)
    submissions: list[Submission] = []
    for kind in KINDS:
        at = draw.expovariate(kind.arrivals / 3600.0)
        while at < case.days * DAY:
            submissions.append(Submission(f"{kind.name}-{len(submissions)}", at, kind.name, 8))
            at += draw.expovariate(kind.arrivals / 3600.0)
    pools = [PoolModel("cheap", 8, Price.parse("16"), "cheap", start_seconds=120.0, max_nodes=case.nodes)]
    if case.dearer:
        price = Price.parse(f"{16 * case.dearer:.2f}")
        pools.append(PoolModel("dear", 8, price, "dear", start_seconds=120.0, max_nodes=100))
    budget = new_budget(START, Money.parse(str(case.amount)))
    if case.theta is not None:
        budget = new_budget(START, rate=Rate(case.theta / 3600.0))
    scenario = Scenario(
        start=START,
        submissions=tuple(sorted(submissions, key=lambda submission: submission.at)),
        applications={kind.name: kind.application() for kind in KINDS},
        pools=tuple(pools),
        budget=budget,
        terms=lambda _: JobTerms(Widths(1, 8, WIDTHS[-1]), case.resize),
        restart_seconds=RESTART_SECONDS,
    )
    anywhere = case.anywhere or not case.dearer
    known = {class_of(kind.name): kind.profile(anywhere=anywhere or kind.name != BOUND) for kind in KINDS}
    memo = Memo()
    simulation = Simulation(scenario, lambda snapshot: plan(snapshot, memo), ExactKnowledge(known))
    with ExitStack() as stack:
        stack.enter_context(patch("charterer.policy.options.ceiling.FACTOR", case.ceiling))
        if not case.priced:
            unpriced = "charterer.policy.planner.solve_with_pool_limits"
            stack.enter_context(patch(unpriced, lambda solutions, *_: list(solutions)))
        if not case.shared:
            stack.enter_context(patch("charterer.policy.actions.admission.queue.share_room", lambda *_: None))
        return _figures(simulation.run())


def _figures(result: SimulationResult) -> Figures:
    cheap = result.rented_gpu_hours.get(PoolId("cheap"), 0.0)
    return Figures(result.mean_completion_seconds / 3600, result.spent.dollars, cheap, len(result.jobs))


def compare_ceilings(pool: Executor, chosen: argparse.Namespace) -> None:
    """A row for each multiple, seed, and set of classes."""
    print("ceiling  anywhere  seed  mean hours  dollars")
    cases = [
        Case(seed, chosen.amount, NODES[1], chosen.dearer, anywhere, priced=True, ceiling=ceiling)
        for anywhere in (True, False)
        for ceiling in chosen.ceilings
        for seed in range(chosen.first, chosen.first + chosen.seeds)
    ]
    for case, found in zip(cases, pool.map(run, cases), strict=True):
        anywhere = "yes" if case.anywhere else "no"
        print(f"{case.ceiling:7g} {anywhere:>9} {case.seed:5} {found.hours:11.2f} {found.dollars:8.0f}", flush=True)


def main() -> None:
    """A row for each size of the cheap pool and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ceilings", type=float, nargs="*", help="compare these multiples instead")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--amount", type=int, default=75_000)
    parser.add_argument("--dearer", type=float, default=1.5)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.workers) as pool:
        if chosen.ceilings:
            compare_ceilings(pool, chosen)
            return
        for anywhere in (True, False):
            print("All classes run in both pools." if anywhere else f"Class {BOUND} only runs in the cheap pool.")
            print("nodes  seed   mean hours: bare  priced   dollars: bare   priced   cheap GPU-h: bare  priced  ratio")
            ratios = []
            for nodes in NODES:
                for seed in range(chosen.first, chosen.first + chosen.seeds):
                    case = Case(seed, chosen.amount, nodes, chosen.dearer, anywhere, priced=False)
                    bare, priced = pool.map(run, (case, replace(case, priced=True)))
                    ratios.append(bare.hours / priced.hours)
                    print(
                        f"{nodes:5} {seed:5} {bare.hours:18.2f} {priced.hours:7.2f} {bare.dollars:15.0f} "
                        f"{priced.dollars:8.0f} {bare.cheap:19.0f} {priced.cheap:7.0f} {ratios[-1]:6.3f}"
                    )
            print(f"geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
