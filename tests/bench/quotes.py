"""How often quotes hold:  python -m tests.bench.quotes [--worlds 40] [--first 1] [--processes 2] [--year]

Random worlds, each of a seed: one to four classes whose jobs are alike or as unequal as may be, whose curves and mean
sizes the planner believes right or wrong; one to three pools, some of them small, some of spot nodes; a budget that is
ample or binds, or a fixed exchange rate. Jobs come over some weeks, singly and in batches. Each gets a quote in the
first plan that sees it, as its owner would have got it. Counted is how often what a job cost, and when it ended, lay
within the interval of what it was to be as the budget pays: 90 of 100 is what a quote says.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from statistics import median

from charterer.domain.ids import BudgetId, ClassId, JobId, Rate
from charterer.domain.job import Job, ResizePolicy, SpotPolicy, Widths
from charterer.domain.job_quote import JobQuote, outcome
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after, seconds_between
from charterer.incremental import Memo
from charterer.policy.explain.alternatives import Comparison
from charterer.policy.explain.quote import Choice, Estimate, estimates
from charterer.policy.planner import plan
from charterer.policy.set_aside import plan_around
from charterer.tools.simulator.model.ground_truth import Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Simulation
from tests.bench._pollux import START
from tests.bench.small_teams import OFFERS
from tests.bench.year import CASES, GPUS, HOURLY, Believing, simulated

_HOUR, _DAY = 3600.0, 86_400.0
_WIDTHS = (1, 2, 4, 8, 12, 16)
_RESTART_SECONDS = 60.0
_YEARS_DAYS = 42.0


@dataclass(frozen=True, slots=True)
class Quoted:
    """A job's quote, and what came. ``before``: jobs of its class that had completed by then."""

    quote: JobQuote
    estimate: Estimate
    cost: float
    took: float
    held_cost: bool
    held_end: bool | None
    before: float


class _Quoting:
    """The operator's planner, with a quote for each job that it sees for the first time."""

    def __init__(self) -> None:
        self.given: dict[JobId, tuple[Estimate, JobQuote]] = {}
        self.refused = 0
        self.last: dict[JobId, Job] = {}
        self.start = Instant(0)
        self._memo = Memo()

    def plan(self, snapshot: Snapshot) -> Plan:
        (budget,) = snapshot.budgets.values()
        self.start = budget.created
        new = [job for name, job in snapshot.jobs.items() if name not in self.last]
        self.last.update(snapshot.jobs)
        if not new:
            return plan(snapshot, self._memo)
        made = plan_around(snapshot, self._memo, {})
        (solution,) = made.solutions
        comparison = Comparison.of(solution)
        for job in new:
            verdict = made.plan.jobs.get(job.id)
            found = () if verdict is None else estimates(job, verdict, comparison)
            own = next((each for each in found if each.choice is Choice.BUDGET), None)
            if own is None:
                self.refused += 1
            else:
                self.given[job.id] = own, own.told(snapshot.now)
        return made.plan


@dataclass(frozen=True, slots=True)
class World:
    """A scenario, and what the planner believes of it."""

    scenario: Scenario
    profiles: Mapping[ClassId, Profile]
    sizes: Mapping[str, float]


