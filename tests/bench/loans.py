"""Two teams under one amount:  python -m tests.bench.loans [--seeds 6]

The control law alone, as in ``tests.bench.budgets``. Each team has half of the amount, and in every other month a
fifth, or half, of its usual jobs come, while the other has more of them. Each keeps to its half; or what one is not
forecast to need is lent to the other, four times a day; or one budget pays for both. Prints what was spent of the
amount, months above it, and how long jobs took beside halves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from statistics import fmean

from rich.console import Console
from rich.table import Table

from charterer.domain.budget import Need, loans, net_loan
from charterer.domain.ids import BudgetId
from charterer.domain.money import Money
from charterer.domain.time import after, moment, month_bounds, seconds_between
from charterer.policy.budgets.forecast import PacingState
from charterer.policy.solve.hull import BudgetFit
from tests.bench.budgets import DAY, MONTHS, START, Case, World

STEP = DAY / 4
SWINGS = {"a fifth and 1.8 times": (0.2, 1.8), "half and 1.5 times": (0.5, 1.5), "always as many": (1.0, 1.0)}
WAYS = ("halves", "loans", "one budget")


class Team(World):
    """One team, whose time passes step by step; ``loan``: dollars by which it aims at more this month."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(case, seed)
        self.loan = 0.0
        self.hours = 0.0
        self.jobs = 0
        self.peak = sum(self.rate(job_class, 0.0) for job_class in self.classes) / case.load(0.0) * 2.0
        self.upcoming = self.draw.expovariate(self.peak)

    def account(self, now: float) -> PacingState:
        own = super().account(now)
        return PacingState(own.aim + self.loan, own.seconds, own.elapsed, own.spent, own.rate, own.left)

    def passes(self, now: float) -> None:
        """Jobs come and end until then."""
        while self.upcoming <= now:
            self._finish_until(self.upcoming)
            weights = [self.rate(job_class, self.upcoming) for job_class in self.classes]
            if self.draw.random() * self.peak < sum(weights):
                self._arrive(self.draw.choices(range(len(weights)), weights)[0], self.upcoming)
                self.hours += (self.running[-1].ends - self.upcoming) / 3_600.0
                self.jobs += 1
            self.upcoming += self.draw.expovariate(self.peak)
        self._finish_until(now)

    def need(self, name: str, now: float) -> Need:
        """Its month without loans."""
        self.loan = 0.0
        high = self.forecast(now).high
        plan = self.planned
        self.planned = None
        short = plan is not None and plan.solution.fit is not BudgetFit.SURPLUS
        known = None if plan is None else Money.of(high)
        spent = Money.of(self.spent(now) - self.month_began)
        return Need(BudgetId(name), Money.of(self.amount), spent, known, short)


def year(swing: str, way: str, seed: int) -> tuple[list[float], float]:
    """What was spent of the amount in each month, and the hours of a job."""
    teams = [Team(case, 2 * seed + number) for number, case in enumerate(_cases(swing, way))]
    names, now, shares = [f"team-{number}" for number in range(len(teams))], 0.0, []
    for _ in range(MONTHS):
        start, end = month_bounds("UTC", after(START, now + 1.0))
        now, until = seconds_between(START, start), seconds_between(START, end)
        for team in teams:
            team.month_began, team.planned = team.spent(now), None
        while now < until:
            if way == "loans":
                lent = loans([team.need(name, now) for name, team in zip(names, teams, strict=True)])
                for name, team in zip(names, teams, strict=True):
                    team.loan = net_loan(BudgetId(name), lent).dollars
            now = min(now + STEP, until)
            for team in teams:
                team.passes(now)
        spent = sum(team.spent(now) - team.month_began for team in teams)
        shares.append(spent / sum(team.amount for team in teams))
    return shares, sum(team.hours for team in teams) / sum(team.jobs for team in teams)


def _cases(swing: str, way: str) -> list[Case]:
    less, more = SWINGS[swing]
    if way == "one budget":
        return [Case("both", jobs_a_month=800, cv=1.5, load=lambda day: (less + more) / 2)]
    swings = ((less, more), (more, less))
    return [Case("team", jobs_a_month=400, cv=1.5, load=_turns(odd, even)) for odd, even in swings]


def _turns(odd: float, even: float) -> Callable[[float], float]:
    def load(day: float) -> float:
        start = month_bounds("UTC", after(START, day * DAY + 1.0))[0]
        return odd if moment(start).month % 2 else even

    return load


def main() -> None:
    """Run every case with every seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="years of each case (6)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    arguments = parser.parse_args()
    cases = list(product(SWINGS, WAYS, range(arguments.seeds)))
    with ProcessPoolExecutor(arguments.workers) as pool:
        years = dict(zip(cases, pool.map(year, *zip(*cases, strict=True)), strict=True))
    table = Table("jobs", "paid by", "spent of the amount", "months above 105 %", "hours of a job", "of halves")
    for swing, way in product(SWINGS, WAYS):
        of = [years[swing, way, seed] for seed in range(arguments.seeds)]
        halves = fmean(years[swing, WAYS[0], seed][1] for seed in range(arguments.seeds))
        months, hours = [share for shares, _ in of for share in shares], fmean(hours for _, hours in of)
        above = f"{100 * fmean(share > 1.05 for share in months):.0f} %"
        table.add_row(swing, way, f"{100 * fmean(months):.1f} %", above, f"{hours:.2f}", f"{hours / halves:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
