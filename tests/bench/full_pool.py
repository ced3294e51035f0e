"""What a full pool's price brings:  python -m tests.bench.full_pool [--seeds 2] [--amount 75000] [--dearer 1.5]
                                   python -m tests.bench.full_pool --ceilings 3 5 10 20 --amount 250000
                                   python -m tests.bench.full_pool --grid [--seeds 2] [--days 5] [--only never]

Two pools, the cheap one with few nodes; Amdahl classes that scale well or badly; a budget for a month of arrivals. The
operator's planner with prices for room, and without: then each job takes what is best at the bare bill, and where that
pool is full the next best. Either all classes run as fast in both pools (then it matters little who gets the room), or
one class can only run in the cheap pool. Prints the mean completion times at the same budget and their ratio.

``--ceilings``: instead, what other defaults of ``maxPaysPerHourSaved`` cost, as multiples of an hour of the job as it
was asked for in the dearest pool (``options.ceiling``), in hours and dollars. Money must be left, or none binds.

``--grid``: prices for room and the allotment of room, both, one of them and neither, in many cells: a class bound to
the cheap pool or none, 2 to 10 cheap nodes, jobs that are never resized and that are, with and without the dearer pool,
a fixed exchange rate and a month's budget; then Philly's and Pollux's jobs of ``exact`` (if the data is there). A
figure is θ·a + m of all jobs, in per cent of the least of the other three; minus is better. All seeds of a cell are
added up before, because one run may go another way for reasons of chance. θ is ``WORTH`` dollars an hour with both
kinds of budget, and a month's budget is what the jobs would spend at that rate, so it pays for about as much.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
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
GRID_NODES = (2, 4, 10)
WORTH = 10.0
"""Dollars of an hour of a job, in the grid."""
VARIANTS = ((False, False), (False, True), (True, False), (True, True))
"""Whether full pools have prices, and whether their room is allotted."""


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

    ``priced``, ``allotted``: whether full pools have prices, and whether their room is allotted. ``ceiling``: the
    multiple of an hour of a job that is paid at most to end it an hour earlier.
    """

    seed: int
    amount: int
    nodes: int
    dearer: float
    anywhere: bool
    priced: bool
    allotted: bool = True
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
        if not case.allotted:
            stack.enter_context(patch("charterer.policy.actions.admission.queue.allot_room", lambda *_: None))
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


# --- the grid ---------------------------------------------------------------------------------------------------------


def _cells(days: float) -> dict[str, Case]:
    """By name, the cell with a fixed exchange rate, both mechanisms and seed 0."""
    cells = {}
    for dearer, anywhere in ((1.5, True), (1.5, False), (0.0, True)):
        for resize in (ResizePolicy.NEVER, ResizePolicy.RESTART):
            for nodes in GRID_NODES if dearer else GRID_NODES[1:]:  # two alone hold less than half of the work
                where = ("anywhere" if anywhere else "bound") if dearer else "no other pool"
                name = f"{resize.value:8}{nodes:3} nodes  {where}"
                cells[name] = Case(0, 0, nodes, dearer, anywhere, True, True, WORTH, resize, days)
    return cells


def _paid(case: Case, at_rate: Figures) -> Case:
    """The case with a month's budget that pays for what its jobs would spend at the exchange rate."""
    return replace(case, theta=None, amount=round(at_rate.dollars * 30.0 / case.days))


def _row(name: str, found: Mapping[tuple[bool, bool], float]) -> float:
    """Print a cell: each variant by the least of the other three. Returns that of today's planner."""
    both, others = found[True, True], {key: cost for key, cost in found.items() if key != (True, True)}
    loss = both / min(others.values()) - 1.0
    each = "".join(f"{cost / found[False, False] - 1.0:+9.1%}" for cost in found.values())
    print(f"{name:44}{found[False, False]:10.0f}{each}{loss:+9.1%}", flush=True)
    return loss


def grid(pool: Executor, chosen: argparse.Namespace) -> None:
    """A row for each cell."""
    print(f"{'theta*a + m, $, ' + str(WORTH) + ' $/h':44}   neither  neither  allotted   prices     both     loss")
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    losses = []
    cells = {name: cell for name, cell in _cells(chosen.days).items() if chosen.only in name}
    fixed = [
        replace(cell, seed=seed, allotted=allotted)
        for cell in cells.values()
        for allotted in (False, True)
        for seed in seeds
    ]
    at_rate = dict(zip(fixed, pool.map(run, fixed), strict=True))
    for name, cell in cells.items():  # a fixed rate has no prices
        alone, allotted = (
            sum(at_rate[replace(cell, seed=seed, allotted=allotted)].objective(WORTH) for seed in seeds)
            for allotted in (False, True)
        )
        found = {(priced, allotting): allotted if allotting else alone for priced, allotting in VARIANTS}
        losses.append(_row(f"{name}, rate", found))
    budgets = [
        replace(
            _paid(cell, at_rate[replace(cell, seed=seed, allotted=False)]), seed=seed, priced=priced, allotted=allotted
        )
        for cell in cells.values()
        for priced, allotted in VARIANTS
        for seed in seeds
    ]
    costs = iter([figures.objective(WORTH) for figures in pool.map(run, budgets)])
    for name in cells:
        losses.append(_row(f"{name}, budget", {variant: sum(next(costs) for _ in seeds) for variant in VARIANTS}))
    print(f"worst {max(losses):+.1%}; worse by more than 1 %: {sum(loss > 0.01 for loss in losses)} of {len(losses)}")


def main() -> None:
    """A row for each size of the cheap pool and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ceilings", type=float, nargs="*", help="compare these multiples instead")
    parser.add_argument("--grid", action="store_true", help="compare all variants in many cells instead")
    parser.add_argument("--days", type=float, default=5.0, help="of the grid's arrivals")
    parser.add_argument("--only", default="", help="cells of the grid whose names have this")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--amount", type=int, default=75_000)
    parser.add_argument("--dearer", type=float, default=1.5)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.workers) as pool:
        if chosen.grid:
            grid(pool, chosen)
            return
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
