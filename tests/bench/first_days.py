"""A budget's first days:  python -m tests.bench.first_days [--seeds 2] [--only steady] [--day]

A new budget, a month of jobs, beside the best fixed exchange rate: the one that spends what the amount allows, which
only somebody who knew all of the month could choose. The loss is θ·hours + dollars above that, at its θ, by the jobs
that came in the first day, week and month. The worlds are those of ``year`` with jobs in January only; in some of them
the first jobs wait already when the budget is made, or come in batches. While there are jobs, a plan is made once an
hour at least (the operator makes one each minute), so that a job that turns out to be large is seen.

``--day``: instead, by the law alone (``_first_day``), the dollars of the first day's jobs above a fixed rate's at the
same mean completion time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from statistics import fmean
from unittest.mock import patch

from charterer.domain.budget import Budget
from charterer.domain.ids import Rate
from charterer.domain.plan import Plan
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import after
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.model.scenario import new_budget
from charterer.tools.simulator.model.workload import Submission
from tests.bench import _first_day, year

_DAYS = 62.0
_HOUR = 3600.0
_DEAREST = 40.0
"""Dollars an hour of a job's life that the clairvoyant pays at most."""
_HALVINGS = 7
_AMOUNTS, _JOBS_A_DAY = (1.1, 1.3, 4.0), (30.0, 200.0)
_PHASES = (("day", 24.0), ("week", 168.0), ("month", 1e9))


@dataclass(frozen=True)
class World:
    """``jobs`` a month and ``dollars`` for each that they cost at the least; when a job that came at random comes."""

    name: str
    jobs: float
    dollars: float
    comes: Callable[[int, float], float] = lambda number, at: at


def _first_wait(count: int) -> Callable[[int, float], float]:
    return lambda number, at: 0.0 if number < count else at


def _batches(size: int) -> Callable[[int, float], float]:
    """Jobs come together, at the start of the day on which the last of the batch would have come."""
    return lambda number, at: (at // 86_400.0 // size) * size * 86_400.0


WORLDS = (
    World("steady, ample", 100, 4.0),
    World("steady", 100, 2.0),
    World("steady, tight", 100, 1.3),
    World("20 wait at first", 100, 2.0, _first_wait(20)),
    World("all come each Monday", 30, 3.0, _batches(7)),
    World("10 jobs a month", 10, 3.0),
)


@dataclass(frozen=True)
class Outcome:
    """Of each job: hours after the start at which it came, its hours, its dollars; dollars of the month; restarts."""

    jobs: Sequence[tuple[float, float, float]]
    spent: float
    restarts: float


def run(world: World, seed: int, theta: float | None) -> Outcome:
    """A month at the budget's law, or at ``theta`` dollars for an hour of a job's life."""
    case = replace(
        year.CASES[0], jobs_a_month=world.jobs, dollars=world.dollars, load=lambda day: 1.0 if day < 31 else 0.0
    )

    def budget(*given: object) -> Budget:
        new = new_budget(*given)  # type: ignore[arg-type]
        return new if theta is None else replace(new, fixed_rate=Rate(theta / _HOUR))

    def submission(name: str, at: float, application: str, gpus: int) -> Submission:
        return Submission(name, world.comes(int(name.split("-")[1]), at), application, gpus)

    def planned(snapshot: Snapshot) -> Plan:
        found, latest = plan(snapshot, memo), after(snapshot.now, _HOUR)
        if all(job.finish for job in snapshot.jobs.values()):
            return found
        return replace(found, again_at=min(found.again_at or latest, latest))

    memo = Memo()
    with patch.object(year, "new_budget", budget), patch.object(year, "Submission", submission):
        result = year.simulated(case, seed, planned, _DAYS)
    jobs = [
        (
            job.submitted / _HOUR,
            ((job.finished or result.ended_at) - job.submitted) / _HOUR,
            job.gpu_seconds / _HOUR * year.HOURLY / year.GPUS,
        )
        for job in result.jobs
    ]
    spent = result.periods[0][1] if result.periods else result.spent
    return Outcome(jobs, spent.dollars / case.amount, fmean(job.restarts for job in result.jobs))


def best(world: World, seed: int) -> tuple[float, Outcome]:
    """The clairvoyant's θ, and what it does."""
    theta = _DEAREST
    found = run(world, seed, theta)
    if found.spent <= 1.0:
        return theta, found
    low, high = 0.2, _DEAREST
    for _ in range(_HALVINGS):
        middle = sqrt(low * high)
        low, high = (middle, high) if run(world, seed, middle).spent < 1.0 else (low, middle)
    theta = sqrt(low * high)
    return theta, run(world, seed, theta)


def row(number: int, seed: int) -> str:
    """A line of the table."""
    world = WORLDS[number]
    theta, ideal = best(world, seed)
    law = run(world, seed, None)
    cells = []
    for name, hours in _PHASES:
        pairs = [(mine, other) for mine, other in zip(law.jobs, ideal.jobs, strict=True) if mine[0] < hours]
        mine, other = (
            (sum(theta * job[1] + job[2] for job in side) for side in zip(*pairs, strict=True)) if pairs else (0, 0)
        )
        cells.append(f"{name} {100 * (mine / other - 1):+6.1f} %" if other else f"{name}    no jobs")
    money = f"spent {law.spent:.2f} ({ideal.spent:.2f}), restarts {law.restarts:.2f} ({ideal.restarts:.2f})"
    return f"{world.name:22} seed {seed}  θ {theta:5.2f}  " + "  ".join(cells) + f"  {money}"


def day_row(kind: str, a_day: float, seeds: Sequence[int], *, declared: bool) -> str:
    """A line of the table of first days: the mean over the seeds by amount, and the worst seed."""
    cells = []
    for multiple in _AMOUNTS:
        found = [_first_day.excess(kind, a_day, multiple, seed, declared=declared) for seed in seeds]
        within = [each for each in found if each is not None]
        cells.append(f"{multiple:g}x {fmean(within):5.1f} % ({max(within):5.1f})" if within else f"{multiple:g}x none")
    return f"{kind:22} {a_day:4g} jobs{', declared' if declared else '':10}  {'   '.join(cells)}"


def print_days(only: str, seeds: Sequence[int]) -> None:
    """The table of first days. ``only``: of kinds whose name contains this."""
    print(
        "dollars above a fixed θ at equal time, by the amount as a multiple of the cheapest cost; in brackets: the most"
    )
    for kind, a_day, declared in product(_first_day.KINDS, _JOBS_A_DAY, (False, True)):
        if only in kind:
            print(day_row(kind, a_day, seeds, declared=declared), flush=True)


def main() -> None:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="months of each world (2)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--only", default="", help="only worlds whose name contains this")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    parser.add_argument("--day", action="store_true", help="first days at equal time, by the law alone")
    given = parser.parse_args()
    if given.day:
        print_days(given.only, range(given.first, given.first + given.seeds))
        return
    print("loss against the best fixed θ, by the jobs that came in the first day, week, month; in brackets: the best θ")
    with ProcessPoolExecutor(given.workers) as pool:
        tasks = [
            pool.submit(row, number, seed)
            for number, world in enumerate(WORLDS)
            if given.only in world.name
            for seed in range(given.first, given.first + given.seeds)
        ]
        for task in tasks:
            print(task.result(), flush=True)


if __name__ == "__main__":
    main()
