"""A small team's first day:  python -m tests.bench.small_teams [--worlds 40] [--first 1] [--save F] [--against F]

One to ten jobs on pools of nodes of four and eight GPUs: rigid and elastic ones, some of which may be moved, come at
once or over a day. Two tables:

- what the budget tells when its last job has come, "if nothing else comes, the month ends at", against what the month
  then costs;
- dollars and hours of all jobs over a sweep of what an hour of a job's life is worth.

``--save`` writes both to a file, and ``--against`` compares with such a file of another build: dollars at equal times.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import exp, log
from pathlib import Path
from statistics import fmean, median

from charterer.domain.budget import Budget
from charterer.domain.ids import Rate
from charterer.domain.job import ResizePolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Calendar, seconds_between
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests.bench._pollux import START, at_hours

RATES = (0.5, 2.0, 8.0, 32.0, 128.0)
"""Dollars that an hour of a job's life is worth."""
AMOUNTS = (500.0, 2_000.0, 10_000.0)
"""Dollars a month of the budgets that tell how it ends."""
TOLD_WITHIN = 0.1
_HOUR = 3600.0
OFFERS = (
    ("h100", 8, 55.0, 5.0),
    ("a100", 8, 25.6, 2.3),
    ("a100", 4, 12.8, 2.3),
    ("l4", 4, 3.2, 1.0),
    ("t4", 4, 2.0, 0.45),
)
"""GPU type, GPUs of a node, dollars an hour of a node, speed."""
_WIDTHS = (1, 2, 4, 8, 16)
_RESTART_SECONDS = 60.0
INSTANT = 1e-3
"""Seconds that an instant is apart from the next at least."""


@dataclass(frozen=True, slots=True)
class TeamJob:
    """A job: its hours on one GPU of speed 1, the exponent of its speed, when it comes, and what it asks for."""

    name: str
    at: float
    hours: float
    exponent: float
    widths: Widths
    resize: ResizePolicy


@dataclass(frozen=True, slots=True)
class Team:
    """A team's first day."""

    pools: tuple[tuple[str, int, float, float], ...]
    jobs: tuple[TeamJob, ...]


def team(seed: int) -> Team:
    """The team of a seed."""
    draw = random.Random(seed)
    pools = tuple(draw.sample(OFFERS, draw.randint(1, 3)))
    spread = draw.choice((0.0, 1.0, 8.0, 24.0)) * _HOUR
    fixed = draw.choice((ResizePolicy.NEVER, ResizePolicy.RESTART, None))
    jobs = []
    for number in range(draw.randint(1, 10)):
        least = draw.choice((1, 1, 1, 2, 4))
        most = least if draw.random() < 0.4 else draw.choice([width for width in _WIDTHS if width >= least])
        jobs.append(
            TeamJob(
                name=f"job-{number}",
                at=draw.uniform(0.0, spread),
                hours=exp(draw.gauss(log(8.0), 1.0)),
                exponent=draw.uniform(0.55, 0.95),
                widths=Widths(least, draw.choice([width for width in _WIDTHS if least <= width <= most]), most),
                resize=fixed or draw.choice((ResizePolicy.NEVER, ResizePolicy.RESTART)),
            )
        )
    return Team(pools, tuple(sorted(jobs, key=lambda job: job.at)))


def scenario(world: Team, budget: Budget, start_seconds: float = 180.0, most: int = 20) -> Scenario:
    """The team's jobs. ``start_seconds``: of a node; ``most``: nodes of a pool."""
    terms = {job.name: JobTerms(job.widths, job.resize) for job in world.jobs}
    applications = {
        job.name: Application(
            job.name,
            (1.0,),
            {
                kind: ({width: speed * width**job.exponent / (job.hours * _HOUR) for width in (1, 2, 4, 8, 12, 16)},)
                for kind, _, _, speed in world.pools
            },
        )
        for job in world.jobs
    }
    return Scenario(
        start=START,
        submissions=tuple([Submission(job.name, job.at, job.name, job.widths.preferred) for job in world.jobs]),
        applications=applications,
        pools=tuple(
            [
                PoolModel(f"{kind}-{size}", size, Price.parse(f"{hourly:.2f}"), kind, start_seconds, max_nodes=most)
                for kind, size, hourly, _ in world.pools
            ]
        ),
        budget=budget,
        terms=lambda submission: terms[submission.name],
        restart_seconds=_RESTART_SECONDS,
    )


class Told:
    """The operator's planner, and the month's end that it tells last before the instant ``until``."""

    def __init__(self, until: float) -> None:
        self.dollars = 0.0
        self._memo = Memo()
        self._until = until

    def plan(self, snapshot: Snapshot) -> Plan:
        """The operator's plan."""
        found = plan(snapshot, self._memo)
        (verdict,) = found.budgets.values()
        if seconds_between(START, snapshot.now) <= self._until + INSTANT:
            self.dollars = (verdict.spent + verdict.in_sight + verdict.commitments).dollars
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """``told``: dollars at the month's end, when the last job had come; ``spent``: what it really was, or of a budget
    without an amount all dollars.

    ``hours``: of all jobs, from submission to completion.
    """

    told: float
    spent: float
    hours: float
    restarts: int


