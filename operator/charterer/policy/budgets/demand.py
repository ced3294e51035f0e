"""The load on a budget: its jobs in groups that choose alike, how often a job of each arrives and how much work it is.

A group is a class, a menu and a weight. Its load is one of two things (docs/theory/policy.md, section 5):

- λ, arrivals a second: as the profile declares it, as far as jobs bear that out (``declared_load``), or counted
  (``arrivals``) once there is enough history. It spends λ·m.
- the number of jobs in sight, where there is no history: they spend m / a a second each for as long as they live, so
  the committed rate itself is what meets the allowed rate. By Little's law that is the load λ = N / a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf

from charterer.domain.budget import Balance, Budget, ClassHistory
from charterer.domain.ids import ClassId, Rate
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.policy.budgets.arrivals import Arrivals, arrivals
from charterer.policy.budgets.declared_load import Evidence, believed_arrivals, believed_work, evidence
from charterer.policy.jobs.group_key import GroupKey
from charterer.policy.jobs.groups import JobGroup
from charterer.policy.options.menu import Menu, Menus, default_ceiling
from charterer.policy.options.menu_key import MenuKey
from charterer.policy.solve.exchange_rate import Demand
from charterer.policy.solve.hull import Hull

DEFAULT_WORK_SECONDS = 4 * 3600.0
"""Mean work, in seconds of the reference option, of a class that neither declares it nor has a job that reports it."""


@dataclass(frozen=True)
class GroupDemand:
    """Jobs of one budget that choose alike. ``arrivals``: jobs a second, None when only jobs in sight are known.

    ``ceiling``: dollars that a second of a job of weight 1 may cost at most, None for the default.
    ``counted``: number of jobs that ``arrivals`` rests on, infinite where it is declared. ``active``: number of jobs
    that want to run. ``work``: mean work of a job, seconds of the reference option.
    """

    class_id: ClassId
    weight: float
    menu: Menu
    frontier: Callable[[], Hull]
    work: float
    active: int
    arrivals: float | None
    counted: float = inf
    ceiling: Rate | None = None

    @cached_property
    def hull(self) -> Hull:
        """The hull of a new job's options or paths below the ceiling, computed when it is first asked for."""
        return self.frontier()

    @property
    def most(self) -> Rate:
        """Dollars that a second of a job of weight 1 may cost at most."""
        return default_ceiling(self.hull) if self.ceiling is None else self.ceiling

    def worth(self, rate: Rate) -> float:
        """Dollars that a second of one of the jobs is worth at an exchange rate."""
        return min(rate, self.most) * self.weight

    def demand(self) -> Demand:
        """The group as the solver sees it."""
        if self.arrivals is None:
            return Demand(self.hull.slopes, self.hull.rates, float(self.active), self.weight, self.most)
        return Demand(self.hull.slopes, self.hull.money, self.arrivals, self.weight, self.most)

    def arrivals_per_hour(self, level: int) -> float:
        """Declared or counted; for jobs in sight by Little's law at that corner of the hull."""
        rate = self.active / self.hull.seconds[level] if self.arrivals is None else self.arrivals
        return rate * 3600.0


def _mean_work(profile: Profile | None, groups: Sequence[JobGroup]) -> float:
    if profile is not None and profile.mean_work is not None:
        return profile.mean_work
    known = sum([group.known for group in groups])
    return sum([group.left for group in groups]) / known if known else DEFAULT_WORK_SECONDS


