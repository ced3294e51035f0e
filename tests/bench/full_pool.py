"""What sharing out a full pool brings:  python -m tests.bench.full_pool [--seeds 2] [--days 5] [--only never]
                                      python -m tests.bench.full_pool --ceilings 3 5 10 20 --amount 250000

Two pools, the cheap one with few nodes; Amdahl classes that scale well or badly. Cells: all classes run as fast in both
pools (then it matters little who gets the room), or one class can only run in the cheap pool, or there is no other
pool; 2 to 10 cheap nodes; jobs that are never resized and that are; a fixed exchange rate and a month's budget. A row
has θ·a + m of all jobs without the sharing out of room, where each job takes what is best and, where that pool is full,
the next best; by how much it changes with it; and hours of a job and dollars of all, without and with. Minus is better.
All seeds of a cell are added up before, because one run may go another way for reasons of chance. θ is ``WORTH``
dollars an hour with both kinds of budget, and a month's budget is what the jobs would spend at that rate; the exchange
rate that it pays is another one, so there look at hours and dollars too.

``--ceilings``: instead, what other defaults of ``maxPaysPerHourSaved`` cost, as multiples of an hour of the job as it
was asked for in the dearest pool (``options.menu``), in hours and dollars. Money must be left, or none binds.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import fmean
from unittest.mock import patch

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.profile import Profile
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy.options.menu import FACTOR
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_phases, exact_profile
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation

START = parse_instant("2026-06-01T00:00:00Z")
DAY = 86_400.0
WIDTHS = (1, 2, 4, *range(8, 65, 8))
RESTART_SECONDS = 60.0
NODES = (2, 4, 10)
WORTH = 10.0
"""Dollars of an hour of a job, in the grid."""


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

    ``allotted``: whether the room of full pools is allotted. ``ceiling``: the multiple of an hour of a job that is paid
    at most to end it an hour earlier.
    """

    seed: int
    amount: int
    nodes: int
    dearer: float
    anywhere: bool
    allotted: bool = True
    theta: float | None = None
    resize: ResizePolicy = ResizePolicy.NEVER
    days: float = 30.0
    ceiling: float = FACTOR


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean completion in hours, dollars, and jobs."""

    hours: float
    dollars: float
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
        stack.enter_context(patch("charterer.policy.options.menu.FACTOR", case.ceiling))
        if not case.allotted:
            stack.enter_context(patch("charterer.policy.actions.admission.queue.allot_room", lambda *_: None))
        return _figures(simulation.run())


def _figures(result: SimulationResult) -> Figures:
    return Figures(result.mean_completion_seconds / 3600, result.spent.dollars, len(result.jobs))


def compare_ceilings(pool: Executor, chosen: argparse.Namespace) -> None:
    """A row for each multiple, seed, and set of classes."""
    print("ceiling  anywhere  seed  mean hours  dollars")
    cases = [
        Case(seed, chosen.amount, NODES[1], chosen.dearer, anywhere, ceiling=ceiling)
        for anywhere in (True, False)
        for ceiling in chosen.ceilings
        for seed in range(chosen.first, chosen.first + chosen.seeds)
    ]
    for case, found in zip(cases, pool.map(run, cases), strict=True):
        anywhere = "yes" if case.anywhere else "no"
        print(f"{case.ceiling:7g} {anywhere:>9} {case.seed:5} {found.hours:11.2f} {found.dollars:8.0f}", flush=True)


# --- the grid ---------------------------------------------------------------------------------------------------------


def _cells(days: float) -> dict[str, Case]:
    """By name, the cell with a fixed exchange rate, shared room and seed 0."""
    cells = {}
    for dearer, anywhere in ((1.5, True), (1.5, False), (0.0, True)):
        for resize in (ResizePolicy.NEVER, ResizePolicy.RESTART):
            for nodes in NODES if dearer else NODES[1:]:  # two alone hold less than half of the work
                where = ("anywhere" if anywhere else "bound") if dearer else "no other pool"
                name = f"{resize.value:8}{nodes:3} nodes  {where}"
                cells[name] = Case(0, 0, nodes, dearer, anywhere, True, WORTH, resize, days)
    return cells


def _paid(case: Case, at_rate: Figures) -> Case:
    """The case with a month's budget that pays for what its jobs would spend at the exchange rate."""
    return replace(case, theta=None, amount=round(at_rate.dollars * 30.0 / case.days))


def _row(name: str, alone: Sequence[Figures], shared: Sequence[Figures]) -> float:
    """Print a cell. Returns by which fraction sharing changes what the jobs of all seeds cost."""
    before, after = (sum(each.objective(WORTH) for each in figures) for figures in (alone, shared))
    hours = " ".join(f"{fmean(each.hours for each in figures):8.2f}" for figures in (alone, shared))
    dollars = " ".join(f"{sum(each.dollars for each in figures):8.0f}" for figures in (alone, shared))
    print(f"{name:40}{before:10.0f} {after / before - 1.0:+8.1%}   {hours}   {dollars}", flush=True)
    return after / before - 1.0


def grid(pool: Executor, chosen: argparse.Namespace) -> None:
    """Two rows for each cell: with a fixed exchange rate, and with a month's budget."""
    print(f"{'theta*a + m, $, ' + str(WORTH) + ' $/h':40}     alone allotted      hours of a job       dollars")
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    losses = []
    for name, cell in _cells(chosen.days).items():
        if chosen.only not in name:
            continue
        cases = [replace(cell, seed=seed, allotted=allotted) for allotted in (False, True) for seed in seeds]
        at_rate = list(pool.map(run, cases))
        losses.append(_row(f"{name}, rate", at_rate[: len(seeds)], at_rate[len(seeds) :]))
        paid = [_paid(case, alone) for case, alone in zip(cases, at_rate[: len(seeds)] * 2, strict=True)]
        found = list(pool.map(run, paid))
        losses.append(_row(f"{name}, budget", found[: len(seeds)], found[len(seeds) :]))
    print(f"worst {max(losses):+.1%}; worse by more than 1 %: {sum(loss > 0.01 for loss in losses)} of {len(losses)}")


def main() -> None:
    """The grid, or the ceilings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ceilings", type=float, nargs="*", help="compare these multiples instead")
    parser.add_argument("--days", type=float, default=5.0, help="of the grid's arrivals")
    parser.add_argument("--only", default="", help="cells of the grid whose names have this")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--amount", type=int, default=75_000, help="dollars a month, of the ceilings")
    parser.add_argument("--dearer", type=float, default=1.5, help="the other pool's price by the cheap one's, there")
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.workers) as pool:
        if chosen.ceilings:
            compare_ceilings(pool, chosen)
        else:
            grid(pool, chosen)


if __name__ == "__main__":
    main()