def world(seed: int) -> World:
    """The world of a seed."""
    draw = random.Random(seed)
    pools = _pools(draw)
    spot = any(pool.capacity_type is CapacityType.SPOT for pool in pools)
    days = draw.uniform(5.0, 40.0)
    submissions: list[Submission] = []
    sizes: dict[str, float] = {}
    applications: dict[str, Application] = {}
    terms: dict[str, JobTerms] = {}
    classes: dict[str, str] = {}
    profiles: dict[ClassId, Profile] = {}
    speeds = {pool.gpu_type: next(offer[3] for offer in OFFERS if offer[0] == pool.gpu_type) for pool in pools}
    budget = new_budget(START).id
    for number in range(draw.randint(1, 4)):
        name, exponent, sigma = f"class{number}", draw.uniform(0.55, 0.95), draw.uniform(0.0, 1.6)
        mean = exp(draw.gauss(log(8.0), 0.8)) * _HOUR
        believed = min(exponent * exp(draw.gauss(0.0, 0.1)), 0.99)
        least = draw.choice((1, 1, 1, 2, 4))
        most = least if draw.random() < 0.4 else draw.choice([width for width in _WIDTHS if width >= least])
        preferred = draw.choice([width for width in _WIDTHS if least <= width <= most])
        resize = draw.choice((ResizePolicy.NEVER, ResizePolicy.RESTART))
        of_class = JobTerms(
            Widths(least, preferred, most),
            resize,
            SpotPolicy.ALLOWED if spot and draw.random() < 0.7 else SpotPolicy.NEVER,
        )
        profiles[class_of(name)] = _profile(name, believed, mean * exp(draw.gauss(0.0, 0.3)), speeds, budget)
        batch, at = draw.choice((1, 1, 3)), 0.0
        for job in range(draw.randint(4, 40)):
            at = draw.uniform(0.0, days * _DAY) if job % batch == 0 else at
            key = f"{name}-{job}"
            sizes[key] = mean * exp(draw.gauss(-sigma * sigma / 2.0, sigma))
            applications[key] = _application(key, exponent, sizes[key], speeds)
            terms[key], classes[key] = of_class, name
            submissions.append(Submission(key, at, key, preferred))
    gpu_hour = min(float(pool.hourly.dollars_per_hour) / pool.gpus_per_node / speeds[pool.gpu_type] for pool in pools)
    whole = sum(sizes.values()) / _HOUR * gpu_hour
    amount = whole / days * 30.0 * exp(draw.uniform(log(0.8), log(8.0)))
    rate = Rate(exp(draw.uniform(log(0.5), log(60.0))) / _HOUR) if draw.random() < 0.3 else None
    scenario = Scenario(
        start=START,
        submissions=tuple(sorted(submissions, key=lambda each: each.at)),
        applications=applications,
        pools=pools,
        budget=new_budget(START, rate=rate) if rate is not None else new_budget(START, Money.parse(f"{amount:.2f}")),
        terms=lambda submission: terms[submission.name],
        restart_seconds=_RESTART_SECONDS,
        until=200.0 * _DAY,
        classes=lambda submission, _: class_of(classes[submission.name]),
    )
    return World(scenario, profiles, sizes)


def _pools(draw: random.Random) -> tuple[PoolModel, ...]:
    found = list[PoolModel]()
    for kind, size, hourly, _ in draw.sample(OFFERS, draw.randint(1, 3)):
        spot = bool(found) and draw.random() < 0.4
        life, lives = draw.uniform(3.0, 30.0) * _HOUR, random.Random(draw.random())
        price = hourly * (draw.uniform(0.3, 0.5) if spot else 1.0)
        found.append(
            PoolModel(
                f"{kind}-{size}",
                size,
                Price.parse(f"{price:.2f}"),
                kind,
                draw.choice((60.0, 180.0, 600.0)),
                max_nodes=draw.choice((4, 8, 20, 20)),
                capacity_type=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
                draw_lifetime=partial(_lifetime, lives, life) if spot else None,
            )
        )
    return tuple(found)


def _lifetime(lives: random.Random, mean: float, _: object) -> float:
    return lives.expovariate(1.0 / mean)


def _application(name: str, exponent: float, seconds: float, speeds: Mapping[str, float]) -> Application:
    curves = {
        kind: ({width: speed * width**exponent / seconds for width in _WIDTHS},) for kind, speed in speeds.items()
    }
    return Application(name, (1.0,), curves)


def _profile(name: str, exponent: float, seconds: float, speeds: Mapping[str, float], budget: BudgetId) -> Profile:
    """Work is in seconds of the first curve at one GPU."""
    first = next(iter(speeds.values()))
    curves = tuple(
        [
            SpeedCurve(kind, ThroughputTable(tuple([(width, speed * width**exponent) for width in _WIDTHS])))
            for kind, speed in speeds.items()
        ]
    )
    profile = Profile(class_of(name), 1, (Phase(1.0, curves),), seconds / first, None, _RESTART_SECONDS)
    return replace(profile, budget=budget)


