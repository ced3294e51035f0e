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
from charterer.policy.options.menu import Menu, Menus
from charterer.policy.options.menu_key import MenuKey
from charterer.policy.solve.exchange_rate import Demand
from charterer.policy.solve.hull import Hull

DEFAULT_WORK_SECONDS = 4 * 3600.0
"""Mean work, in seconds of the reference option, of a class that neither declares it nor has a job that reports it."""


@dataclass(frozen=True)
class GroupDemand:
    """Jobs of one budget that choose alike. ``arrivals``: jobs a second, None when only jobs in sight are known.

    ``ceiling``: dollars that a second of a job of weight 1 may cost at most, None for the default.
    ``counted``: number of jobs that ``arrivals`` rests on, infinite where it is declared. ``assumed``: on jobs in sight
    alone. ``active``: number of jobs that want to run. ``work``: mean work of a job, seconds of the reference option.
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
    assumed: bool = False

    @cached_property
    def hull(self) -> Hull:
        """The hull of a new job's options or paths below the ceiling, computed when it is first asked for."""
        return self.frontier()

    @property
    def most(self) -> Rate:
        """Dollars that a second of a job of weight 1 may cost at most."""
        return self.menu.ceiling if self.ceiling is None else self.ceiling

    def worth(self, rate: Rate) -> float:
        """Dollars that a second of one of the jobs is worth at an exchange rate."""
        return min(rate, self.most) * self.weight

    def demand(self) -> Demand:
        """The group as the solver sees it."""
        if self.arrivals is None:
            return Demand(self.hull.slopes, self.hull.rates, float(self.active), self.weight, self.most)
        return Demand(self.hull.slopes, self.hull.money, self.arrivals, self.weight, self.most)

    def with_load(self, arrivals: float) -> GroupDemand:
        """The group with so many jobs a second, which rest on the jobs in sight where none were counted."""
        if self.arrivals is not None:
            return replace(self, arrivals=arrivals)
        return replace(self, arrivals=arrivals, counted=float(self.active), assumed=True)

    def arrivals_per_hour(self, level: int) -> float:
        """Declared or counted; for jobs in sight by Little's law at that corner of the hull."""
        rate = self.active / self.hull.seconds[level] if self.arrivals is None else self.arrivals
        return rate * 3600.0


@dataclass(frozen=True, slots=True)
class _ClassLoad:
    """The load of all of a budget's jobs of one class.

    ``jobs``: how many exist, finished ones included. ``work``: mean work of one, seconds of the reference
    option. ``arrivals``: declared or counted; None where only jobs in sight are known. ``found``: the evidence for the
    load that ``profile`` declares; None where it declares none.
    """

    profile: Profile | None
    jobs: int
    work: float
    arrivals: Arrivals | None
    found: Evidence | None

    @classmethod
    def of(
        cls,
        profile: Profile | None,
        groups: Sequence[JobGroup],
        balance: Balance | None,
        known: ClassHistory | None,
        now: Instant,
    ) -> _ClassLoad:
        """``groups``: of the class. ``known``: what the balance remembers of it."""
        created = _uncounted(groups, balance)
        declares = profile is not None and (profile.claims_arrivals or profile.claims_work)
        found = evidence(groups, known, created, now) if declares else None
        jobs = sum([len(group.members) for group in groups])
        return cls(profile, jobs, _mean_work(profile, groups), _arrivals(profile, known, created, found, now), found)

    def demand(
        self, key: GroupKey, class_id: ClassId, active: int, fraction: float, menus: Menus, ceiling: Rate | None
    ) -> GroupDemand | None:
        """The demand of the group that has ``fraction`` of the class's jobs, of which ``active`` want to run.

        None without any option, and without active jobs where no arrival rate is known.
        """
        _, menu_key, weight = key
        menu = menus.menu(menu_key)
        if not menu.options or (self.arrivals is None and not active):
            return None
        demand = GroupDemand(
            class_id=class_id,
            weight=weight,
            menu=menu,
            frontier=partial(menus.hull, menu_key, self.work, weight, ceiling),
            work=self.work,
            active=active,
            arrivals=None,
            ceiling=ceiling,
        )
        if self.arrivals is None:
            return demand
        demand = replace(demand, arrivals=self.arrivals.rate * fraction, counted=self.arrivals.jobs)
        if self.profile is None or self.found is None:
            return demand
        return _borne_out(demand, self.profile, self.found, fraction)


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
    gone. Classes of which no job exists count by what their profile declares or the balance remembers; otherwise the
    first jobs of a month would be given all of its money.
    """
    balance = budget.balance
    ceiling = budget.rate_ceiling if budget.fixed_rate is None else budget.fixed_rate
    history: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    in_class: dict[ClassId, list[JobGroup]] = {}
    for key, group in groups.items():
        in_class.setdefault(key[0], []).append(group)
    loads = {
        class_id: _ClassLoad.of(profiles.get(class_id), members, balance, history.get(class_id), now)
        for class_id, members in in_class.items()
    }
    demands: dict[GroupKey, GroupDemand | None] = {}
    for key, group in groups.items():
        load, class_id = loads[key[0]], group.members[0].job.class_id
        demands[key] = load.demand(key, class_id, group.active, len(group.members) / load.jobs, menus, ceiling)
    for profile in profiles.values():
        if profile.budget == budget.id and profile.id not in in_class and profile.mean_work is not None:
            load = _ClassLoad.of(profile, (), balance, history.get(profile.id), now)
            key = (profile.id, MenuKey(profile.id, 1, 1, profile.widest), 1.0)  # on anything that its curves cover
            demands[key] = load.demand(key, profile.id, 0, 1.0, menus, ceiling)
    return {key: demand for key, demand in demands.items() if demand is not None}


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


def _borne_out(demand: GroupDemand, profile: Profile, found: Evidence, fraction: float) -> GroupDemand:
    """The demand with what its class declares as far as ``found`` bears it out, at least that of the jobs in sight.

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
