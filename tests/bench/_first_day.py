"""A budget's first day by the law alone: dollars above a fixed exchange rate at the same mean completion time.

Jobs of six classes with power-law curves and lognormal sizes (c = 1.5) that a job's reports tell once a twentieth is
done. Each takes its class's option at the θ of its arrival, and keeps it; θ is planned every ten minutes at most, by
the planner's own functions. The month's amount is for a load that goes on as on this day. Nodes, waits and moves are
not in it: what is lost is lost because θ changes while the load becomes known.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import cast

from charterer.domain.budget import NO_SHARE, OPENING_SECONDS, ClassHistory
from charterer.domain.ids import ClassId, PoolId, Rate
from charterer.domain.money import Money, Price
from charterer.domain.option import Option
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.reports import TRUSTED_FRACTION
from charterer.domain.steps import CountedJob
from charterer.domain.time import Calendar, after, parse_instant
from charterer.ledger.balance import learn
from charterer.policy.budgets.assignment import CostCalibration
from charterer.policy.budgets.demand import Arrivals, BudgetLoad, GroupDemand, SeenJobs, expected_arrivals
from charterer.policy.budgets.forecast import PacingState, allowed_rate
from charterer.policy.budgets.solution import solve_for_plausible_loads
from charterer.policy.jobs.job_facts import GroupKey
from charterer.policy.options.market import MenuKey
from charterer.policy.options.menu import Menu
from charterer.policy.solve.hull import Hull, Solution, hull
from tests.bench._pollux import at_hours

START = parse_instant("2026-01-01T00:00:00Z")
DAY, _DAYS = 86_400.0, 31
CLASSES = {"a": (0.55, 0.5), "b": (0.65, 0.75), "c": (0.7, 1.0), "d": (0.75, 1.0), "e": (0.8, 1.25), "f": (0.85, 1.5)}
"""By name: the exponent of the speed, and the mean hours of a job on one GPU."""
KINDS = ("steady", "a third waits at first", "ten at a time", "none after noon")
_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_GPU_HOUR = 2.0
_ENTRY = 150.0
"""Seconds in which a node starts up and a job restarts."""
_CV = 1.5
_CEILING = Rate(50.0 / 3600.0)
_EVERY = 600.0
_CERTAIN = 1e9
"""Batches after which nothing about the rate of arrivals is left to know."""
_NO_MENU = cast(Menu, None)
"""The hull and the ceiling are given."""
_KNOWN = CostCalibration({}, 1.0, False, 0.0, 0.0, 0.0)
"""Jobs cost what is predicted."""


@dataclass(frozen=True, slots=True)
class Coming:
    """A job: when it comes (seconds), its class, and its work as a multiple of the class's mean."""

    at: float
    name: str
    size: float


@dataclass(frozen=True, slots=True)
class _Running:
    job: Coming
    seconds: float
    dollars: float
    predicted: float

    @property
    def ends(self) -> float:
        return self.job.at + self.seconds

    def done(self, now: float) -> float:
        return (now - self.job.at) / self.seconds


def hulls() -> Mapping[str, Hull]:
    """Of each class."""
    found = {}
    for name, (exponent, hours) in CLASSES.items():
        prices = {width: Price.parse(f"{_GPU_HOUR * width:.2f}") for width in _WIDTHS}
        options = [
            Option(PoolId("gpu"), width, width**exponent, price, _ENTRY, price.cost(round(_ENTRY)))
            for width, price in prices.items()
        ]
        found[name] = hull(options, hours * 3600.0)
    return found


def jobs(kind: str, a_day: float, seed: int) -> Sequence[Coming]:
    """Those of a day."""
    draw, found, at = random.Random(seed), list[Coming](), 0.0
    sigma = sqrt(log(1.0 + _CV**2))

    def job(when: float) -> Coming:
        return Coming(when, draw.choice(list(CLASSES)), exp(draw.gauss(-sigma * sigma / 2.0, sigma)))

    if kind == KINDS[1]:
        found += [job(0.0) for _ in range(int(a_day / 3))]
    together = 10 if kind == KINDS[2] else 1
    while (at := at + draw.expovariate(a_day / together / DAY)) <= DAY:
        if kind != KINDS[3] or at <= DAY / 2:
            found += [job(at + 20.0 * number) for number in range(together)]
    return sorted(found, key=lambda job: (job.at, job.name, job.size))