def quoted(seed: int) -> list[Quoted]:
    """The quotes of a random world's jobs that completed."""
    of_seed = world(seed)
    first = next(iter(of_seed.profiles.values())).phases[0].curves[0].form
    assert isinstance(first, ThroughputTable)
    believed = Believing(of_seed.profiles, {name: size / first.points[0][1] for name, size in of_seed.sizes.items()})
    planner = _Quoting()
    result = Simulation(of_seed.scenario, planner.plan, believed).run()
    prices = {pool.name: pool.hourly.dollars_per_hour / pool.gpus_per_node / _HOUR for pool in of_seed.scenario.pools}
    return _counted(result, planner, prices)


def quoted_in_a_year(given: tuple[int, int]) -> list[Quoted]:
    """The same of the first weeks of one of the worlds of ``year``, by its number, with a seed."""
    number, seed = given
    planner = _Quoting()
    result = simulated(CASES[number], seed, planner.plan, _YEARS_DAYS)
    return _counted(result, planner, {"gpu": HOURLY / GPUS / _HOUR})


def _counted(result: SimulationResult, planner: _Quoting, prices: Mapping[str, float]) -> list[Quoted]:
    found = []
    for done in result.jobs:
        given = planner.given.get(JobId(done.name))
        if given is None or done.finished is None:
            continue
        estimate, quote = given
        cost = sum(prices[pool] * seconds for pool, seconds in done.pool_gpu_seconds.items())
        end = after(planner.start, done.finished)
        came = outcome(quote, Money.of(cost), end)
        took = seconds_between(quote.at, end)
        found.append(Quoted(quote, estimate, cost, took, came.cost, came.end, estimate.jobs))
    return found


def _share(values: Sequence[bool]) -> str:
    return f"{100.0 * sum(values) / len(values):5.1f} of 100 ({len(values)})" if values else "-"


def _lines(found: Sequence[Quoted]) -> Iterable[str]:
    groups = {
        "all": found,
        "nothing completed before": [each for each in found if each.before < 0.5],
        "1 to 5 of the class": [each for each in found if 0.5 <= each.before < 5.5],
        "6 to 20": [each for each in found if 5.5 <= each.before < 20.5],
        "more": [each for each in found if each.before >= 20.5],
    }
    for name, those in groups.items():
        ends = [each.held_end for each in those if each.held_end is not None]
        late = [each for each in those if each.held_end is False and each.took > each.estimate.seconds.high]
        wide = [
            each.estimate.dollars.high / each.estimate.dollars.middle for each in those if each.estimate.dollars.middle
        ]
        lives = [each.estimate.seconds.high / each.estimate.seconds.middle for each in those]
        yield (
            f"{name:26}  cost held {_share([each.held_cost for each in those]):22}  end held {_share(ends):22}  late "
            f"{len(late):4}  factor, median: cost {median(wide or [0.0]):.1f}, end {median(lives or [0.0]):.1f}"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40, help="worlds (40)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--processes", type=int, default=2, help="processes (2)")
    parser.add_argument("--each", action="store_true", help="a line for each world")
    parser.add_argument(
        "--year", action="store_true", help="the worlds of tests.bench.year, a seed each, for six weeks"
    )
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.worlds)
    steady = [number for number, case in enumerate(CASES) if case.price(0.0) == case.price(200.0)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        if arguments.year:
            names = [CASES[number].name for number in steady]
            by_world = list(pool.map(quoted_in_a_year, [(number, arguments.first) for number in steady]))
        else:
            names = [f"world {seed}" for seed in seeds]
            by_world = list(pool.map(quoted, seeds))
    if arguments.each or arguments.year:
        for name, of_one in zip(names, by_world, strict=True):
            ends = [each.held_end for each in of_one if each.held_end is not None]
            print(f"{name:26}  cost {_share([each.held_cost for each in of_one])}  end {_share(ends)}")
    for line in _lines([each for of_one in by_world for each in of_one]):
        print(line)


if __name__ == "__main__":
    main()
