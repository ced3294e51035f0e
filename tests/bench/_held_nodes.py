"""Jobs beside nodes that are held all the time, and a table of what that changes: what two benches share.

Jobs of seven applications of Gavel's measurements on V100 GPUs, of 1 to 8 GPUs each, arrive over 12 hours. Further
nodes of eight GPUs cost $19.84 an hour on demand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Protocol, TypeVar

from charterer.domain.ids import BudgetId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.plan import Plan
from charterer.domain.snapshot import Snapshot
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench._pollux import START

_SECONDS = 43_200
_RESTART = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """``hours`` of jobs, and ``dollars`` of the nodes that count."""

    hours: float
    dollars: float

    def figure(self, theta: float) -> float:
        """Dollars, those of the time at ``theta`` an hour included."""
        return theta * self.hours + self.dollars


def scenario(held: Callable[[BudgetId], PoolModel], jobs: int, theta: float, seed: int) -> Scenario:
    """The pool on demand and, after it, the pool of held nodes, which is made for the budget."""
    budget = new_budget(START, rate=Rate(theta / 3600.0))
    on_demand = PoolModel("v100", 8, Price.parse("19.84"), gavel.REFERENCE, start_seconds=120.0, max_nodes=1000)
    terms = JobTerms(Widths(1, 2, 8), ResizePolicy.RESTART)
    submitted = gavel.submissions(jobs, 4 + seed, _SECONDS)
    pools = (on_demand, held(budget.id))
    return Scenario(START, submitted, gavel.applications(), pools, budget, lambda _: terms, _RESTART)


def simulated(given: Scenario, planner: Callable[[Snapshot], Plan]) -> tuple[SimulationResult, float]:
    """The result with exact curves, and the hours of all jobs."""
    classes = {class_of(name): application for name, application in given.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, given.restart_seconds))
    result = Simulation(given, planner, knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    return result, result.mean_completion_seconds / 3600.0 * len(result.jobs)


def parser(doc: str | None, held: str) -> argparse.ArgumentParser:
    """The arguments; ``held``: what the nodes are."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--nodes", nargs="+", type=int, default=[2, 8], help=held)
    made.add_argument("--jobs", nargs="+", type=int, default=[60, 150], help="jobs in 12 hours")
    made.add_argument("--rates", nargs="+", type=float, default=[1.0, 4.0, 16.0], help="θ, dollars a job-hour")
    made.add_argument("--seeds", type=int, default=2)
    made.add_argument("--processes", type=int, default=2)
    return made


Case = tuple[int, int, float, int]
"""Held nodes, jobs, θ and seed."""
Found = TypeVar("Found")
Told = TypeVar("Told", contravariant=True)


class Row(Protocol[Told]):
    """Makes the line of a number of nodes, a number of jobs and θ."""

    def __call__(self, nodes: int, jobs: int, theta: float, found: Sequence[Told], /) -> str:
        """``found``: by seed."""
        ...


def print_rows(args: argparse.Namespace, heading: str, compared: Callable[[Case], Found], row: Row[Found]) -> None:
    """Print a row for each number of nodes, load and θ. ``compared`` can be pickled."""
    rows = list(product(args.nodes, args.jobs, args.rates))
    cases = [(*each, seed) for each in rows for seed in range(args.seeds)]
    print(heading)
    with ProcessPoolExecutor(args.processes) as pool:
        found = pool.map(compared, cases)
        for each in rows:
            print(row(*each, [next(found) for _ in range(args.seeds)]), flush=True)
