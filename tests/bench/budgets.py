"""How well spend keeps to a budget over a year:  python -m tests.bench.budgets [--seeds 12] [--only steps]

``--period Week`` is for budgets of another period than the month.

A simulation of the control law alone, without nodes: jobs come (Poisson), each takes its class's option at the θ of its
arrival and keeps it, and costs accrue evenly over its life. What decides is the planner's own: ``arrivals``,
``reckon``'s κ, ``allowed_rate``, ``exchange_rate.solve``, ``forecast``, and the ledger's ``learn``. What a job really
takes follows the true curve; the planner believes another one. Sizes are lognormal and not known beforehand; a running
job's own progress tells what it has left once it has done a twentieth.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from math import exp, log, sqrt

from charterer.domain.budget import ClassHistory
from charterer.domain.ids import ClassId, PoolId
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.steps import CountedJob
from charterer.domain.time import Calendar, Instant, Period, after, parse_instant, seconds_between
from charterer.ledger.balance import learn
from charterer.policy.actions.admission.queue import next_in_queue
from charterer.policy.budgets.assignment import CostFactor, cost_factor, usual_squared_cv
from charterer.policy.budgets.demand import Arrivals, SeenJobs, expected_arrivals
from charterer.policy.budgets.forecast import Forecast, JobStream, PacingState, SpendBounds, allowed_rate, forecast
from charterer.policy.jobs.groups import NOTHING, CommittedCost
from charterer.policy.solve.hull import Demand, Hull, Solution, hull, solve
from tests.bench._years import ASKED_ON, Month, options, print_tables

START = parse_instant("2026-01-01T00:00:00Z")
MONTHS = 12
MONTHLY = Calendar("UTC")
DAY = 86_400.0
WIDTHS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
GPU_HOUR = Price.parse("2.00")
_ENTRY = 150.0
"""Seconds in which a node starts up and a job restarts."""
_MOVES_EVERY = 6 * 3_600.0
LOOKS_AGAIN = 1_800.0
"""Seconds for which a plan is kept: jobs that come closer together see the same θ."""


@dataclass(frozen=True)
class Case:
    """One world. ``believed``: factor on the exponents of the curves that the planner believes.

    ``load`` and ``price`` give the factors by day of the year. ``budget``: the amount as a multiple of what the jobs
    would cost on the middle of their hulls in its period. ``moves``: running jobs are resized too (``resizePolicy:
    Restart``), once in six hours at most.
    """

    name: str
    jobs_a_month: float = 1_000.0
    believed: float = 1.0
    cv: float = 1.5
    mean_hours: float = 12.0
    budget: float = 1.0
    load: Callable[[float], float] = lambda day: 1.0
    price: Callable[[float], float] = lambda day: 1.0
    moves: bool = False


def step_up(day: float) -> float:
    return 2.0 if day >= 130 else 1.0


def step_down(day: float) -> float:
    return 0.5 if day >= 130 else 1.0


def prices(day: float) -> float:
    return 1.3 if 100 <= day < 200 else 0.8 if day >= 200 else 1.0


def _week(day: float) -> float:
    return 0.3 if int(day) % 7 in (2, 3) else 1.28


DEAREST = 1e6
"""Dollars a second, above every price of a second here."""

CASES = (
    Case("right curves, 1,000 jobs a month"),
    Case("right curves, 4,000 jobs a month", jobs_a_month=4_000),
    Case("exponents x 0.85", believed=0.85),
    Case("exponents x 1.15", believed=1.15),
    Case("exponents x 1.3", believed=1.3),
    Case("load x 2 in May", load=step_up, budget=1.2),
    Case("load x 0.5 in May", load=step_down, budget=0.5),
    Case("prices x 1.3, then x 0.8", price=prices),
    Case("quiet weekends", load=_week),
    Case("days-long jobs (mean 4 d)", mean_hours=96.0, jobs_a_month=1_000),
    Case("300 jobs a month", jobs_a_month=300),
    Case("40 unequal jobs a month, never resized", jobs_a_month=40, cv=3.5, mean_hours=100.0, budget=0.6),
    Case("40 unequal jobs a month, resized", jobs_a_month=40, cv=3.5, mean_hours=100.0, budget=0.6, moves=True),
)


@dataclass
class _Class:
    """A class in the world: its truth, what is believed, and what is remembered."""

    id: ClassId
    exponent: float
    believed: float
    work: float
    share: float
    widths: dict[int, int] = field(default_factory=dict)
    experience: ClassHistory | None = None
    taken: list[int] = field(default_factory=lambda: [0, 0])
    hull: Hull | None = None
    priced: float = 0.0

    def menu(self, factor: float) -> Hull:
        """The hull of what is believed, at today's price."""
        if self.hull is None or self.priced != factor:
            options = [
                Option(PoolId("gpu"), width, width**self.believed, _price(width, factor), _ENTRY, _entry(width, factor))
                for width in WIDTHS
            ]
            self.hull, self.priced = hull(options, self.work), factor
        return self.hull


