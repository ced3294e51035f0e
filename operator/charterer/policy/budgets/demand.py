"""The load on a budget: its jobs in groups that choose alike, what is in sight of them, and how often more come.

A group is a class, a menu and a weight. Its load has two parts (docs/theory/policy.md, section 5), which together cost
what the budget has over the horizon H (``pacing``):

- the jobs in sight, running and waiting: a stock. What work they have left, in jobs of the mean size, over H.
- the jobs to come: λ a second (``arrivals``, or as the profile declares it as far as jobs bear that out:
  ``declared_load``), without what those of the last hours will cost after H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf

from charterer.domain.budget import Balance, Budget, ClassHistory
from charterer.domain.ids import ClassId, Rate
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.policy.budgets.arrivals import Arrivals, SeenJobs, expected_arrivals
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
    """Jobs of one budget that choose alike. ``arrivals``: jobs a second, which rest on ``basis``.

    ``in_sight``: the work that its jobs have left, in jobs of the mean size ``work`` (seconds of the reference option).
    ``horizon``: H, seconds. ``ceiling``: dollars that a second of a job of weight 1 may cost at most, None for the
    default. ``counted``: number of jobs that ``arrivals`` rests on, infinite where it is declared. ``active``: number
    of jobs that want to run.
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

    @property
    def coming(self) -> float:
        """Jobs to come, a second, without what they cost after the horizon.

        Jobs of the last hours are paid for later: on average half a life of each is, at the middle of the hull.
        """
        return self.arrivals * (1.0 - min(self._life, self.horizon) / 2.0 / self.horizon)

    @property
    def standing(self) -> float:
        """The jobs in sight as jobs a second, without what they cost after the horizon."""
        if not self.active:
            return 0.0
        left = self._life * self.in_sight / self.active
        return self.in_sight / self.horizon * (1.0 if left <= self.horizon else self.horizon / left)

    @property
    def present(self) -> float:
        """Jobs a second that hold as many GPUs as now: as they come, or while that is an assumption by Little's law."""
        return self.active / self._life if self.basis is ArrivalsBasis.ASSUMED else self.arrivals

    @property
    def load(self) -> float:
        """Jobs a second that the budget pays for over the horizon."""
        return self.coming + self.standing

    @property
    def _life(self) -> float:
        return self.hull.seconds[len(self.hull.seconds) // 2]

    def in_the_long_run(self) -> GroupDemand:
        """The group without the jobs in sight: those to come, for ever."""
        return replace(self, in_sight=0.0, horizon=inf)

    def demand(self) -> Demand:
        """The group as the solver sees it."""
        return Demand(self.hull.slopes, self.hull.money, self.load, self.weight, self.most)


@dataclass(frozen=True, slots=True)
class _ClassLoad:
    """The load of all of a budget's jobs of one class.

    ``jobs``: how many exist, finished ones included. ``work``: mean work of one, seconds of the reference
    option. ``seen``: those that say how often such jobs come. ``found``: the evidence for the load that ``profile``
    declares; None where it declares none.
    """

    profile: Profile | None
    jobs: int
    work: float
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
    ) -> _ClassLoad:
        """``groups``: of the class. ``known``: what the balance remembers of it."""
        created = _uncounted(groups, balance)
        declares = profile is not None and (profile.claims_arrivals or profile.claims_work)
        found = evidence(groups, known, created, now) if declares else None
        jobs = sum([len(group.members) for group in groups])
        return cls(profile, jobs, _mean_work(profile, groups), SeenJobs(known, created), found)

    def demand(
        self,
        key: GroupKey,
        group: JobGroup | None,
        class_id: ClassId,
        menus: Menus,
        ceiling: Rate | None,
        horizon: float,
    ) -> GroupDemand | None:
        """The demand of a group of the class, in which no jobs are to come yet; None without any option."""
        _, menu_key, weight = key
        menu = menus.menu(menu_key)
        if not menu.options:
            return None
        active = 0 if group is None else group.active
        in_sight = 0.0 if group is None else (group.left + (group.active - group.known) * self.work) / self.work
        return GroupDemand(
            class_id=class_id,
            weight=weight,
            menu=menu,
            frontier=partial(menus.hull, menu_key, self.work, weight, ceiling),
            work=self.work,
            active=active,
            arrivals=0.0,
            in_sight=in_sight,
            horizon=horizon,
            basis=ArrivalsBasis.ASSUMED,
            counted=0.0,
            ceiling=ceiling,
        )

    def with_arrivals(self, demand: GroupDemand, class_id: ClassId, came: Arrivals, fraction: float) -> GroupDemand:
        """The demand with the jobs to come: of the class's the group's ``fraction``."""
        if self.profile is not None and self.profile.arrivals_per_hour is not None:
            return self._as_declared(demand, self.profile, self.profile.arrivals_per_hour / 3600.0 * fraction, fraction)
        basis = ArrivalsBasis.COUNTED if came.counted else ArrivalsBasis.ASSUMED
        return replace(demand, arrivals=came.of(class_id) * fraction, counted=came.jobs, basis=basis)

    def _as_declared(self, demand: GroupDemand, profile: Profile, rate: float, fraction: float) -> GroupDemand:
        """As far as what was seen bears it out; a class of which no job was seen declares in vain."""
        found, counted = self.found, rate
        if profile.claims_arrivals and (found is None or found.seen is None):
            return replace(demand, arrivals=0.0, counted=inf, basis=ArrivalsBasis.DECLARED)
        if found is not None and profile.claims_arrivals and found.seen is not None:
            counted = min(counted, believed_arrivals(found.seen, demand.hull) * fraction)
        if found is not None and profile.claims_work:
            counted *= believed_work(demand.hull, found.dearest)
        return replace(demand, arrivals=counted, counted=inf, basis=ArrivalsBasis.DECLARED)


