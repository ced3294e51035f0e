"""What each rule of the planner is worth: it is switched off, and jobs and dollars are counted again.

    python -m tests.bench.rules [--rules consolidation] [--beds "two types" spot] [--seeds 2] [--processes 2]

A row for each rule, a column for each bed. A bed is a load of jobs with exact curves at a fixed exchange rate θ; its
figure is θ·(job-hours) + dollars of the whole run. A cell is the change of that figure without the rule, in per cent of
the figure with all rules: plus says that the rule pays. Mean over seeds, and in brackets the largest and smallest.

Rules that are there for safety, or for a promise to the user, are not in the table: limits, targets, quiet hours.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from math import inf
from unittest.mock import patch

from charterer.domain.ids import Rate
from charterer.domain.job import Job, ResizePolicy, Widths
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.incremental import Memo
from charterer.policy.budgets.assignment import GroupAssignment
from charterer.policy.options.option_value import Projection
from charterer.policy.outlook.outlook import Outlook
from charterer.policy.planner import RULES, plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.pools_file import exponential
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.simulation import Simulation
from tests.bench import _gavel as gavel
from tests.bench import full_pool, packing, spot
from tests.bench._pollux import START

_RULES = "charterer.policy.planner.RULES"
_QUEUE = "charterer.policy.actions.admission.queue"
_OUTLOOK = "charterer.policy.outlook.outlook.Outlook"
_WAITS = "charterer.policy.outlook.outlook.FragmentWaits"


def _nothing(*_: object, **__: object) -> None:
    return None


def _as_counted(_: Outlook, __: Job, projections: Sequence[Projection], ___: GroupAssignment) -> Sequence[Option]:
    return [projection.option for projection in projections]


def _without(name: str) -> Mapping[str, object]:
    assert any(rule.name == name for rule in RULES), name
    return {_RULES: tuple(rule for rule in RULES if rule.name != name)}


OFF: Mapping[str, Mapping[str, object]] = {
    "moves that pay": _without("moves that pay"),
    "consolidation": _without("consolidation"),
    "waits for GPUs of a node": {f"{_WAITS}._next_fragment": lambda *_: inf},
    "waits for whole nodes": {f"{_WAITS}._node_wait": _nothing},
    "start-ups that are over": {f"{_OUTLOOK}.in_order": _as_counted},
    "best fit of node sizes": {f"{_OUTLOOK}.best_fit_first": lambda _, __, options: options},
    "runs on fewer nodes meanwhile": {f"{_QUEUE}.Admission._runs_meanwhile": lambda *_: False},
    "idle nodes kept": {"charterer.policy.actions.release_idle.warm_nodes": lambda *_: []},
    "turning back waits": {"charterer.policy.outlook.move_gate.MoveGate._turns_back": _nothing},
    "allotment of full pools": {f"{_QUEUE}.allot_room": _nothing},
}
"""By name of a rule, what takes the place of the values that make it up."""


def _packed(nodes: str, theta: float) -> Callable[[int], float]:
    def figure(seed: int) -> float:
        given = packing.scenario("c", nodes, theta, packing.Bed())
        return _figure(replace(given, submissions=gavel.submissions(150, 4 + seed, packing.SECONDS)), theta)

    return figure


def _figure(given: Scenario, theta: float) -> float:
    memo = Memo()
    classes = {class_of(name): application for name, application in given.applications.items()}
    knowledge = ExactKnowledge(exact_profiles(classes, given.restart_seconds))
    result = Simulation(given, lambda snapshot: plan(snapshot, memo), knowledge).run()
    assert all(job.finished is not None for job in result.jobs)
    return theta * result.mean_completion_seconds / 3600.0 * len(result.jobs) + result.spent.dollars


def _few_jobs(seed: int) -> float:
    """Nodes that take half an hour to start, and a few jobs an hour."""
    pool = PoolModel("v100", 8, Price.parse("19.84"), gavel.REFERENCE, start_seconds=1800.0, max_nodes=100)
    terms = JobTerms(Widths(1, 8, 8), ResizePolicy.RESTART)
    submitted = gavel.submissions(120, 9 + seed, 40 * 3600)
    budget = new_budget(START, rate=Rate(20.0 / 3600.0))
    return _figure(Scenario(START, submitted, gavel.applications(), (pool,), budget, lambda _: terms, 30.0), 20.0)


def _two_types(seed: int) -> float:
    pools = tuple(
        PoolModel(name, 8, Price.parse(f"{gavel.GPU_HOURS[name] * 8:.2f}"), name, start_seconds=120.0, max_nodes=1000)
        for name in ("v100", "p100")
    )
    terms = JobTerms(Widths(1, 1, 8), ResizePolicy.RESTART)
    submitted = gavel.submissions(150, 6 + seed, 43_200)
    budget = new_budget(START, rate=Rate(2.0 / 3600.0))
    applications = gavel.applications(("v100", "p100"))
    return _figure(Scenario(START, submitted, applications, pools, budget, lambda _: terms, 30.0), 2.0)


def _taken_back(seed: int) -> float:
    draw = spot.jointly(exponential(3600.0 / 0.1, 11 + seed))
    with patch("tests.bench.spot.BOOT", 600.0):
        given = spot.scenario(80, 1.0, draw, spot=True, on_demand=True, every=None)
    found = spot.simulate(given)
    return 80 * found.objective(1.0)


def _full(resize: ResizePolicy, anywhere: bool) -> Callable[[int], float]:
    def figure(seed: int) -> float:
        case = full_pool.Case(seed, 0, 3, 1.5, anywhere, theta=20.0, resize=resize, days=4.0)
        return full_pool.run(case).objective(20.0)

    return figure


BEDS: Mapping[str, Callable[[int], float]] = {
    "nodes of 8, $1": _packed("8", 1.0),
    "nodes of 8, $4": _packed("8", 4.0),
    "mixed sizes": _packed("8,4,2,1", 1.0),
    "spot": _taken_back,
    "two types": _two_types,
    "slow starts": _few_jobs,
    "full, Never": _full(ResizePolicy.NEVER, anywhere=False),
    "full, Restart": _full(ResizePolicy.RESTART, anywhere=False),
}
"""By name, θ·(job-hours) + dollars of the bed's load of a seed."""


def measure(bed: str, rule: str, seed: int) -> float:
    """A bed's figure without a rule; with all where it is "" ."""
    with ExitStack() as stack:
        for target, replacement in OFF.get(rule, {}).items():
            stack.enter_context(patch(target, replacement))
        return BEDS[bed](seed)


def main() -> None:
    """The table, bed by bed as soon as one is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", nargs="*", choices=list(OFF), default=list(OFF))
    parser.add_argument("--beds", nargs="*", choices=list(BEDS), default=list(BEDS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    gavel.need_data()
    with ProcessPoolExecutor(given.processes) as pool:
        work = {key: pool.submit(measure, *key) for key in product(given.beds, ["", *given.rules], range(given.seeds))}
        for bed in given.beds:
            base = [work[bed, "", seed].result() for seed in range(given.seeds)]
            print(f"\n{bed}: {statistics.fmean(base):,.0f} dollars, time included", flush=True)
            for rule in given.rules:
                changes = [work[bed, rule, seed].result() / base[seed] - 1.0 for seed in range(given.seeds)]
                spread = f"({min(changes):+.1%} to {max(changes):+.1%})"
                print(f"    {rule:32} {statistics.fmean(changes):+6.1%}  {spread}", flush=True)


if __name__ == "__main__":
    main()