def _price(width: int, factor: float) -> Price:
    return Price(round(GPU_HOUR.micros_per_hour * width * factor))


def _entry(width: int, factor: float) -> Money:
    return _price(width, factor).cost(round(_ENTRY))


@dataclass
class _Job:
    """A job under way. ``banked``: dollars before its last move; ``since`` then it costs ``rate`` until it ends."""

    of: _Class
    begins: float
    work: float
    predicted: float
    width: int = 0
    since: float = 0.0
    ends: float = 0.0
    rate: float = 0.0
    banked: float = 0.0

    def takes(self, option: Option, now: float) -> None:
        """Go on with another option; entering it costs its start-up at first, and a restart later."""
        if self.width:
            self.banked += self.rate * (now - self.since)
            trained = max(now - self.since - _ENTRY, 0.0)
            self.work = max(self.work - trained * self.width**self.of.exponent, 0.0)
        self.width, self.since = option.gpus, now
        self.rate = option.price.dollars_per_second
        self.ends = now + _ENTRY + self.work / option.gpus**self.of.exponent

    def spent(self, now: float) -> float:
        return self.banked + self.rate * (min(now, self.ends) - self.since)

    def size_known(self, now: float) -> bool:
        """Whether its own progress says what it has left."""
        return now - self.begins >= 0.05 * (self.ends - self.begins)

    def committed(self, now: float, prior: float) -> CommittedCost:
        spent = self.spent(now)
        left = self.rate * (self.ends - now) if self.size_known(now) else max(self.predicted * prior - spent, 0.0)
        return CommittedCost(1, self.predicted, spent + left, left, left * left)


@dataclass(frozen=True)
class _Plan:
    at: float
    solution: Solution
    demands: list[Demand]
    cost_factors: list[CostFactor]
    money: PacingState