@dataclass
class FirstDay:
    """A day's jobs for a month's ``amount``. ``declared``: jobs a second, where that is known."""

    menus: Mapping[str, Hull]
    amount: float
    declared: float | None = None
    running: list[_Running] = field(default_factory=list, init=False)
    history: dict[str, ClassHistory] = field(default_factory=dict, init=False)
    paid: float = field(default=0.0, init=False)

    def run(self, coming: Sequence[Coming]) -> tuple[float, float]:
        """Mean seconds of a job, and the dollars of all."""
        planned, solution, order = -_EVERY, None, list[str]()
        seconds = dollars = 0.0
        for job in coming:
            self._finish(job.at)
            if solution is None or job.at >= planned + _EVERY:
                planned, (solution, order) = job.at, self._plan(job)
            took, cost = self._chosen(job.name, solution, order)
            level = self._level(job.name, solution, order)
            taken = _Running(job, took * job.size, cost * job.size, self.menus[job.name].money[level])
            self.running.append(taken)
            seconds, dollars = seconds + taken.seconds, dollars + taken.dollars
        return seconds / len(coming), dollars

    def _finish(self, now: float) -> None:
        for over in [each for each in self.running if each.ends <= now]:
            self.running.remove(over)
            self.paid += over.dollars
            name, at = over.job.name, over.job.at
            counted = CountedJob(
                "",
                ClassId("team", name),
                Money.of(over.predicted),
                Money.of(over.dollars),
                after(START, at),
                after(START, over.ends),
                opening=at <= OPENING_SECONDS,
            )
            self.history[name] = learn(self.history.get(name), counted)

    def _plan(self, arriving: Coming) -> tuple[Solution, list[str]]:
        """The solution with the job that arrives, and the order of its classes."""
        now = arriving.at
        spent = self.paid + sum(each.dollars * each.done(now) for each in self.running)
        pacing = PacingState(self.amount, _DAYS * DAY, now, spent)
        present = {each.job.name for each in self.running} | {arriving.name} | self.history.keys()
        names = [name for name in CLASSES if self.declared is not None or name in present]
        came = self._arrivals(arriving, [name for name in names if name in present])
        groups = {_key(name): self._group(name, arriving, came, pacing.horizon) for name in names}
        return solve_for_plausible_loads(BudgetLoad(groups, came), _KNOWN, pacing.horizon, allowed_rate(pacing)), names

    def _arrivals(self, arriving: Coming, names: Sequence[str]) -> Arrivals:
        if self.declared is not None:
            parts = {_class(name): 1 / len(CLASSES) for name in CLASSES}
            return Arrivals(self.declared, parts, _CERTAIN, 1.0, counted=True, opening=0, seen=self.declared)
        there = [each.job for each in self.running] + [arriving]
        seen = {
            _class(name): SeenJobs(self.history.get(name), [after(START, job.at) for job in there if job.name == name])
            for name in names
        }
        now = after(START, arriving.at)
        counts = {name: seen[_class(name)].count(now) for name in names}
        usual = sum(count * self.menus[name].money[0] for name, count in counts.items()) / sum(counts.values())
        return expected_arrivals(self.amount, Calendar("UTC").usual_seconds, START, seen, usual, now)

    def _group(self, name: str, arriving: Coming, came: Arrivals, horizon: float) -> GroupDemand:
        mine = [each for each in self.running if each.job.name == name]
        done = [(each, each.done(arriving.at)) for each in mine]
        left = sum((1.0 - part) * (each.job.size if part >= TRUSTED_FRACTION else 1.0) for each, part in done)
        menu = self.menus[name]
        counted = ArrivalsBasis.COUNTED if came.counted else ArrivalsBasis.ASSUMED
        return GroupDemand(
            class_id=_class(name),
            weight=1.0,
            menu=_NO_MENU,
            frontier=lambda: menu,
            work=CLASSES[name][1] * 3600.0,
            active=len(mine) + (name == arriving.name),
            arrivals=came.of(_class(name)),
            in_sight=left + (name == arriving.name),
            horizon=horizon,
            basis=counted if self.declared is None else ArrivalsBasis.DECLARED,
            ceiling=_CEILING,
        )

    def _level(self, name: str, solution: Solution, order: Sequence[str]) -> int:
        if name in order:
            return solution.levels[order.index(name)]
        return bisect_right(self.menus[name].slopes, solution.rate)

    def _chosen(self, name: str, solution: Solution, order: Sequence[str]) -> tuple[float, float]:
        """Seconds and dollars of a job of the mean size; of the mixed class as the mix."""
        menu, level = self.menus[name], self._level(name, solution, order)
        seconds, dollars = menu.seconds[level], menu.money[level]
        if solution.mixed is not None and name in order and order.index(name) == solution.mixed:
            seconds += solution.mix * (menu.seconds[level + 1] - seconds)
            dollars += solution.mix * (menu.money[level + 1] - dollars)
        return seconds, dollars


def _class(name: str) -> ClassId:
    return ClassId("team", name)


def _key(name: str) -> GroupKey:
    return GroupKey(_class(name), MenuKey(_class(name), 1, 1, _WIDTHS[-1]), 1.0, NO_SHARE)


def excess(kind: str, a_day: float, multiple: float, seed: int, *, declared: bool = False) -> float | None:
    """Percent of dollars above a fixed θ at the same mean time; None beyond the fastest or slowest one.

    ``multiple``: the month's amount ÷ what the jobs would cost on one GPU each.
    """
    menus, coming = hulls(), jobs(kind, a_day, seed)
    in_a_day = a_day / 2.0 if kind == KINDS[3] else a_day
    amount = multiple * _DAYS * in_a_day * sum(menu.money[0] for menu in menus.values()) / len(menus)
    mean, dollars = FirstDay(menus, amount, in_a_day / DAY if declared else None).run(coming)
    fixed = at_hours([_at(menus, coming, 0.05 * 1.15**step / 3600.0) for step in range(60)], mean)
    return None if fixed is None else 100.0 * (dollars / fixed - 1.0)


def _at(menus: Mapping[str, Hull], coming: Sequence[Coming], theta: float) -> tuple[float, float]:
    """Mean seconds and dollars at a fixed θ."""
    levels = {name: bisect_right(menu.slopes, theta) for name, menu in menus.items()}
    seconds = sum(menus[job.name].seconds[levels[job.name]] * job.size for job in coming) / len(coming)
    return seconds, sum(menus[job.name].money[levels[job.name]] * job.size for job in coming)