def simulate(seed: int, given: float, *, monthly: bool) -> Outcome:
    """One team's day. ``given``: dollars a month, or for an hour of a job's life."""
    world = team(seed)
    budget = new_budget(START, Money.of(given)) if monthly else new_budget(START, rate=Rate(given / _HOUR))
    given_jobs = scenario(world, budget)
    classes = {class_of(name): application for name, application in given_jobs.applications.items()}
    told = Told(world.jobs[-1].at)
    result = Simulation(given_jobs, told.plan, ExactKnowledge(exact_profiles(classes, _RESTART_SECONDS))).run()
    hours = sum([((job.finished or result.ended_at) - job.submitted) / _HOUR for job in result.jobs])
    return Outcome(told.dollars, within_month(result) if monthly else result.spent.dollars, hours, result.restarts)


def within_month(result: SimulationResult) -> float:
    """Dollars until the end of the month in which the budget was made."""
    end = seconds_between(START, Calendar("UTC").end(START))
    steps = [*result.hourly, (result.ended_at, 0.0)]
    return sum([hourly * (min(later, end) - at) / _HOUR for (at, hourly), (later, _) in pairwise(steps) if at < end])


Results = dict[str, list[list[float]]]
"""By what was given: told, spent, hours and restarts of each world."""


def results(seeds: Sequence[int], processes: int | None) -> Results:
    """All simulations."""
    found: Results = {}
    with ProcessPoolExecutor(processes) as pool:
        for monthly, given in [*product((True,), AMOUNTS), *product((False,), RATES)]:
            outcomes = pool.map(partial(simulate, given=given, monthly=monthly), seeds)
            key = f"${given:g} a month" if monthly else f"{given:g}"
            found[key] = [[each.told, each.spent, each.hours, float(each.restarts)] for each in outcomes]
    return found


def errors(outcomes: Sequence[Sequence[float]]) -> list[float]:
    """By what fraction the month ended above what was told, of each world."""
    return [spent / told - 1.0 if told else float("inf") for told, spent, *_ in outcomes]


def print_told(found: Results, name: str) -> None:
    """How true what was told is."""
    print(f"\n{name}: the month's end as told when the last job had come, against what it then was")
    for given in [key for key in found if key.endswith("month")]:
        off = sorted(errors(found[given]))
        near = sum(abs(each) <= TOLD_WITHIN for each in off) / len(off)
        middle = len(off) // 20, len(off) - 1 - len(off) // 20
        print(
            f"    {given:16} within {TOLD_WITHIN:.0%} in {near:4.0%}; above what was told: median {median(off):+.0%}, "
            f"nine in ten {off[middle[0]]:+.0%} to {off[middle[1]]:+.0%}"
        )


def sweep(found: Results) -> list[tuple[float, float]]:
    """(hours, dollars) of all worlds together, at each worth of an hour."""
    rows = [found[key] for key in found if not key.endswith("month")]
    return [(sum(row[2] for row in outcomes), sum(row[1] for row in outcomes)) for outcomes in rows]


def print_sweep(found: Results, name: str) -> None:
    """Dollars and hours."""
    print(f"\n{name}: dollars, job-hours and restarts a job, by what an hour of a job's life is worth")
    for key, outcomes in found.items():
        restarts = fmean(row[3] for row in outcomes)
        print(
            f"    {key:16} ${sum(row[1] for row in outcomes):10,.0f}  {sum(row[2] for row in outcomes):8,.0f} h  "
            f"{restarts:.1f} restarts a day"
        )


def print_against(ours: Results, theirs: Results) -> None:
    """Dollars at equal times: at each of our points, and the cost in time and money at each worth of an hour."""
    print("\nagainst the other build")
    for hours, dollars in sweep(ours):
        other = at_hours(sweep(theirs), hours)
        told = "beyond its sweep" if other is None else f"{dollars / other - 1.0:+.1%}"
        print(f"    at {hours:8,.0f} h: dollars {told}")
    for key in ours:
        if not key.endswith("month"):
            cost = [sum(row[1] + float(key) * row[2] for row in each[key]) for each in (ours, theirs)]
            print(f"    at ${key} an hour: θ·a + m {cost[0] / cost[1] - 1.0:+.1%}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40, help="number of teams (40)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--processes", type=int, default=None, help="simulations at once")
    parser.add_argument("--save", type=Path, help="write the results to a file")
    parser.add_argument("--against", type=Path, help="compare with the results of another build")
    given = parser.parse_args()
    found = results(range(given.first, given.first + given.worlds), given.processes)
    if given.save:
        given.save.write_text(json.dumps(found))
    print_told(found, "this build")
    print_sweep(found, "this build")
    if given.against:
        theirs = json.loads(given.against.read_text())
        print_told(theirs, "the other")
        print_sweep(theirs, "the other")
        print_against(found, theirs)


if __name__ == "__main__":
    main()
