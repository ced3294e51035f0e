"""The load on a budget: its jobs in groups that choose alike, the work that these jobs have left, and the rate at
which more jobs arrive.

A group has one class, one menu and one weight. Its load has two parts (docs/theory/policy.md, section 5). The
exchange rate is solved so that the loads of all groups cost what the budget has over the horizon H (``forecast``):

- The jobs in sight, running and waiting, are a stock: their remaining work, in jobs of the mean size, spread over H.
- The jobs to come arrive at λ a second. λ is the rate that was seen, or the rate that the profile declares, as far as
  the jobs seen confirm it. Jobs that arrive shortly before the end of H count only with their cost before that end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import inf, log

from charterer.domain.budget import (
    HISTORY_HALF_LIFE_SECONDS,
    NO_SHARE,
    OPENING_SECONDS,
    WEEK_SECONDS,
    Balance,
    Budget,
    ClassHistory,
    decay,
)
from charterer.domain.ids import ClassId, Rate
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.profile import Profile
from charterer.domain.time import Instant, seconds_between
from charterer.incremental import Remember, directly
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.jobs.job_facts import GroupKey
from charterer.policy.options.market import MenuKey
from charterer.policy.options.menu import Menu, Menus
from charterer.policy.solve.hull import Demand, Hull

# The rate at which a budget's jobs arrive, from its first job on. No exchange rate changes this rate.
#
# Finished jobs are in the budget's history (``ledger.balance``), and all other jobs are in sight. Each job counts once.
# Jobs are assumed to arrive by a Poisson process whose rate drifts. So counts decay, and the rate has a Gamma posterior
# (discounted conjugate updating: Harvey and Fernandes 1989). The first prior is the load for which the owner's amount
# was made. Counts whose weights halve in a month give the usual rate. The usual rate is the prior of the rate from
# counts whose weights halve in a week:
#
#   λ₀  = max(amount / (R₀·m) − opening, a quarter of amount / (R₀·m)) / the period     m: mean dollars of a job
#   λ_m = (a₀·s + S_m) / (a₀·s / λ₀ + E_m)
#   λ   = (n₀·s + S_w) / (n₀·s / λ_m + E_w)     after the first day; λ_m before
#
# m is the cost at the cheapest width, in a pool that is no cheaper than usual (``options.menu``), because a cheap pool
# that is added does not mean that more jobs arrive. The bound of what a job's time is worth is computed in the same
# way.
#
# S are decayed counts, and E is the decayed time since the budget was created. The jobs of the budget's first hour are
# its opening: they waited for the budget, and are in no count. Jobs that arrive together are one event: e batches were
# seen, of s jobs each. So a sweep of twenty jobs does not count as a load of twenty jobs an hour.
#
# Each class's part of λ is its part of the jobs seen, whatever became of these jobs.


PRIOR_BATCHES = 5.0
"""a₀ = n₀: weight, in batches, of the owner's amount against the month's count, and of the month's count against the
week's."""
AMOUNT_FACTOR = 2.0
"""R₀: the assumed ratio of the owner's amount to the least cost of the load that the amount was made for. In simulated
months, ratios of 1.5 and 4 were as good. An owner who knows better declares how many jobs arrive
(``arrivalsPerHour``)."""
BATCH_SECONDS = 3_600.0
"""Jobs that come within this time of a batch's first job belong to that batch."""
HISTORY_BATCHES = 10
"""Number of batches from which on a rate counts as measured and no longer as assumed, once the budget is a day
old."""
_DAY = 86_400.0
_LEAST_PART = 0.25
"""Least fraction of λ₀ that remains after the opening is subtracted, however large the opening is."""


