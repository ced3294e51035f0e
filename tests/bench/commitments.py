"""What it is worth to decide about committed nodes by their marginal price instead of the price that is paid.

    python -m tests.bench.commitments [--nodes 2 8] [--jobs 60 150] [--rates 1 4 16] [--paid 12] [--seeds 2]

Jobs of seven applications of Gavel's measurements on V100 GPUs, of 1 to 8 GPUs each, arrive over 12 hours. Beside
on-demand nodes of eight GPUs at $19.84 there are so many committed ones, which are rented at once and kept in both
cases: their bill is the same and is left out. The figure is θ·(job-hours) + dollars of the other nodes; a row
gives it at the paid price, what the marginal price changes of it in per cent (minus: less), and of both its parts.
Means over seeds, and in brackets the least and the most.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

from charterer.domain.ids import PoolId, Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.pool import Commitment, Pool
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench._pollux import START

_SECONDS = 43_200
_RESTART = 30.0
_YEAR = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """``hours`` of jobs, and ``dollars`` of nodes that are not committed."""

    hours: float
    dollars: float

    def figure(self, theta: float) -> float:
        """Dollars, those of the time at ``theta`` an hour included."""
        return theta * self.hours + self.dollars


def scenario(paid: Price, nodes: int, jobs: int, theta: float, seed: int) -> Scenario:
    """``nodes`` committed nodes at ``paid`` each, and as many others as are wanted."""
    budget = new_budget(START, rate=Rate(theta / 3600.0))
    committed = Commitment(after(START, _YEAR), budget.id)
    reserved = PoolModel("reserved", 8, paid, gavel.REFERENCE, 120.0, nodes, committed=committed)
    on_demand = PoolModel("v100", 8, Price.parse("19.84"), gavel.REFERENCE, start_seconds=120.0, max_nodes=1000)
    terms = JobTerms(Widths(1, 2, 8), ResizePolicy.RESTART)
    submitted = gavel.submissions(jobs, 4 + seed, _SECONDS)
    pools = (on_demand, reserved)
    return Scenario(START, submitted, gavel.applications(), pools, budget, lambda _: terms, _RESTART)


def outcome(given: Scenario) -> Outcome:
    """The jobs simulated with exact curves."""
    memo = Memo()
    classes = {class_of(name): application for name, application in given.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, given.restart_seconds))
    result = Simulation(given, lambda snapshot: plan(snapshot, memo), knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    hours = result.mean_completion_seconds / 3600.0 * len(result.jobs)
    return Outcome(hours, result.spent.dollars - result.spent_in[PoolId("reserved")].dollars)


def _compared(case: tuple[Price, int, int, float, int]) -> tuple[Outcome, Outcome]:
    """By the marginal price, and by the price that is paid."""
    given = scenario(*case)
    marginal = outcome(given)
    with patch.object(Pool, "marginal", property(lambda pool: None if pool.quote is None else pool.quote.price)):
        return marginal, outcome(given)


def _row(nodes: int, jobs: int, theta: float, found: Sequence[tuple[Outcome, Outcome]]) -> str:
    changes = [100.0 * (one.figure(theta) / other.figure(theta) - 1.0) for one, other in found]
    hours = statistics.mean(100.0 * (one.hours / other.hours - 1.0) for one, other in found)
    dollars = statistics.mean(one.dollars - other.dollars for one, other in found)
    figure = statistics.mean(other.figure(theta) for _, other in found)
    spread = f"{statistics.mean(changes):+.1f} [{min(changes):+.1f}, {max(changes):+.1f}]"
    return f"{nodes:5} {jobs:5} {theta:6g} {figure:10.0f} {spread:>22} {hours:+10.1f} {dollars:+10.0f}"


def main() -> None:
    """Print a row for each number of nodes, load and θ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", nargs="+", type=int, default=[2, 8], help="committed nodes")
    parser.add_argument("--jobs", nargs="+", type=int, default=[60, 150], help="jobs in 12 hours")
    parser.add_argument("--rates", nargs="+", type=float, default=[1.0, 4.0, 16.0], help="θ, dollars a job-hour")
    parser.add_argument("--paid", type=Price.parse, default=Price.parse("12"), help="dollars an hour of a node")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    rows = list(product(args.nodes, args.jobs, args.rates))
    cases = [(args.paid, *row, seed) for row in rows for seed in range(args.seeds)]
    print("nodes  jobs   $/h     figure $   marginal price, in %     hours %  dollars")
    with ProcessPoolExecutor(args.processes) as pool:
        found = pool.map(_compared, cases)
        for row in rows:
            print(_row(*row, [next(found) for _ in range(args.seeds)]), flush=True)


if __name__ == "__main__":
    main()
