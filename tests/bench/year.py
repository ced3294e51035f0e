"""A year of money in the full simulator:  python -m tests.bench.year [--seeds 2] [--months 12] [--only spot]

The operator's planner with nodes that start up, restarts, resizing, idle nodes and the ledger's own books; a budget by
the calendar month, without carry-over. Jobs come (Poisson) in four classes whose sizes are lognormal and not known
beforehand; what a class's curve is, the planner believes right or wrong. Prints a month's spend against the budget, and
how often the forecasts that were made of it hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import exp, log, sqrt

from charterer.domain.ids import ClassId
from charterer.domain.job import SpotPolicy, Widths
from charterer.domain.money import Money, Price
from charterer.domain.plan import Plan
from charterer.domain.pool import CapacityType
from charterer.domain.profile import Phase, Profile, SpeedCurve, ThroughputTable
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Memo
from charterer.policy.budgets.forecast import Forecast
from charterer.policy.planner import plan
from charterer.tools.simulator.model.ground_truth import GPU_TYPE, Application
from charterer.tools.simulator.model.node_market import PoolModel
from charterer.tools.simulator.model.result import SimulationResult
from charterer.tools.simulator.model.scenario import JobTerms, Scenario, class_of, new_budget
from charterer.tools.simulator.model.sim_job import SimJob
from charterer.tools.simulator.model.workload import Submission
from charterer.tools.simulator.simulation import Planner, Simulation
from tests.bench._years import ASKED_ON, Month, options, print_tables
from tests.bench.budgets import DAY, MONTHS, START, prices, step_down, step_up

WIDTHS = (1, 2, 4, *range(8, 65, 8))
CLASSES = {"a": (0.6, 0.5), "b": (0.7, 1.0), "c": (0.8, 1.5), "d": (0.85, 1.0)}
"""By name: the exponent of the speed, and the mean size as a multiple of the case's."""
RESTART_SECONDS = 60.0
GPUS = 8
HOURLY = 16.0
"""Dollars of a node of eight GPUs."""


@dataclass(frozen=True)
class Case:
    """One world. ``dollars``: a month's budget for each dollar that the jobs would cost on one GPU each.

    ``lives``: mean hours after which the cloud takes a spot node back (absent: on demand, for as long as wanted). The
    rest is as in ``budgets``.
    """

    name: str
    jobs_a_month: float = 300.0
    believed: float = 1.0
    cv: float = 1.5
    mean_hours: float = 120.0
    dollars: float = 2.0
    load: Callable[[float], float] = lambda day: 1.0
    price: Callable[[float], float] = lambda day: 1.0
    lives: float | None = None

    @property
    def amount(self) -> float:
        """Dollars a month."""
        times = sum(times for _, times in CLASSES.values()) / len(CLASSES)
        return self.dollars * self.jobs_a_month * self.mean_hours * times * HOURLY / GPUS


CASES = (
    Case("right curves"),
    Case("exponents x 0.85", believed=0.85),
    Case("exponents x 1.15", believed=1.15),
    Case("exponents x 1.3", believed=1.3),
    Case("load x 2 in May", load=step_up),
    Case("load x 0.5 in May", load=step_down, dollars=1.2),
    Case("prices x 1.3, then x 0.8", price=prices),
    Case("spot nodes that live 12 h", lives=12.0),
    Case("40 unequal jobs a month", jobs_a_month=40, cv=3.5, mean_hours=700.0),
)


@dataclass(slots=True)
class Believing:
    """What the planner knows: curves that may be wrong, the mean size, and a job's own once it has done a twentieth."""

    class_profiles: Mapping[ClassId, Profile]
    sizes: Mapping[str, float]
    report_seconds: float = field(default=float("inf"), init=False)

    def profiles(self) -> Mapping[ClassId, Profile]:
        """They do not change."""
        return self.class_profiles

    def expected_work(self, job: SimJob) -> float | None:
        """Seconds on one GPU, by which speeds are measured."""
        if job.done >= TRUSTED_FRACTION:
            return self.sizes[job.submission.name]
        return self.class_profiles[job.class_id].mean_work

    def batch(self, job: SimJob) -> int:
        """Batch sizes do not matter here."""
        return 0

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """Nothing is learned of curves."""


def _application(name: str, exponent: float, seconds: float) -> Application:
    return Application(name, (1.0,), {GPU_TYPE: ({width: width**exponent / seconds for width in WIDTHS},)})


def _profile(name: str, exponent: float, seconds: float) -> Profile:
    points = tuple((width, width**exponent) for width in WIDTHS)
    phase = Phase(1.0, (SpeedCurve("gpu", ThroughputTable(points)),))
    budget = new_budget(START).id
    return Profile(class_of(name), 1, (phase,), seconds, None, RESTART_SECONDS, budget)