@dataclass(frozen=True)
class SeenJobs:
    """The jobs of one class that were seen: the class's history, and the arrivals of jobs that the history does not
    include."""

    known: ClassHistory | None
    created: Sequence[Instant]

    def count(self, now: Instant) -> float:
        """Number of jobs, with weights that halve in a month."""
        before = 0.0 if self.known is None else self.known.aged(now).arrivals
        if not self.created:
            return before
        if now < max(self.created):
            return before + _faded(_ages(self.created, now), HISTORY_HALF_LIFE_SECONDS)
        last, count = self._at_last
        return before + count * decay(seconds_between(last, now), HISTORY_HALF_LIFE_SECONDS)

    @cached_property
    def _at_last(self) -> tuple[Instant, float]:
        """When the last job arrived, and the decayed number of jobs at that instant. After it, the weights of all
        jobs decay alike."""
        last = max(self.created)
        return last, _faded(_ages(self.created, last), HISTORY_HALF_LIFE_SECONDS)


@dataclass(frozen=True, slots=True)
class Came:
    """The jobs of all classes that arrived after a budget's opening. All numbers are as of ``last``, the arrival of the
    last job.

    ``opening``: number of jobs that arrived during the opening, which is the budget's first hour.
    ``month``, ``week``: number of jobs with weights that halve in that time.
    ``batches``: number of batches in which the jobs arrived.
    """

    last: Instant
    opening: int
    jobs: int
    month: float
    week: float
    batches: int

    @classmethod
    def of(cls, opened: Instant, seen: Sequence[SeenJobs], now: Instant | None = None) -> Came:
        """The jobs of a budget that was created at ``opened``. Jobs that arrived after ``now`` count as if they had
        arrived at ``now``."""
        created = sorted([at if now is None else min(at, now) for jobs in seen for at in jobs.created])
        came = [at for at in created if seconds_between(opened, at) > OPENING_SECONDS]
        last = created[-1] if created else opened
        ages = _ages(came, last)
        month, week = _faded(ages, HISTORY_HALF_LIFE_SECONDS), _faded(ages, WEEK_SECONDS)
        return cls(last, len(created) - len(came), len(came), month, week, _batches(ages))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The rate at which a budget's jobs arrive.

    ``rate``: jobs a second of all classes.
    ``parts``: for each class, its fraction of ``rate``.
    ``batches``: number of batches that were seen.
    ``jobs``: number of batches behind the rate, including those of the prior.
    ``counted``: whether the rate was measured, and not assumed.
    ``opening``: number of jobs in sight that arrived in the budget's first hour.
    ``seen``: jobs a second in the last week, without any prior.
    """

    rate: float
    parts: Mapping[ClassId, float]
    batches: float
    jobs: float
    counted: bool
    opening: int
    seen: float

    def of(self, class_id: ClassId) -> float:
        """Jobs a second of one class."""
        return self.rate * self.parts.get(class_id, 0.0)


@dataclass(frozen=True, slots=True)
class SeenLately:
    """``jobs``: jobs seen, with weights that halve in a week. ``elapsed``: seconds since the first of them."""

    jobs: float
    elapsed: float

    def rate(self, least_seconds: float) -> float:
        """Jobs a second. The time since the first job counts as at least ``least_seconds``, and as at least a
        second."""
        return self.jobs / _exposure(max(self.elapsed, least_seconds, 1.0), WEEK_SECONDS)


def expected_arrivals(
    amount: float,
    period_seconds: float,
    opened: Instant,
    seen: Mapping[ClassId, SeenJobs],
    usual: float,
    now: Instant,
    remember: Remember = directly,
) -> Arrivals:
    """The arrivals of a budget's classes.

    ``amount``: dollars for ``period_seconds``; 0 if the amount says nothing about the load. ``opened``: when the
    budget was created. ``usual``: m, dollars.
    """
    age = max(seconds_between(opened, now), 1.0)
    came = remember(Came.of, opened, tuple(seen.values()))
    if now < came.last:
        came = Came.of(opened, tuple(seen.values()), now)
    since = seconds_between(came.last, now)
    histories = [jobs.known.aged(now) for jobs in seen.values() if jobs.known is not None]
    month = came.month * decay(since, HISTORY_HALF_LIFE_SECONDS) + sum(history.arrivals for history in histories)
    week = came.week * decay(since, WEEK_SECONDS) + sum(history.recent_arrivals for history in histories)
    size = came.jobs / came.batches if came.jobs else 1.0
    batches = max(float(came.batches), month / size)
    prior = PRIOR_BATCHES * size
    owner = _owners_rate(amount, period_seconds, usual, came.opening)
    monthly = _posterior(prior, owner, month, _exposure(age, HISTORY_HALF_LIFE_SECONDS))
    rate = monthly if age < _DAY else _posterior(prior, monthly, week, _exposure(age, WEEK_SECONDS))
    counts = {class_id: jobs.count(now) for class_id, jobs in seen.items()}
    whole = sum(counts.values())
    return Arrivals(
        rate=rate,
        parts={class_id: count / whole for class_id, count in counts.items()} if whole else {},
        batches=batches,
        jobs=PRIOR_BATCHES + batches,
        counted=batches >= HISTORY_BATCHES and age >= _DAY,
        opening=came.opening,
        seen=week / _exposure(age, WEEK_SECONDS),
    )


def seen_lately(known: ClassHistory | None, created: Sequence[Instant], now: Instant) -> SeenLately | None:
    """The arrivals of a class that were seen; None if the class never had a job."""
    begun = [*created] if known is None or not known.arrivals else [known.since, *created]
    if not begun:
        return None
    week = _faded(_ages(created, now), WEEK_SECONDS) + (0.0 if known is None else known.aged(now).recent_arrivals)
    return SeenLately(week, max(seconds_between(min(begun), now), 0.0))


def _batches(ages: Sequence[float]) -> int:
    """Number of batches of jobs of these ages, the oldest first."""
    number, first = 0, inf
    for age in ages:
        if first - age > BATCH_SECONDS:
            number, first = number + 1, age
    return number


def _owners_rate(amount: float, period_seconds: float, usual: float, opening: int) -> float:
    """λ₀: jobs a second that the owner's amount was probably made for."""
    if usual <= 0.0:
        return 0.0
    meant = max(amount, 0.0) / (AMOUNT_FACTOR * usual)
    return max(meant - opening, _LEAST_PART * meant) / period_seconds