def _mean_work(profile: Profile | None, groups: Sequence[JobGroup]) -> float:
    if profile is not None and profile.mean_work is not None:
        return profile.mean_work
    known = sum([group.known for group in groups])
    return sum([group.left for group in groups]) / known if known else DEFAULT_WORK_SECONDS


@dataclass(frozen=True, slots=True)
class BudgetLoad:
    """All that a budget's jobs ask of it: the demand of each group, and how often jobs of all classes come."""

    groups: Mapping[GroupKey, GroupDemand]
    arrivals: Arrivals


def budget_load(
    groups: Mapping[GroupKey, JobGroup],
    profiles: Mapping[ClassId, Profile],
    menus: Menus,
    budget: Budget,
    horizon: float,
    now: Instant,
) -> BudgetLoad:
    """The load of one budget's jobs, finished ones included, by group in order of their first job.

    A group without any option is left out, and so is one without active jobs of which none is expected, or whose jobs
    have no profile and too little in common. The budget's
    balance remembers the jobs that are gone. Classes of which no job exists count by what their profile declares or the
    balance remembers; otherwise the first jobs of a month would be given all of its money.
    """
    balance = budget.balance
    ceiling = budget.rate_ceiling if budget.fixed_rate is None else budget.fixed_rate
    history: Mapping[ClassId, ClassHistory] = {} if balance is None else balance.class_history
    in_class: dict[ClassId, list[JobGroup]] = {}
    for key, group in groups.items():
        in_class.setdefault(key[0], []).append(group)
    for profile in profiles.values():
        if profile.budget == budget.id and profile.id not in in_class and profile.mean_work is not None:
            in_class[profile.id] = []
    loads = {
        class_id: _ClassLoad.of(profiles.get(class_id), members, balance, history.get(class_id), now)
        for class_id, members in in_class.items()
    }
    of_class: list[tuple[GroupKey, JobGroup | None, ClassId]] = [
        (key, group, group.members[0].job.class_id) for key, group in groups.items()
    ]
    of_class += [(_any_key(profiles[name]), None, name) for name, members in in_class.items() if not members]
    demands = {
        key: demand
        for key, group, name in of_class
        if (demand := loads[key[0]].demand(key, group, name, menus, ceiling, horizon)) is not None
    }
    fractions = {key: len(group.members) / loads[key[0]].jobs for key, group in groups.items()}
    fractions |= {key: 1.0 for key, group, _ in of_class if group is None}
    seen = {class_id: SeenJobs(known, ()) for class_id, known in history.items()}
    seen |= {class_id: load.seen for class_id, load in loads.items()}
    amount = budget.amount.dollars if budget.fixed_rate is None else 0.0
    cheapest = _cheapest(demands, loads, fractions, now) if amount > 0.0 else 0.0
    came = expected_arrivals(amount, budget.created, seen, cheapest, now)
    found = {key: loads[key[0]].with_arrivals(demand, key[0], came, fractions[key]) for key, demand in demands.items()}
    return BudgetLoad(
        {key: group for key, group in found.items() if group.active or (group.arrivals and key[0] in profiles)}, came
    )


def _any_key(profile: Profile) -> GroupKey:
    """The key of a class of which no job exists: on anything that its curves cover."""
    return profile.id, MenuKey(profile.id, 1, 1, profile.widest), 1.0


def _cheapest(
    demands: Mapping[GroupKey, GroupDemand],
    loads: Mapping[ClassId, _ClassLoad],
    fractions: Mapping[GroupKey, float],
    now: Instant,
) -> float:
    """m: mean dollars of a job that was seen, on its cheapest options; 0 where none was."""
    counts = {key: loads[key[0]].seen.count(now) * fractions[key] for key in demands}
    whole = sum(counts.values())
    return sum(counts[key] * demand.hull.money[0] for key, demand in demands.items()) / whole if whole else 0.0


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
