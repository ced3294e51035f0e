"""Five promises of a budget to newcomers:  python -m tests.bench.first_budgets [--only a b c d e] [--seeds 10]
[--first 1] [--processes 1]

- ``a``: few narrow jobs on nodes of eight GPUs, and a month's amount without a hard limit: by how much it is passed,
  and whether the number was told when the last job had come.
- ``b``: one batch and ample money: θ·a + m beside the best of fixed rates with and without moves, and restarts.
- ``c``: nodes that start in 15 minutes: θ·a + m with moves for money beside that without any.
- ``d``: a week of jobs as asked, of which nothing is known: θ·a + m of an autoscaler that gives each what it asks for
  and ends idle nodes at once, by ours; and of perfect packing on the autoscaler's pool, a bound for fixed widths.
- ``e``: two committed nodes that are always in use, at the price on demand: θ·a + m beside that of the same jobs on
  demand alone, whose first two nodes they stand for; and by the marginal price beside the price that is paid.

θ is the price of an hour of a job's life, a the hours of all jobs from submission to completion, m the dollars.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import fmean
from unittest.mock import patch

from charterer.domain.budget import Budget, MoveLimits
from charterer.domain.ids import JobId, Rate
from charterer.domain.job import Allocation, Job
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.pool import Pool
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import seconds_between
from charterer.incremental import Memo
from charterer.policy.planner import plan
from charterer.tools.simulator.engine.world import Policy
from charterer.tools.simulator.knowledge import ExactKnowledge, exact_profiles
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import Scenario, class_of, new_budget
from charterer.tools.simulator.policies.baselines import RequestedWidth
from charterer.tools.simulator.simulation import Planner, Simulation
from tests.bench import _first_budgets as worlds
from tests.bench import commitments, small_teams
from tests.bench._pollux import START

_HOUR = 3600.0
_NEAR = 0.1
"""Part of the month's end by which what is told may be off, and of the amount by which it may be passed unsaid."""
_CEILING = 5.0 * worlds.ASKED * worlds.PRICE / 8
"""Dollars that a budget with ample money pays for an hour of these jobs."""
_PLENTY = 100
"""Nodes of a pool where jobs shall not wait for room."""
_SLOW_START = 900.0
_NO_MOVES = MoveLimits(per_job_and_day=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hours of all jobs and dollars, restarts of a job."""

    hours: float
    dollars: float
    restarts: float

    def cost(self, theta: float) -> float:
        """θ·a + m."""
        return theta * self.hours + self.dollars


def _outcome(result: SimulationResult) -> Outcome:
    hours = sum([((job.finished or result.ended_at) - job.submitted) / _HOUR for job in result.jobs])
    return Outcome(hours, result.spent.dollars, result.restarts / len(result.jobs))


def _run(given: Scenario, policy: Policy | Planner | None = None, *, known: bool = True) -> SimulationResult:
    """The jobs under a policy, or the operator's planner. ``known``: whether it knows the classes' curves, and that the
    budget pays for them, so that it plans for them when their jobs are gone.
    """
    memo = Memo()
    classes = {class_of(name): application for name, application in given.applications.items() if known}
    profiles = exact_profiles(classes, given.restart_seconds)
    knowledge = ExactKnowledge({name: replace(each, budget=given.budget.id) for name, each in profiles.items()})
    return Simulation(given, policy or (lambda snapshot: plan(snapshot, memo)), knowledge).run()


def _at(rate: float, *, moves: bool = True) -> Budget:
    """A budget that pays so much for an hour of a job's life."""
    budget = new_budget(START, rate=Rate(rate / _HOUR))
    return budget if moves else replace(budget, moves=_NO_MOVES)


# --- a: an amount -----------------------------------------------------------------------------------------------------


class _Told:
    """The operator's planner, and what it tells of the month's end in its first plan and when the last job came."""

    def __init__(self, last: float) -> None:
        self.dollars: list[float] = []
        self._memo, self._last = Memo(), last

    def plan(self, snapshot: Snapshot) -> Plan:
        """The operator's plan."""
        found = plan(snapshot, self._memo)
        (verdict,) = found.budgets.values()
        told = (verdict.spent + verdict.in_sight + verdict.commitments).dollars
        if seconds_between(START, snapshot.now) <= self._last + small_teams.INSTANT:
            self.dollars = [*self.dollars[:1], told]
        return found


@dataclass(frozen=True, slots=True)
class Month:
    """A month's amount, what was told of its end, and the end."""

    amount: float
    told: float
    spent: float

    @property
    def passed(self) -> float:
        """The part of the amount that is spent beyond it."""
        return self.spent / self.amount - 1.0

    @property
    def near(self) -> bool:
        """Whether what was told is what came."""
        return abs(self.told / self.spent - 1.0) <= _NEAR

    @property
    def kept(self) -> bool:
        """Whether the amount was kept, or its owner told."""
        return self.passed <= _NEAR or (self.near and self.told > self.amount)


def amount(seed: int) -> Month:
    """A narrow team's month."""
    world = worlds.narrow(seed)
    told = _Told(world.team.jobs[-1].at)
    result = _run(small_teams.scenario(world.team, new_budget(START, Money.of(world.amount))), told.plan)
    return Month(world.amount, told.dollars[-1], small_teams.within_month(result))


def print_amounts(months: Sequence[tuple[int, Month]]) -> None:
    """A row for each world in which the promise was not kept, and the sums."""
    for seed, month in months:
        if not (month.kept and month.near):
            print(
                f"a  {seed:5}  asked ${month.amount:,.0f}, told ${month.told:,.0f}, spent ${month.spent:,.0f}"
                f" ({month.passed:+.0%}){'' if month.kept else '  NOT KEPT'}"
            )
    found = [month for _, month in months]
    print(
        f"a  told within 10 %: {_part(month.near for month in found)}; passed by more than 10 %:"
        f" {_part(month.passed > _NEAR for month in found)}; that without being told:"
        f" {_part(not month.kept for month in found)}",
        flush=True,
    )


def _part(cases: Iterable[bool]) -> str:
    found = [*cases]
    return f"{sum(found)} of {len(found)}"


# --- b, c: moves ------------------------------------------------------------------------------------------------------


def one_batch(seed: int) -> tuple[Outcome, Outcome]:
    """A batch under an ample amount, and the best of fixed rates with and without moves."""
    world = worlds.batch(seed)

    def under(budget: Budget) -> Outcome:
        return _outcome(_run(small_teams.scenario(world.team, budget, most=_PLENTY)))

    ours = under(new_budget(START, Money.of(world.amount)))
    others = [under(_at(_CEILING * factor, moves=moves)) for factor in (0.25, 0.5, 1.0) for moves in (False, True)]
    return ours, min(others, key=lambda outcome: outcome.cost(_CEILING))


def slow_starts(case: tuple[float, int]) -> tuple[Outcome, Outcome]:
    """A day of jobs at θ with moves for money, and without any."""
    theta, seed = case
    ours, without = (
        _outcome(_run(small_teams.scenario(worlds.day(seed), _at(theta, moves=moves), _SLOW_START)))
        for moves in (True, False)
    )
    return ours, without


def print_compared(name: str, theta: float, found: Sequence[tuple[int, tuple[Outcome, Outcome]]]) -> None:
    """A row of what ours is above the other, in per cent, world by world."""
    changes = [100.0 * (ours.cost(theta) / other.cost(theta) - 1.0) for _, (ours, other) in found]
    restarts = fmean(ours.restarts for _, (ours, _) in found)
    print(
        f"{name}  θ ${theta:g}: θ·a + m {fmean(changes):+.1f} % [{', '.join(f'{each:+.1f}' for each in changes)}],"
        f" {restarts:.2f} restarts a job",
        flush=True,
    )


# --- d: jobs as asked, nothing known ----------------------------------------------------------------------------------


class _Silent:
    """The operator's planner, of jobs that report nothing."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._before: dict[JobId, tuple[Allocation | None, Job]] = {}

    def plan(self, snapshot: Snapshot) -> Plan:
        """The operator's plan. A job is the same object as before as long as its allocation is."""
        before = self._before
        self._before = {
            name: before[name]
            if name in before and before[name][0] is job.allocation
            else (job.allocation, replace(job, progress=None))
            for name, job in snapshot.jobs.items()
        }
        return plan(replace(snapshot, jobs={name: job for name, (_, job) in self._before.items()}), self._memo)


def as_asked(case: tuple[int, float, int]) -> tuple[Outcome, Outcome, float]:
    """A week under ours and the autoscaler, and dollars of perfect packing of what the autoscaler's jobs hold."""
    types, theta, seed = case
    given = small_teams.scenario(worlds.week(seed, types), _at(theta))
    ours = _outcome(_run(given, _Silent().plan, known=False))
    theirs = _run(given, RequestedWidth(lambda submission: submission.gpus, 0.0))
    return ours, _outcome(theirs), _packed(given, theirs)


def _packed(given: Scenario, result: SimulationResult) -> float:
    """Dollars of as few nodes at each instant as hold the GPUs in use, moved for nothing; the jobs' pool is theirs."""
    dollars = 0.0
    for pool in given.pools:
        held: list[tuple[float, int]] = []
        for job in result.jobs:
            for (since, kind), (until, _) in pairwise([*job.gpu_types, (job.finished or result.ended_at, "")]):
                if kind == pool.gpu_type:
                    gpus = max(width for at, width in job.widths if at <= since)
                    held += [(since, gpus), (until, -gpus)]
        changes = sorted(held)
        in_use = accumulate(change for _, change in changes)
        seconds = [later - at for (at, _), (later, _) in pairwise(changes)]
        nodes = sum(-(-gpus // pool.gpus_per_node) * each for gpus, each in zip(in_use, seconds, strict=False))
        dollars += nodes * pool.hourly.dollars_per_second
    return dollars


def print_as_asked(types: int, theta: float, found: Sequence[tuple[Outcome, Outcome, float]]) -> None:
    """Theirs by ours."""
    ratios = [theirs.cost(theta) / ours.cost(theta) for ours, theirs, _ in found]
    dollars = fmean(theirs.dollars / ours.dollars for ours, theirs, _ in found)
    hours = fmean(theirs.hours / ours.hours for ours, theirs, _ in found)
    bound = fmean(theirs.cost(theta) / (theta * theirs.hours + packed) for _, theirs, packed in found)
    print(
        f"d  {types} GPU type{'s' if types > 1 else ''}, θ ${theta:g}: theirs ÷ ours {fmean(ratios):.3f}"
        f" [{', '.join(f'{each:.3f}' for each in ratios)}], dollars {dollars:.3f}, hours {hours:.3f};"
        f" theirs ÷ perfectly packed {bound:.3f}",
        flush=True,
    )


# --- e: commitments ---------------------------------------------------------------------------------------------------

_LIST = Price.parse("19.84")
_COMMITTED = 2


def committed(case: tuple[float, int]) -> tuple[float, float, float]:
    """θ·a + m with committed nodes by their marginal price, by the price that is paid, and on demand alone."""
    theta, seed = case
    given = commitments.scenario(_LIST, _COMMITTED, 150, theta, seed)
    alone = _run(replace(given, pools=tuple([pool for pool in given.pools if pool.committed is None])))
    nodes = [*alone.rented_nodes, (alone.ended_at, 0)]
    seconds = sum([min(count, _COMMITTED) * (until - at) for (at, count), (until, _) in pairwise(nodes)])
    bill, paid = seconds * _LIST.dollars_per_second, property(lambda pool: pool.quote and pool.quote.price)
    marginal = commitments.outcome(given).figure(theta)
    with patch.object(Pool, "marginal", paid):
        by_price = commitments.outcome(given).figure(theta)
    return marginal + bill, by_price + bill, _outcome(alone).cost(theta)


def print_committed(theta: float, found: Sequence[tuple[float, float, float]]) -> None:
    """What committed nodes add to the cost on demand alone, and to that by the price that is paid."""
    alone = [100.0 * (each[0] / each[2] - 1.0) for each in found]
    paid = [100.0 * (each[0] / each[1] - 1.0) for each in found]
    print(
        f"e  θ ${theta:g}: beside on demand alone {fmean(alone):+.1f} % [{', '.join(f'{x:+.1f}' for x in alone)}],"
        f" beside the paid price {fmean(paid):+.1f} % [{', '.join(f'{x:+.1f}' for x in paid)}]",
        flush=True,
    )


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices="abcde", default=[*"abcde"])
    parser.add_argument("--seeds", type=int, default=10, help="worlds of b to e; a has four times as many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    with ProcessPoolExecutor(given.processes) as pool:
        for name in given.only:
            _PARTS[name](pool, seeds)


def _a(pool: ProcessPoolExecutor, seeds: range) -> None:
    many = range(seeds.start, seeds.start + 4 * len(seeds))
    print_amounts([*zip(many, pool.map(amount, many), strict=True)])


def _b(pool: ProcessPoolExecutor, seeds: range) -> None:
    print_compared("b", _CEILING, [*zip(seeds, pool.map(one_batch, seeds), strict=True)])


def _c(pool: ProcessPoolExecutor, seeds: range) -> None:
    for theta in (2.0, 8.0, 32.0):
        print_compared("c", theta, [*zip(seeds, pool.map(slow_starts, [(theta, seed) for seed in seeds]), strict=True)])


def _d(pool: ProcessPoolExecutor, seeds: range) -> None:
    for types in (1, 3):
        for theta in (1.0, 5.0, 20.0):
            print_as_asked(types, theta, [*pool.map(as_asked, [(types, theta, seed) for seed in seeds])])


def _e(pool: ProcessPoolExecutor, seeds: range) -> None:
    for theta in (1.0, 4.0, 16.0):
        print_committed(theta, [*pool.map(committed, [(theta, seed) for seed in seeds])])


_PARTS = {"a": _a, "b": _b, "c": _c, "d": _d, "e": _e}

if __name__ == "__main__":
    main()