def _posterior(prior_jobs: float, prior_rate: float, jobs: float, seconds: float) -> float:
    """Jobs a second, from a prior and ``jobs`` seen in ``seconds``. Without a prior, the jobs seen alone count."""
    if prior_rate <= 0.0:
        return jobs / seconds
    return (prior_jobs + jobs) / (prior_jobs / prior_rate + seconds)


def _ages(created: Sequence[Instant], now: Instant) -> list[float]:
    return [max(seconds_between(at, now), 0.0) for at in created]


def _faded(ages: Sequence[float], half_life: float) -> float:
    return sum([decay(age, half_life) for age in ages])


def _exposure(elapsed: float, half_life: float) -> float:
    """Seconds in ``elapsed``, with weights that decay like those of counts."""
    return half_life / log(2.0) * (1.0 - decay(elapsed, half_life))


# A declared load counts only as far as the jobs of its class confirm it.
#
# A declaration costs nothing. Everybody who may write a SpeedupProfile could declare a load that takes a whole budget
# from all other classes. So ``arrivalsPerHour`` and ``meanWork`` count only up to a bound:
#
# - Arrivals count up to ``SEEN_FACTOR`` times as many as were seen, with weights that halve in a week. So a class whose
#   jobs no longer arrive no longer counts, and a class of which no job was seen does not count at all. Jobs that never
#   wanted GPUs (suspended, refused) are not seen.
# - Work counts up to ``SEEN_FACTOR`` times the dollars of the dearest job that was seen (for a job in sight: its cost
#   so far), and at least up to the dollars of ``PRIOR_SECONDS`` on the cheapest path.
#
# Jobs in sight count anyway, with their remaining work. So whatever a class declares, it counts with at most about
# five times the cost of its own jobs. Many classes of one namespace count with no more than the same multiple of all
# their jobs.


