"""Interactive jobs: what is paid and waited when a GPU is given back by the rule, and by others, under the planner.

    python -m tests.bench.interactive [--cells 100] [--seeds 11 12 13] [--kinds usual ...]

Notebooks are simulated with the operator's planner: cells and the times in which their owners think are drawn by a seed
from a mixture of short gaps and breaks. No public trace says how people use notebooks; the first three mixes are about
as busy as NotebookOS (ASPLOS 2026) reports (50, 16 and 5 %), and two others differ in the length of cells. Costs are
dollars of nodes, and of the owner's waiting at θ an hour, divided by those of a GPU that is always held. Nodes have one
GPU for $2.48 an hour; a worker starts in 30 s, on a node that is there at once, or on one that starts in 120 s. The
last figure of a line is the rule's in 20,000 cells of the mix, by arithmetic: some hundred differ from draw to draw.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.time import parse_instant
from charterer.incremental import Memo
from charterer.policy import plan
from charterer.policy.actions.running_jobs import hold_seconds
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import application_from_speeds
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Cell, Notebook, Submission
from charterer.tools.simulator.simulation import Simulation

NOTEBOOK = "notebook"
HOURLY = Price.parse("2.48")
RESTART_SECONDS = 30.0
NODES = {"ready node": 0.0, "new node": 120.0}
"""Seconds that a node takes to start."""
THETAS = (20.0, 60.0)
NEVER, AT_ONCE = 2_592_000.0, 0.001
RULES: dict[str, float | None] = {"always held": NEVER, "10 minutes": 600.0, "at once": AT_ONCE, "rule": None}
"""``idleSeconds`` of each."""


class Mix(NamedTuple):
    """How an owner works: a part of gaps is short, the others are breaks. Medians (s), sigmas of their logarithms."""

    short: float
    gap: tuple[float, float]
    pause: tuple[float, float]
    cell: tuple[float, float] = (90.0, 1.4)

    def cells(self, number: int, seed: int) -> list[Cell]:
        """So many cells."""
        rng = random.Random(seed)
        kinds = [self.gap if rng.random() < self.short else self.pause for _ in range(number)]
        return [Cell(_drawn(rng, kind), _drawn(rng, self.cell)) for kind in kinds]


def _drawn(rng: random.Random, of: tuple[float, float]) -> float:
    return math.exp(rng.gauss(math.log(of[0]), of[1]))


KINDS = {
    "busy": Mix(0.95, (60.0, 1.0), (1800.0, 1.0)),
    "usual": Mix(0.85, (180.0, 1.2), (3600.0, 1.0)),
    "rare": Mix(0.7, (480.0, 1.2), (7200.0, 1.0)),
    "short cells": Mix(0.9, (30.0, 1.0), (2400.0, 1.2), (4.0, 1.0)),
    "long cells": Mix(0.6, (240.0, 1.5), (5400.0, 1.5), (900.0, 1.0)),
}


class Outcome(NamedTuple):
    """Dollars of nodes, and the seconds that each cell waited."""

    dollars: float
    waits: Sequence[float]

    def cost(self, theta: float) -> float:
        """With ``theta`` dollars for an hour of waiting."""
        return self.dollars + theta * sum(self.waits) / 3600.0


def simulated(cells: Sequence[Cell], start_seconds: float, theta: float, idle_seconds: float | None) -> Outcome:
    """One notebook under the planner."""
    told = Notebook(cells, Price.rounded(Decimal(theta)), idle_seconds)
    application = application_from_speeds(NOTEBOOK, {1: 3600.0})
    start = parse_instant("2026-03-02T08:00:00Z")
    scenario = Scenario(
        start=start,
        submissions=(Submission(NOTEBOOK, 0.0, NOTEBOOK, 1, notebook=told),),
        applications={NOTEBOOK: application},
        pools=(PoolModel("a100", 1, HOURLY, start_seconds=start_seconds),),
        budget=new_budget(start, rate=Rate(0.3 / 3600.0)),
        terms=lambda _: JobTerms(Widths(1, 1, 1), resize=ResizePolicy.NEVER),
        restart_seconds=RESTART_SECONDS,
    )
    profiles = exact_profiles({class_of(NOTEBOOK): application}, RESTART_SECONDS)
    memo = Memo()
    result = Simulation(scenario, lambda snapshot: plan(snapshot, memo), ExactKnowledge(profiles)).run()
    return outcome(result, len(cells))


def outcome(result: SimulationResult, cells: int) -> Outcome:
    """What it cost; all cells must have run."""
    (job,) = result.jobs
    assert len(job.cell_waits) == cells, f"{len(job.cell_waits)} of {cells} cells ran"
    return Outcome(result.spent.dollars, job.cell_waits)


def busy_part(cells: Iterable[Cell]) -> float:
    """The part of the time in which a cell runs, if none ever waits."""
    cells = list(cells)
    return sum(cell.seconds for cell in cells) / sum(cell.think + cell.seconds for cell in cells)


def long_run(kind: str, start_seconds: float, theta: float, cells: int = 20_000) -> tuple[float, float]:
    """The rule's cost by that of a GPU that is always held, and the mean wait, of so many cells: by arithmetic."""
    drawn, wait, price = KINDS[kind].cells(cells, seed=1), start_seconds + RESTART_SECONDS, HOURLY.dollars_per_second
    held = hold_seconds(theta / 3600.0, wait, wait, price)
    waits = wait * sum(cell.think > held for cell in drawn)
    used = sum(cell.seconds + min(cell.think, held) for cell in drawn)
    always = price * sum(cell.seconds + cell.think for cell in drawn)
    return (price * (used + waits) + theta / 3600.0 * waits) / always, waits / cells


def row(kind: str, nodes: str, cells: int, seed: int) -> dict[tuple[str, float], Outcome]:
    """By rule and θ, on which only the rule's own decisions depend."""
    drawn, start = KINDS[kind].cells(cells, seed), NODES[nodes]
    fixed = {name: simulated(drawn, start, THETAS[0], idle) for name, idle in RULES.items() if idle is not None}
    own = {("rule", theta): simulated(drawn, start, theta, None) for theta in THETAS}
    return own | {(name, theta): found for name, found in fixed.items() for theta in THETAS}


def tell(kind: str, nodes: str, theta: float, rows: Sequence[dict[tuple[str, float], Outcome]], busy: float) -> None:
    """One line: the cost of each rule by that of a GPU that is always held, and the mean wait of a cell in seconds."""
    always = sum(found["always held", theta].cost(theta) for found in rows)
    words = []
    for name in RULES:
        if name != "always held":
            cost = sum(found[name, theta].cost(theta) for found in rows) / always
            waits = [wait for found in rows for wait in found[name, theta].waits]
            words.append(f"{name} {cost:.2f} ({sum(waits) / len(waits):4.1f} s)")
    cost, wait = long_run(kind, NODES[nodes], theta)
    words.append(f"in the long run {cost:.2f} ({wait:4.1f} s)")
    print(f"{kind:12} {busy:4.0%} busy  {nodes:10}  ${theta:.0f}  {'  '.join(words)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    told = parser.parse_args()
    for kind in told.kinds:
        busy = busy_part(cell for seed in told.seeds for cell in KINDS[kind].cells(told.cells, seed))
        for nodes in NODES:
            rows = [row(kind, nodes, told.cells, seed) for seed in told.seeds]
            for theta in THETAS:
                tell(kind, nodes, theta, rows, busy)


if __name__ == "__main__":
    main()
