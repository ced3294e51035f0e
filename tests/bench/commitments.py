"""What it is worth to decide about committed nodes by their marginal price instead of the price that is paid.

    python -m tests.bench.commitments [--nodes 2 8] [--jobs 60 150] [--rates 1 4 16] [--paid 12] [--seeds 2]

Jobs of seven applications of Gavel's measurements on V100 GPUs, of 1 to 8 GPUs each, arrive over 12 hours. Beside
on-demand nodes of eight GPUs at $19.84 there are so many committed ones, which are rented at once and kept in both
cases: their bill is the same and is left out. The figure is θ·(job-hours) + dollars of the other nodes; a row
gives it at the paid price, what the marginal price changes of it in per cent (minus: less), and of both its parts.
Means over seeds, and in brackets the least and the most.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

from charterer.domain.ids import BudgetId, PoolId
from charterer.domain.money import Price
from charterer.domain.pool import Commitment, Pool
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import Scenario
from tests.bench import _gavel as gavel
from tests.bench import _held_nodes as held_nodes
from tests.bench._held_nodes import Case, Outcome
from tests.bench._pollux import START

_YEAR = 365 * 86_400.0


def scenario(paid: Price, nodes: int, jobs: int, theta: float, seed: int) -> Scenario:
    """``nodes`` committed nodes at ``paid`` each, and as many others as are wanted."""

    def reserved(budget: BudgetId) -> PoolModel:
        committed = Commitment(after(START, _YEAR), budget)
        return PoolModel("reserved", 8, paid, gavel.REFERENCE, 120.0, nodes, committed=committed)

    return held_nodes.scenario(reserved, jobs, theta, seed)


def outcome(given: Scenario) -> Outcome:
    """The jobs simulated with exact curves; the dollars of nodes that are not committed."""
    memo = Memo()
    result, hours = held_nodes.simulated(given, lambda snapshot: plan(snapshot, memo))
    return Outcome(hours, result.spent.dollars - result.spent_in[PoolId("reserved")].dollars)


def _compared(paid: Price, case: Case) -> tuple[Outcome, Outcome]:
    """By the marginal price, and by the price that is paid."""
    given = scenario(paid, *case)
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
    parser = held_nodes.parser(__doc__, "committed nodes")
    parser.add_argument("--paid", type=Price.parse, default=Price.parse("12"), help="dollars an hour of a node")
    args = parser.parse_args()
    heading = "nodes  jobs   $/h     figure $   marginal price, in %     hours %  dollars"
    held_nodes.print_rows(args, heading, partial(_compared, args.paid), _row)


if __name__ == "__main__":
    main()