SEEN_FACTOR = 2.0
"""A declared number counts up to this multiple of what was seen, because jobs that arrive at random often arrive
twice as fast for a while."""
MOST_UNSEEN_SECONDS = 600.0
"""Upper bound, in seconds, of the least time over which arrivals count as seen. This least time is the length of a
job on its cheapest path, or ten minutes if the path takes longer. So a job that has just arrived suggests one job in
every such time. A declared load counts little more than the jobs in sight in its first minutes, however short its
jobs are."""
PRIOR_SECONDS = 300.0
"""Length of a job on its cheapest path, in seconds, that is believed before any job of its class has cost
anything."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was observed of a class, regardless of what it declares. ``dearest``: dollars of the dearest job that was
    seen."""

    seen: SeenLately | None
    dearest: float


def evidence(
    groups: Iterable[JobGroup], known: ClassHistory | None, created: Sequence[Instant], now: Instant
) -> Evidence:
    """The evidence for one class. ``groups``: its groups. ``created``: the arrivals of jobs that the class's history
    does not include."""
    return Evidence(seen_lately(known, created, now), _dearest_job(groups, known, now))


def believed_arrivals(seen: SeenLately, hull: Hull) -> float:
    """The most jobs a second that are believed of a class. ``hull``: the hull of one of its jobs."""
    return SEEN_FACTOR * seen.rate(min(hull.seconds[0], MOST_UNSEEN_SECONDS))


def _dearest_job(groups: Iterable[JobGroup], known: ClassHistory | None, now: Instant) -> float:
    """Dollars of the dearest job of a class so far, or of the mean job in its history if that cost more."""
    in_sight = max([facts.spent(now) for group in groups for facts in group.members], default=0.0)
    return max(in_sight, known.actual / known.jobs if known is not None and known.jobs else 0.0)


def believed_work(hull: Hull, dearest: float) -> float:
    """The fraction of a job's declared work that counts.

    ``hull``: the hull of a job with the declared work. ``dearest``: dollars of the dearest job that was seen.
    """
    cheapest = hull.money[0]
    believed = SEEN_FACTOR * dearest + PRIOR_SECONDS * hull.rates[0]
    return min(believed / cheapest, 1.0) if cheapest > 0.0 else 1.0


DEFAULT_WORK_SECONDS = 4 * 3600.0
"""Mean work, in seconds of the reference option, of a class whose profile does not declare it and whose jobs do not
report it."""