def year(case: Case, seed: int, months: int = MONTHS) -> list[Month]:
    """One case with one seed, month by month."""
    watch = Watch()
    result = simulated(case, seed, watch.plan, 30.5 * months + 1.5)
    asked = watch.by_month(len(result.periods))
    amount = case.amount
    return [
        Month(spent.dollars, forecasts, amount) for (_, spent), forecasts in zip(result.periods, asked, strict=True)
    ][:months]


def simulated(case: Case, seed: int, planner: Planner, days: float) -> SimulationResult:
    """So many days of it from the first of January on."""
    draw = random.Random(seed)
    sigma = sqrt(log(1.0 + case.cv**2))
    mean = case.mean_hours * 3600.0
    submissions: list[Submission] = []
    sizes: dict[str, float] = {}
    applications: dict[str, Application] = {}
    at, peak = 0.0, 2.0 * case.jobs_a_month / (30 * DAY)
    while (at := at + draw.expovariate(peak)) < (days + 1.0) * DAY:
        if draw.random() * 2.0 >= case.load(at / DAY):
            continue
        name = draw.choice(list(CLASSES))
        exponent, times = CLASSES[name]
        job = f"{name}-{len(submissions)}"
        sizes[job] = mean * times * exp(draw.gauss(-sigma * sigma / 2, sigma))
        applications[job] = _application(name, exponent, sizes[job])
        submissions.append(Submission(job, at, job, GPUS))
    scenario = Scenario(
        start=START,
        submissions=tuple(submissions),
        applications=applications,
        pools=(_pool(case, draw),),
        budget=new_budget(START, Money.parse(f"{case.amount:.2f}")),
        terms=lambda _: JobTerms(
            Widths(1, GPUS, WIDTHS[-1]), spot=SpotPolicy.ALLOWED if case.lives else SpotPolicy.NEVER
        ),
        restart_seconds=RESTART_SECONDS,
        until=days * DAY,
    )
    class_profiles = {
        class_of(name): _profile(name, min(exponent * case.believed, 0.99), mean * times)
        for name, (exponent, times) in CLASSES.items()
    }
    return Simulation(scenario, planner, Believing(class_profiles, sizes)).run()


def _pool(case: Case, draw: random.Random) -> PoolModel:
    factors = [(day, case.price(day)) for day in range(367)]
    steps = [(day, now) for (_, before), (day, now) in pairwise(factors) if now != before]
    lives = case.lives
    return PoolModel(
        "gpu",
        GPUS,
        Price.parse(f"{HOURLY * factors[0][1]:.2f}"),
        start_seconds=120.0,
        capacity_type=CapacityType.SPOT if lives else CapacityType.ON_DEMAND,
        draw_lifetime=None if lives is None else lambda _: draw.expovariate(1.0 / (lives * 3600.0)),
        later_prices=tuple((day * DAY, Price.parse(f"{HOURLY * factor:.2f}")) for day, factor in steps),
    )


class Watch:
    """The planner; what it forecasts at the first plan after each of the days is put on record."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._forecasts: list[dict[int, Forecast]] = []
        self._period: Instant | None = None

    def plan(self, snapshot: Snapshot) -> Plan:
        planned = plan(snapshot, self._memo)
        ((budget, verdict),) = planned.budgets.items()
        balance = snapshot.budgets[budget].balance
        assert balance is not None
        if balance.period_start != self._period:
            self._period = balance.period_start
            self._forecasts.append({})
        if verdict.forecast is None:
            return planned
        days = seconds_between(balance.period_start, snapshot.now) / DAY
        for day in ASKED_ON:
            if day <= days:
                told = verdict.forecast
                expected, low, high = (amount.dollars for amount in (told.expected, told.low, told.high))
                self._forecasts[-1].setdefault(day, Forecast(expected, low, high))
        return planned

    def by_month(self, months: int) -> list[tuple[tuple[int, Forecast], ...]]:
        return [tuple(sorted(month.items())) for month in self._forecasts[:months]]


def _year(number: int, seed: int, months: int) -> list[Month]:
    return year(CASES[number], seed, months)


def main() -> None:
    """Run every case with every seed, and print the tables."""
    parser = options(__doc__, years=2)
    parser.add_argument("--months", type=int, default=MONTHS, help="months of each year, from January on (12)")
    arguments = parser.parse_args()
    print_tables(arguments, [case.name for case in CASES], partial(_year, months=arguments.months))


if __name__ == "__main__":
    main()