class World:
    """A year of one case, by the periods of a calendar."""

    def __init__(self, case: Case, seed: int, calendar: Calendar = MONTHLY) -> None:
        self.case = case
        self.calendar = calendar
        self.draw = random.Random(seed)
        self.classes = [
            _Class(
                ClassId("team", str(number)),
                exponent,
                min(exponent * case.believed, 0.99),
                case.mean_hours * 3600 * (0.3 + 1.4 * number / 7),
                1 / 8,
            )
            for number, exponent in enumerate((0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.7))
        ]
        self.running: list[_Job] = []
        self.ends: list[tuple[float, int, _Job]] = []
        self.done = 0.0
        self.month_began = 0.0
        self.past: list[float] = []
        self.planned: _Plan | None = None
        middle = sum(
            job_class.share * case.jobs_a_month * exact.money[len(exact.money) // 2]
            for job_class in self.classes
            for exact in [_Class(job_class.id, job_class.exponent, job_class.exponent, job_class.work, 1.0).menu(1.0)]
        )
        self.amount = case.budget * middle * calendar.usual_seconds / MONTHLY.usual_seconds

    # --- the planner's part ---

    def account(self, now: float) -> PacingState:
        began, ends = self.period(now)
        left = 0.0
        for class_ in self.classes:
            factor = cost_factor(class_.experience).value
            left += sum(job.committed(now, factor).left for job in self.running if job.of is class_)
        return PacingState(
            aim=self.aim(now),
            seconds=ends - began,
            elapsed=now - began,
            spent=self.spent(now) - self.month_began,
            rate=sum(job.rate for job in self.running),
            left=left,
        )

    def period(self, now: float) -> tuple[float, float]:
        """When the period of ``now`` begins and ends; the first one begins with the year."""
        start, end = self.calendar.bounds(after(START, now))
        return max(seconds_between(START, start), 0.0), seconds_between(START, end)

    def aim(self, now: float) -> float:
        """The amount; in the first period its part of it."""
        began, ends = self.period(now)
        return self.amount * (ends - began) / seconds_between(*self.calendar.bounds(after(START, now)))

    def spent(self, now: float) -> float:
        return self.done + sum(job.spent(now) for job in self.running)

    def plan(self, now: float, arriving: int | None = None) -> _Plan:
        if self.planned is not None and now < self.planned.at + LOOKS_AGAIN:
            return self.planned
        at, price = after(START, now), self.case.price(now / DAY)
        demands, cost_factors = [], []
        usual_variation = usual_squared_cv(
            job_class.experience for job_class in self.classes if job_class.experience is not None
        )
        money, came = self.account(now), self.arrivals(at)
        for number, job_class in enumerate(self.classes):
            menu = job_class.menu(price)
            under_way = [job for job in self.running if job.of is job_class]
            factor = cost_factor(job_class.experience)
            learned = cost_factor(
                job_class.experience,
                sum((job.committed(now, factor.value) for job in under_way), NOTHING),
                usual_variation,
            )
            life = min(menu.seconds[len(menu.seconds) // 2], money.horizon)
            coming = came.of(job_class.id) * (1.0 - life / 2.0 / money.horizon) * learned.value
            left = sum(max(job.ends - now, 0.0) / (job.ends - job.begins) for job in under_way)
            standing = (left + (number == arriving)) / money.horizon
            demands.append(Demand(menu.slopes, menu.money, coming + standing, 1.0, DEAREST))
            cost_factors.append(learned)
        new_plan = _Plan(now, solve(demands, allowed_rate(money)), demands, cost_factors, money)
        self.planned = new_plan if came.counted else None
        if self.case.moves:
            self._move(new_plan, now)
        return new_plan

    def _move(self, plan: _Plan, now: float) -> None:
        for number, job_class in enumerate(self.classes):
            option = job_class.menu(job_class.priced).paths[plan.solution.levels[number]][0]
            for job in self.running:
                lasting = min(now - job.since, job.ends - now) > _MOVES_EVERY
                if job.of is job_class and lasting and job.width != option.gpus:
                    job.takes(option, now)
                    heappush(self.ends, (job.ends, id(job), job))

    def arrivals(self, at: Instant) -> Arrivals:
        seen = {
            job_class.id: SeenJobs(
                job_class.experience, [after(START, job.begins) for job in self.running if job.of is job_class]
            )
            for job_class in self.classes
        }
        cheapest = sum(job_class.share * job_class.menu(job_class.priced).money[0] for job_class in self.classes)
        return expected_arrivals(self.amount, self.calendar.usual_seconds, START, seen, cheapest, at)

    def forecast(self, now: float) -> Forecast:
        self.planned = None
        plan = self.plan(now)
        solution, money = plan.solution, plan.money
        streams, spread, came = [], 0.0, self.arrivals(after(START, now))
        for number, (job_class, learned) in enumerate(zip(self.classes, plan.cost_factors, strict=True)):
            menu, level = job_class.menu(job_class.priced), solution.levels[number]
            mix = solution.mix if number == solution.mixed else 0.0
            under_way = [job for job in self.running if job.of is job_class]
            factor = cost_factor(job_class.experience).value
            spread += sum(
                learned.squared_cv * job.committed(now, factor).left ** 2
                for job in under_way
                if not job.size_known(now)
            )
            dollars = menu.money[level] + mix * (menu.money[min(level + 1, len(menu.money) - 1)] - menu.money[level])
            seconds = menu.seconds[level] * learned.value
            streams.append(
                JobStream(
                    came.of(job_class.id),
                    dollars * learned.value,
                    seconds,
                    learned.squared_cv,
                    came.jobs,
                    learned.error,
                )
            )
        most = sum(demand.load * demand.spends[-1] for demand in plan.demands)
        return forecast(money, streams, SpendBounds(most), sqrt(spread), self.past)

    # --- the world's part ---

    def rate(self, job_class: _Class, now: float) -> float:
        return job_class.share * self.case.jobs_a_month / (30 * DAY) * self.case.load(now / DAY)

    def _finish_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            ends, _, job = heappop(self.ends)
            if ends != job.ends:
                continue  # it moved
            self.running.remove(job)
            dollars = job.spent(job.ends)
            self.done += dollars
            began, finished = after(START, job.begins), after(START, job.ends)
            actual, predicted = Money.of(dollars), Money.of(job.predicted)
            job.of.experience = learn(job.of.experience, CountedJob("", job.of.id, predicted, actual, began, finished))

    def _arrive(self, number: int, now: float) -> None:
        job_class = self.classes[number]
        solution = self.plan(now, number).solution
        level = solution.levels[number]
        if number == solution.mixed:
            wider = next_in_queue({0: 1.0 - solution.mix, 1: solution.mix}, dict(enumerate(job_class.taken)))
            job_class.taken[wider] += 1
            level += wider
        menu = job_class.menu(job_class.priced)
        option = menu.paths[level][0]
        sigma = sqrt(log(1 + self.case.cv**2))
        work = job_class.work * exp(self.draw.gauss(-sigma * sigma / 2, sigma))
        job = _Job(job_class, now, work, menu.money[level])
        job.takes(option, now)
        self.running.append(job)
        heappush(self.ends, (job.ends, id(job), job))

    def run(self) -> Iterator[Month]:
        """The year, period by period."""
        peak = 2.0
        total = sum(self.rate(job_class, 0.0) for job_class in self.classes) / self.case.load(0.0) * peak
        now, month_end = 0.0, 0.0
        upcoming = self.draw.expovariate(total)
        while month_end < 365 * DAY:
            began, month_end = self.period(month_end + 1.0)
            aim = self.aim(began + 1.0)
            self.month_began = self.spent(began)
            self.planned = None
            asked: list[tuple[int, Forecast]] = []
            marks = [mark for day in ASKED_ON if (mark := began + day * DAY) < month_end]
            while True:
                mark = marks[0] if marks else month_end
                now = min(upcoming, mark)
                self._finish_until(now)
                if now == mark:
                    if not marks:
                        break
                    asked.append((round((marks.pop(0) - began) / DAY), self.forecast(now)))
                    continue
                weights = [self.rate(job_class, now) for job_class in self.classes]
                if self.draw.random() * total < sum(weights):
                    self._arrive(self.draw.choices(range(len(weights)), weights)[0], now)
                upcoming = now + self.draw.expovariate(total)
            spend = self.spent(month_end) - self.month_began
            self.past.append(spend / aim)
            yield Month(spend, tuple(asked), aim)


def year(case: Case, seed: int, period: str = "Month") -> list[Month]:
    """One case with one seed."""
    return list(World(case, seed, Calendar("UTC", Period(period))).run())


def main() -> None:
    """Run every case with every seed in parallel processes, and print the tables."""
    parser = options(__doc__, years=12)
    parser.add_argument("--period", choices=[*Period][:4], default="Month", help="of the budget (Month)")
    arguments = parser.parse_args()
    print_tables(arguments, [case.name for case in CASES], partial(_year, period=arguments.period))


def _year(number: int, seed: int, period: str) -> list[Month]:
    return year(CASES[number], seed, period)


if __name__ == "__main__":
    main()