@dataclass(frozen=True, slots=True)
class GroupDemand:
    """The load of jobs of one budget that choose alike.

    ``frontier``: computes the hull.
    ``work``: mean work of a job, in seconds of the reference option.
    ``active``: number of jobs that want to run.
    ``arrivals``: jobs a second to come.
    ``in_sight``: the remaining work of the jobs in sight, in jobs of the mean size ``work``.
    ``horizon``: H, in seconds.
    ``basis``: the source of ``arrivals``.
    ``counted``: number of batches from which ``arrivals`` was counted; infinite if it is declared.
    ``ceiling``: the most dollars that a second of a job of weight 1 may cost; None for the menu's default.
    ``sized``: whether ``work`` is known, and not only the default.
    """

    class_id: ClassId
    weight: float
    menu: Menu
    frontier: Callable[[], Hull]
    work: float
    active: int
    arrivals: float
    in_sight: float
    horizon: float
    basis: ArrivalsBasis
    counted: float = inf
    ceiling: Rate | None = None
    sized: bool = True

    @property
    def hull(self) -> Hull:
        """The hull of a new job's options or paths below the ceiling, computed at its first use."""
        return self.frontier()

    @property
    def most(self) -> Rate:
        """The most dollars that a second of a job of weight 1 may cost."""
        return self.menu.ceiling if self.ceiling is None else self.ceiling

    def worth(self, rate: Rate) -> float:
        """Dollars that a second of one of the jobs is worth at an exchange rate."""
        return min(rate, self.most) * self.weight

    @property
    def foreseen(self) -> float:
        """Jobs a second that the plan counts on; 0 if the arrivals are only assumed."""
        return 0.0 if self.basis is ArrivalsBasis.ASSUMED else self.arrivals

    def held(self, seconds: float, kappa: float) -> float:
        """Jobs a second, if each job holds GPUs for ``seconds``.

        The result is the rate of arrivals, times ``kappa`` (actual seconds per predicted second). If arrivals are
        only assumed, the result is the rate that follows from the number of jobs in sight by Little's law.
        """
        if self.basis is ArrivalsBasis.ASSUMED and self.horizon < inf:
            return self.active / seconds
        return self.arrivals * kappa

    def in_the_long_run(self) -> GroupDemand:
        """The group without its jobs in sight, over an endless horizon."""
        return replace(self, active=0, in_sight=0.0, horizon=inf)

    def spend(self, seconds: float, dollars: float, kappa: float, overhead: float, coming: float = 1.0) -> float:
        """Dollars a second that the group spends over the horizon, if a new job takes ``seconds`` and ``dollars``.

        ``kappa``: actual dollars per predicted dollar, for a job to come.
        ``overhead``: the same for a job in sight, whose remaining work is known from its reports.
        ``coming``: factor on the expected number of jobs to come.
        """
        return self._spends([(seconds, dollars)], coming * kappa, overhead)[0]

    def _spends(self, points: Iterable[tuple[float, float]], come: float, overhead: float) -> list[float]:
        """As ``spend``, for several points (seconds, dollars). ``come``: factor on the dollars of jobs to come.

        Jobs that arrive less than a job's length before the horizon's end count half. The remaining work of the jobs
        in sight is spread over the horizon, or over their remaining time if that is longer.
        """
        horizon, arrivals, in_sight, active = self.horizon, self.arrivals, self.in_sight, self.active
        return [
            dollars
            * (
                come * (arrivals * (1.0 - seconds / 2.0 / horizon if seconds <= horizon else horizon / 2.0 / seconds))
                + (overhead * (in_sight / max(horizon, seconds * in_sight / active)) if active else 0.0)
            )
            for seconds, dollars in points
        ]

    def demand(self, kappa: float, overhead: float, coming: float = 1.0) -> Demand:
        """The group as the solver sees it. The arguments are those of ``spend``."""
        hull = self.hull
        spends = self._spends(zip(hull.seconds, hull.money, strict=True), coming * kappa, overhead)
        return Demand(hull.slopes, spends, 1.0, self.weight, self.most)

    def spend_at(self, corner: int, kappa: float, overhead: float, coming: float = 1.0) -> float:
        """Dollars a second that the group spends at one corner of its hull. The other arguments are those of
        ``spend``."""
        hull = self.hull
        return self.spend(hull.seconds[corner], hull.money[corner], kappa, overhead, coming)


