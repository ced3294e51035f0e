"""What nodes that are there anyway save, and whether they stand idle beside what is rented.

    python -m tests.bench.own_nodes [--nodes 2 8] [--jobs 60 150] [--rates 1 4 16] [--seeds 2]

Jobs of seven applications of Gavel's measurements on V100 GPUs, of 1 to 8 GPUs each, arrive over 12 hours. On-demand
nodes of eight GPUs cost $19.84 an hour; so many own ones are there anyway. The figure is θ·(job-hours) + dollars. A row
has it without own nodes and its ratio with them, the same for hours and dollars, the hours in which own nodes stood
wholly idle beside rented ones as a part of all rented hours, and the part of GPU-hours that ran on own nodes. These are
means over seeds; in brackets are the least and the most ratio.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from charterer.domain.ids import BudgetId, PoolId, RentalId
from charterer.domain.money import Price
from charterer.domain.plan import Plan
from charterer.domain.pool import Commitment
from charterer.domain.rental import RentalPhase
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.scenario import Scenario
from tests.bench import _gavel as gavel
from tests.bench import _held_nodes as held_nodes
from tests.bench._held_nodes import Case

_OWN = PoolId("own")


@dataclass(frozen=True, slots=True)
class Outcome(held_nodes.Outcome):
    """``rented``: hours of rented nodes. ``beside``: hours of own nodes that were idle while others were rented."""

    rented: float = 0.0
    beside: float = 0.0
    own_part: float = 0.0


class Watched:
    """A planner that adds up what it sees between two plans."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._last: tuple[Instant, int, int, int, int] | None = None
        self.rented, self.beside, self.own_gpus, self.gpus = 0.0, 0.0, 0.0, 0.0

    def __call__(self, snapshot: Snapshot) -> Plan:
        """The plan."""
        if self._last is not None:
            since, idle, rented, own, gpus = self._last
            hours = seconds_between(since, snapshot.now) / 3600.0
            self.rented += rented * hours
            self.beside += min(idle, rented) * hours
            self.own_gpus += own * hours
            self.gpus += gpus * hours
        self._last = (snapshot.now, *_counts(snapshot))
        return plan(snapshot, self._memo)


def _counts(snapshot: Snapshot) -> tuple[int, int, int, int]:
    """Own nodes that are idle, others that are ready, GPUs in use on own nodes, and in all."""
    used = Counter[RentalId]()
    for job in snapshot.jobs.values():
        for place in () if job.allocation is None else job.allocation.placements:
            used[place.rental] += place.takes
    ready = [rental for rental in snapshot.rentals.values() if rental.phase is RentalPhase.READY]
    own = [rental.id for rental in ready if rental.pool == _OWN]
    return sum(not used[name] for name in own), len(ready) - len(own), sum(used[name] for name in own), used.total()


def outcome(given: Scenario) -> Outcome:
    """The jobs simulated with exact curves."""
    watched = Watched()
    result, hours = held_nodes.simulated(given, watched)
    part = watched.own_gpus / watched.gpus if watched.gpus else 0.0
    return Outcome(hours, result.spent.dollars, watched.rented, watched.beside, part)


def _compared(case: Case) -> tuple[Outcome, Outcome]:
    """With own nodes, and without."""
    nodes, jobs, theta, seed = case

    def own(budget: BudgetId) -> PoolModel:
        committed = Commitment(None, budget)
        return PoolModel(_OWN, 8, Price(0), gavel.REFERENCE, max_nodes=nodes, committed=committed)

    given = held_nodes.scenario(own, jobs, theta, seed)
    return outcome(given), outcome(replace(given, pools=given.pools[:1]))


def _row(nodes: int, jobs: int, theta: float, found: Sequence[tuple[Outcome, Outcome]]) -> str:
    ratios = [one.figure(theta) / other.figure(theta) for one, other in found]
    hours = statistics.mean(one.hours / other.hours for one, other in found)
    dollars = statistics.mean(one.dollars / other.dollars for one, other in found)
    figure = statistics.mean(other.figure(theta) for _, other in found)
    beside = statistics.mean(one.beside / one.rented if one.rented else 0.0 for one, _ in found)
    part = statistics.mean(one.own_part for one, _ in found)
    spread = f"{statistics.mean(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
    parts = f"{hours:6.2f} {dollars:8.2f} {beside:11.3f} {part:9.2f}"
    return f"{nodes:5} {jobs:5} {theta:6g} {figure:10.0f} {spread:>20} {parts}"


def main() -> None:
    """Print a row for each number of nodes, load and θ."""
    args = held_nodes.parser(__doc__, "own nodes").parse_args()
    heading = "nodes  jobs   $/h   without $      with ÷ without  hours  dollars  idle beside  own part"
    held_nodes.print_rows(args, heading, _compared, _row)


if __name__ == "__main__":
    main()
