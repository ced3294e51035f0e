"""How a budget stands: what it spent, what it may spend, and what each group of its jobs is given for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from purser.domain.billing import spent
from purser.domain.budget import Budget
from purser.domain.ids import PoolId, Rate
from purser.domain.job import Job
from purser.domain.money import Money, Price
from purser.domain.option import Option
from purser.domain.period import period_bounds, period_end
from purser.domain.plan import BudgetVerdict, ClassVerdict
from purser.domain.rental import Rental
from purser.domain.snapshot import Snapshot
from purser.domain.time import Instant, seconds_between
from purser.policy.allowance import allowed_rate
from purser.policy.exchange_rate import Fit, solve
from purser.policy.hull import dollars, seconds
from purser.policy.load import Group, GroupKey, group_key, groups
from purser.policy.menu import Menus
from purser.policy.moves import Offers

OptionKey = tuple[PoolId, int, str]


def key_of(option: Option) -> OptionKey:
    """What makes two options the same way to run, whatever their price was when they were chosen."""
    return option.pool, option.gpus, option.variant


@dataclass(frozen=True, slots=True)
class Share:
    """What a group is given: ``option``, or ``wider`` with probability ``mix``.

    ``ranked``: its whole menu, best first at θ*. ``offers``: the same options as a running job looks at them.
    """

    group: Group
    option: Option
    wider: Option | None
    mix: float
    ranked: tuple[Option, ...]
    offers: Offers


@dataclass(frozen=True, slots=True)
class Standing:
    """One budget at one instant. ``allowed`` and ``planned`` are dollars a second; ``rate`` is θ*."""

    budget: Budget
    jobs: Sequence[Job]
    rentals: Sequence[Rental]
    spent: Money
    period_end: Instant
    allowed: float
    planned: float
    rate: Rate
    feasible: bool
    shares: Mapping[GroupKey, Share]
    keys: Mapping[str, GroupKey]

    def share(self, job: Job) -> Share | None:
        """What the job's group is given; None when nothing is on its menu."""
        return self.shares.get(self.keys[job.id])

    def classes(self) -> tuple[ClassVerdict, ...]:
        """The shares as they are reported."""
        return tuple(_class_verdict(self.budget, share) for share in self.shares.values())

    def verdict(self, committed: Money, now: Instant) -> BudgetVerdict:
        """The budget's verdict; what it cannot afford is not forecast to be spent."""
        left = max(seconds_between(now, self.period_end), 0.0)
        expected = self.spent.dollars + min(self.planned, max(self.allowed, 0.0)) * left
        return BudgetVerdict(
            rate=self.rate,
            planned=_hourly(self.planned),
            allowed=_hourly(self.allowed),
            feasible=self.feasible,
            spent=self.spent,
            committed=committed,
            forecast=Money(round(expected * 1_000_000)),
        )


def _hourly(rate: float) -> Price:
    return Price(round(rate * 3_600_000_000))


def _class_verdict(budget: Budget, share: Share) -> ClassVerdict:
    group = share.group
    level = next(k for k, option in enumerate(group.hull.options) if option is share.option)
    return ClassVerdict(
        budget=budget.id,
        class_id=group.class_id,
        arrivals_per_hour=group.arrivals_per_hour(level),
        mean_work=group.work,
        option=share.option,
        wider=share.wider,
        mix=share.mix,
    )


def rank(options: Sequence[Option], work: float, rate: Rate, weight: float) -> list[Option]:
    """Best first: by w·θ·a + m for this much work, ties to the cheaper, then by pool and width."""

    def total(option: Option) -> tuple[float, float, str, int]:
        cost = dollars(option, work)
        return weight * rate * seconds(option, work) + cost, cost, option.pool, option.gpus

    return sorted(options, key=total)


def _of_this_period(budget: Budget, now: Instant) -> Budget:
    """The budget without a balance that is of a period already over: for moments, until the new one is opened.

    Else last month's spend would be held against the new month, and jobs would be moved for it.
    """
    balance = budget.balance
    over = balance is not None and period_end(budget.time_zone, balance.period_start) <= now
    return replace(budget, balance=None) if over else budget


def stand(budget: Budget, jobs: Sequence[Job], rentals: Sequence[Rental], menus: Menus, snapshot: Snapshot) -> Standing:
    """Solve the budget's θ* for the load of its jobs."""
    now = snapshot.now
    period = period_bounds(budget.time_zone, now)
    used = spent(_of_this_period(budget, now), rentals, now)
    allowed = allowed_rate(budget.amount, used, period, now)
    found = groups(jobs, snapshot.profiles, menus, now, budget.id)
    solution = solve([group.demand() for group in found.values()], allowed)
    shares: dict[GroupKey, Share] = {}
    for at, (key, group) in enumerate(found.items()):
        level = solution.levels[at]
        corners = group.hull.options
        mixed = at == solution.mixed
        ranked = rank(group.menu.options, group.work, solution.rate, group.weight)
        shares[key] = Share(
            group=group,
            option=corners[level],
            wider=corners[level + 1] if mixed else None,
            mix=solution.mix if mixed else 0.0,
            ranked=tuple(ranked),
            offers=Offers(group.menu.options, solution.rate, group.weight, group.menu.restart_seconds),
        )
    return Standing(
        budget=budget,
        jobs=jobs,
        rentals=rentals,
        spent=used,
        period_end=period[1],
        allowed=allowed,
        planned=solution.spend,
        rate=solution.rate,
        feasible=solution.fit is not Fit.INFEASIBLE,
        shares=shares,
        keys={job.id: group_key(job, menus) for job in jobs},
    )