def group_demands(
    groups: Mapping[GroupKey, JobGroup],
    profiles: Mapping[ClassId, Profile],
    menus: Menus,
    budget: Budget,
    now: Instant,
) -> dict[GroupKey, GroupDemand]:
    """The demand of each group of one budget's jobs, finished ones included, in order of their first job.

    A group without any option is left out, and so is one without active jobs unless its profile declares how often
    jobs arrive and how much work they are, or its history says so. The budget's balance remembers the jobs that are
    gone. Classes without a job in sight count by what their profile declares or the balance remembers; otherwise the
    first jobs of a month would be given all of its money.
    """
    balance, ceiling = budget.balance, _ceiling(budget)
    in_class: dict[ClassId, list[JobGroup]] = {}
    for key, group in groups.items():
        in_class.setdefault(key[0], []).append(group)
    history: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    works = {class_id: _mean_work(profiles.get(class_id), members) for class_id, members in in_class.items()}
    rates: dict[ClassId, Arrivals | None] = {}
    declared: dict[ClassId, Evidence] = {}
    for class_id, members in in_class.items():
        profile, created = profiles.get(class_id), _uncounted(members, balance)
        if profile is not None and (profile.claims_arrivals or profile.claims_work):
            declared[class_id] = evidence(members, history.get(class_id), created, now)
        rates[class_id] = _arrivals(profile, history.get(class_id), created, declared.get(class_id), now)
    jobs = {class_id: sum([len(group.members) for group in members]) for class_id, members in in_class.items()}
    demands: dict[GroupKey, GroupDemand] = {}
    for key, group in groups.items():
        class_id, menu_key, weight = key
        rate, fraction = rates[class_id], len(group.members) / jobs[class_id]
        menu = menus.menu(menu_key)
        if menu.options and (group.active or rate is not None):
            work = works[class_id]
            demand = GroupDemand(
                class_id=group.members[0].job.class_id,
                weight=weight,
                menu=menu,
                frontier=partial(menus.hull, menu_key, work, weight, ceiling),
                work=work,
                active=group.active,
                arrivals=None,
                ceiling=ceiling,
            )
            if rate is not None:
                demand = replace(demand, arrivals=rate.rate * fraction, counted=rate.jobs)
            if class_id in declared:
                demand = _borne_out(demand, profiles[class_id], declared[class_id], fraction)
            demands[key] = demand
    for profile in profiles.values():
        if profile.budget == budget.id and profile.id not in in_class:
            demands |= _expected(profile, history.get(profile.id), menus, ceiling, now)
    return demands


def _ceiling(budget: Budget) -> Rate | None:
    return budget.rate_ceiling if budget.fixed_rate is None else budget.fixed_rate


def _arrivals(
    profile: Profile | None,
    known: ClassHistory | None,
    created: Sequence[Instant],
    found: Evidence | None,
    now: Instant,
) -> Arrivals | None:
    """Declared or counted; None for jobs without a profile, which have too little in common.

    ``found``: of a class that declares something; one of which no job was seen declares in vain.
    """
    if profile is None:
        return None
    if profile.arrivals_per_hour is None:
        return arrivals(known, created, now)
    in_vain = profile.claims_arrivals and (found is None or found.seen is None)
    return None if in_vain or not profile.arrivals_per_hour else Arrivals(profile.arrivals_per_hour / 3600.0, inf)


def _borne_out(demand: GroupDemand, profile: Profile, found: Evidence, fraction: float = 1.0) -> GroupDemand:
    """The demand with so much of what its class declares as was ``found``, at least that of the jobs in sight.

    ``fraction``: of the class's jobs that are the group's.
    """
    if demand.arrivals is None:
        return demand
    counted, hull = demand.arrivals, demand.hull
    if profile.claims_arrivals and found.seen is not None:
        counted = min(counted, believed_arrivals(found.seen, hull) * fraction)
    if profile.claims_work:
        in_sight = demand.active / hull.seconds[0]
        counted = max(counted * believed_work(hull, found.dearest), min(counted, in_sight))
    return replace(demand, arrivals=counted)


def _uncounted(groups: Iterable[JobGroup], balance: Balance | None) -> list[Instant]:
    """The instants at which the jobs were created that came and are not in the balance's sums.

    A job that has neither had GPUs nor wants any has not come yet: as long as it is suspended or refused, it costs
    nothing, and thousands of them must not take the money from others.
    """
    created: list[Instant] = []
    for group in groups:
        left_out = {
            facts.job.id
            for facts, finish in group.finished
            if balance is not None and balance.counts(facts.job.id, finish.at)
        }
        left_out |= {job.id for job, _ in group.idle if not job.last_run}
        created += (
            [facts.order[0] for facts in group.members if facts.job.id not in left_out] if left_out else group.created
        )
    return created


def _expected(
    profile: Profile, known: ClassHistory | None, menus: Menus, ceiling: Rate | None, now: Instant
) -> dict[GroupKey, GroupDemand]:
    """The demand of a class without a job in sight, taken to run on anything that its curves cover."""
    found = evidence((), known, (), now)
    rate = _arrivals(profile, known, (), found, now)
    if rate is None or profile.mean_work is None:
        return {}
    menu_key = MenuKey(profile.id, 1, 1, profile.widest)
    menu = menus.menu(menu_key)
    if not menu.options:
        return {}
    group = GroupDemand(
        class_id=profile.id,
        weight=1.0,
        menu=menu,
        frontier=partial(menus.hull, menu_key, profile.mean_work, 1.0, ceiling),
        work=profile.mean_work,
        active=0,
        arrivals=rate.rate,
        counted=rate.jobs,
        ceiling=ceiling,
    )
    return {(profile.id, menu_key, 1.0): _borne_out(group, profile, found)}