@dataclass(frozen=True, slots=True)
class _ClassLoad:
    """The load of all jobs of one class of a budget.

    ``work``: mean work of a job, in seconds of the reference option.
    ``sized``: whether ``work`` is known.
    ``seen``: the jobs from which the rate of arrivals is estimated.
    ``found``: the evidence for the load that ``profile`` declares; None if it declares none.
    """

    profile: Profile | None
    work: float
    sized: bool
    seen: SeenJobs
    found: Evidence | None

    @classmethod
    def of(
        cls,
        profile: Profile | None,
        groups: Sequence[JobGroup],
        balance: Balance | None,
        known: ClassHistory | None,
        now: Instant,
        remember: Remember,
    ) -> _ClassLoad:
        """The load of a class. ``groups``: its groups. ``known``: the class's history in the budget's balance."""
        seen = remember(_seen, tuple(groups), balance, known)
        declares = profile is not None and (profile.claims_arrivals or profile.claims_work)
        found = evidence(groups, known, seen.created, now) if declares else None
        work = _mean_work(profile, groups)
        size = DEFAULT_WORK_SECONDS if work is None else work
        return cls(profile, size, work is not None, seen, found)

    def demand(
        self,
        key: GroupKey,
        group: JobGroup | None,
        class_id: ClassId,
        menus: Menus,
        ceiling: Rate | None,
        horizon: float,
    ) -> GroupDemand | None:
        """The demand of a group of the class, without jobs to come; None if the group has no option."""
        menu = menus.menu(key.menu)
        if not menu.options:
            return None
        active = 0 if group is None else group.active
        in_sight = 0.0 if group is None else (group.left + (group.active - group.known) * self.work) / self.work
        return GroupDemand(
            class_id=class_id,
            weight=key.weight,
            menu=menu,
            frontier=cache(partial(menus.hull, key.menu, self.work, key.weight, ceiling)),
            work=self.work,
            active=active,
            arrivals=0.0,
            in_sight=in_sight,
            horizon=horizon,
            basis=ArrivalsBasis.ASSUMED,
            counted=0.0,
            ceiling=ceiling,
            sized=self.sized,
        )

    def with_arrivals(self, demand: GroupDemand, class_id: ClassId, came: Arrivals, fraction: float) -> GroupDemand:
        """The demand with the jobs to come. ``fraction``: the group's part of the class's jobs to come."""
        if self.profile is not None and self.profile.arrivals_per_hour is not None:
            return self._as_declared(demand, self.profile, self.profile.arrivals_per_hour / 3600.0 * fraction, fraction)
        basis = ArrivalsBasis.COUNTED if came.counted else ArrivalsBasis.ASSUMED
        return replace(demand, arrivals=came.of(class_id) * fraction, counted=came.jobs, basis=basis)

    def _as_declared(self, demand: GroupDemand, profile: Profile, rate: float, fraction: float) -> GroupDemand:
        """The demand with the declared load, as far as the jobs seen confirm it. If no job was seen, no jobs are
        expected to come."""
        found, counted = self.found, rate
        if profile.claims_arrivals and (found is None or found.seen is None):
            return replace(demand, arrivals=0.0, counted=inf, basis=ArrivalsBasis.DECLARED)
        if found is not None and profile.claims_arrivals and found.seen is not None:
            counted = min(counted, believed_arrivals(found.seen, demand.hull) * fraction)
        if found is not None and profile.claims_work:
            counted *= believed_work(demand.hull, found.dearest)
        return replace(demand, arrivals=counted, counted=inf, basis=ArrivalsBasis.DECLARED)


def _mean_work(profile: Profile | None, groups: Sequence[JobGroup]) -> float | None:
    if profile is not None and profile.mean_work is not None:
        return profile.mean_work
    known = sum([group.known for group in groups])
    return sum([group.left for group in groups]) / known if known else None


@dataclass(frozen=True, slots=True)
class BudgetLoad:
    """The load of all jobs of a budget: the demand of each group, and the rate at which jobs of all classes
    arrive."""

    groups: Mapping[GroupKey, GroupDemand]
    arrivals: Arrivals

    @property
    def shares(self) -> frozenset[str]:
        """The shares of the budget's money that have jobs, or jobs to come."""
        return frozenset([key.share for key in self.groups])

    def of_share(self, name: str) -> BudgetLoad:
        """The load of the groups of one share."""
        return replace(self, groups={key: group for key, group in self.groups.items() if key.share == name})


def budget_load(
    groups: Mapping[GroupKey, JobGroup],
    profiles: Mapping[ClassId, Profile],
    menus: Menus,
    budget: Budget,
    horizon: float,
    now: Instant,
    remember: Remember = directly,
) -> BudgetLoad:
    """The load of one budget's jobs, including finished jobs, by group in order of their first job.

    A group without any option is left out, as if its jobs had not arrived: such jobs cost nothing, and say nothing
    about the jobs that can be served. A group without active jobs is also left out if no further jobs are expected,
    or if its jobs have no profile and too little in common. Jobs whose objects are gone count through the budget's
    balance. Classes of which no job exists count through their profile's declaration or the balance. Otherwise the
    first jobs of a period would be given all of its money.
    """
    groups = {key: group for key, group in groups.items() if menus.menu(key.menu).options}
    balance = budget.balance
    ceiling = budget.rate_ceiling if budget.fixed_rate is None else budget.fixed_rate
    history: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    in_class: dict[ClassId, list[JobGroup]] = {}
    for key, group in groups.items():
        in_class.setdefault(key.class_id, []).append(group)
    for profile in profiles.values():
        if profile.budget == budget.id and profile.id not in in_class and profile.mean_work is not None:
            in_class[profile.id] = []
    loads = {
        class_id: _ClassLoad.of(profiles.get(class_id), members, balance, history.get(class_id), now, remember)
        for class_id, members in in_class.items()
    }
    of_class: list[tuple[GroupKey, JobGroup | None, ClassId]] = [
        (key, group, group.members[0].job.class_id) for key, group in groups.items()
    ]
    of_class += [(_any_key(profiles[name]), None, name) for name, members in in_class.items() if not members]
    demands = {
        key: demand
        for key, group, name in of_class
        if (demand := loads[key.class_id].demand(key, group, name, menus, ceiling, horizon)) is not None
    }
    fractions = {key: part for members in in_class.values() for key, part in _parts(members).items()}
    fractions |= {key: 1.0 for key, group, _ in of_class if group is None}
    seen = {class_id: remember(SeenJobs, known, ()) for class_id, known in history.items()}
    seen |= {class_id: load.seen for class_id, load in loads.items()}
    amount = budget.amount.dollars if budget.fixed_rate is None else 0.0
    usual = _usual_dollars(demands, loads, fractions, now) if amount > 0.0 else 0.0
    came = expected_arrivals(amount, budget.calendar.usual_seconds, budget.created, seen, usual, now, remember)
    found = {
        key: loads[key.class_id].with_arrivals(demand, key.class_id, came, fractions[key])
        for key, demand in demands.items()
    }
    return BudgetLoad(
        {key: group for key, group in found.items() if group.active or (group.arrivals and key.class_id in profiles)},
        came,
    )


def _parts(groups: Sequence[JobGroup]) -> dict[GroupKey, float]:
    """For each group of a class, its fraction of the class's jobs to come, which is its fraction of the jobs that
    have arrived."""
    came = {group.key: len(group.members) - len(group.not_come) for group in groups}
    whole = sum(came.values())
    return {key: number / whole if whole else 1.0 / len(groups) for key, number in came.items()}


def _any_key(profile: Profile) -> GroupKey:
    """The group that stands for a class without any job. Its jobs may run on every option that the class's curves
    cover."""
    return GroupKey(profile.id, MenuKey(profile.id, 1, 1, profile.widest), 1.0, NO_SHARE)


def _usual_dollars(
    demands: Mapping[GroupKey, GroupDemand],
    loads: Mapping[ClassId, _ClassLoad],
    fractions: Mapping[GroupKey, float],
    now: Instant,
) -> float:
    """m: the least dollars that a job usually costs, as a mean over the jobs that were seen; 0 if none was seen."""
    counts = {key: loads[key.class_id].seen.count(now) * fractions[key] for key in demands}
    whole = sum(counts.values())
    dollars = {key: max(demand.work * demand.menu.usual, demand.hull.money[0]) for key, demand in demands.items()}
    return sum(counts[key] * dollars[key] for key in demands) / whole if whole else 0.0


def _seen(groups: Sequence[JobGroup], balance: Balance | None, known: ClassHistory | None) -> SeenJobs:
    return SeenJobs(known, _uncounted(groups, balance))


def _uncounted(groups: Iterable[JobGroup], balance: Balance | None) -> list[Instant]:
    """The arrivals of the jobs that the balance's sums do not include.

    A job that neither had GPUs nor wants any has not arrived yet. While such a job is suspended or refused it costs
    nothing, and thousands of such jobs must not take the money from other jobs.
    """
    created: list[Instant] = []
    for group in groups:
        left_out = {
            facts.job.id
            for facts, finish in group.finished
            if balance is not None and balance.counts(facts.job.id, finish.at)
        }
        left_out |= group.not_come
        created += (
            [facts.order[0] for facts in group.members if facts.job.id not in left_out] if left_out else group.created
        )
    return created
