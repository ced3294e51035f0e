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
from functools import cache, partial
from math import inf

from charterer.domain.budget import Balance, Budget, ClassHistory
from charterer.domain.ids import ClassId, Rate
from charterer.domain.plan import ArrivalsBasis
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.incremental import Remember, directly
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


@dataclass(frozen=True, slots=True)
class GroupDemand:
    """Jobs of one budget that choose alike. ``arrivals``: jobs a second, which rest on ``basis``.

    ``in_sight``: the work that its jobs have left, in jobs of the mean size ``work`` (seconds of the reference option).
    ``horizon``: H, seconds. ``ceiling``: dollars that a second of a job of weight 1 may cost at most, None for the
    default. ``counted``: number of jobs that ``arrivals`` rests on, infinite where it is declared. ``active``: number
    of jobs that want to run. ``sized``: whether anything says how much work they are, so that ``work`` is no default.
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
    def foreseen(self) -> float:
        """Jobs a second that are counted on to come: none as long as that is assumed."""
        return 0.0 if self.basis is ArrivalsBasis.ASSUMED else self.arrivals

    def coming(self, seconds: float) -> float:
        """Jobs to come, a second, without what they cost after the horizon. ``seconds``: of a job's life.

        Of those of the last life before the horizon's end, half is paid for later.
        """
        horizon = self.horizon
        return self.arrivals * (1.0 - seconds / 2.0 / horizon if seconds <= horizon else horizon / 2.0 / seconds)

    def standing(self, seconds: float) -> float:
        """The jobs in sight as jobs a second, without what they cost after the horizon; a new one takes ``seconds``."""
        if not self.active:
            return 0.0
        left = seconds * self.in_sight / self.active
        return self.in_sight / max(self.horizon, left)

    def held(self, seconds: float, kappa: float) -> float:
        """Jobs a second that hold GPUs, for ``seconds`` each.

        As they come, ``kappa`` seconds for each one predicted; as long as that is assumed those in sight, by Little's
        law.
        """
        if self.basis is ArrivalsBasis.ASSUMED and self.horizon < inf:
            return self.active / seconds
        return self.arrivals * kappa

    def in_the_long_run(self) -> GroupDemand:
        """The group without the jobs in sight: those to come, for ever."""
        return replace(self, active=0, in_sight=0.0, horizon=inf)

    def spend(self, seconds: float, dollars: float, kappa: float, overhead: float, coming: float = 1.0) -> float:
        """Dollars a second over the horizon, if a new job of the group takes ``seconds`` and ``dollars``.

        ``kappa``, ``overhead``: dollars really paid for each of a job to come, of a job in sight (whose reports say
        what is left). ``coming``: jobs to come for each expected one.
        """
        return dollars * (coming * kappa * self.coming(seconds) + overhead * self.standing(seconds))

    def demand(self, kappa: float, overhead: float, coming: float = 1.0) -> Demand:
        """The group as the solver sees it; for the arguments see ``spend``."""
        hull = self.hull
        points = zip(hull.seconds, hull.money, strict=True)
        spends = [self.spend(seconds, dollars, kappa, overhead, coming) for seconds, dollars in points]
        return Demand(hull.slopes, spends, 1.0, self.weight, self.most)

    def spend_at(self, corner: int, kappa: float, overhead: float, coming: float = 1.0) -> float:
        """What it spends at one corner of its hull; for the arguments see ``spend``."""
        hull = self.hull
        return self.spend(hull.seconds[corner], hull.money[corner], kappa, overhead, coming)


@dataclass(frozen=True, slots=True)
class _ClassLoad:
    """The load of all of a budget's jobs of one class.

    ``work``: mean work of one, seconds of the reference option; ``sized``: whether that is known. ``seen``: those that
    say how often such jobs come. ``found``: the evidence for the load that ``profile`` declares; None where it declares
    none.
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
        """``groups``: of the class. ``known``: what the balance remembers of it."""
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
            frontier=cache(partial(menus.hull, menu_key, self.work, weight, ceiling)),
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


def _mean_work(profile: Profile | None, groups: Sequence[JobGroup]) -> float | None:
    if profile is not None and profile.mean_work is not None:
        return profile.mean_work
    known = sum([group.known for group in groups])
    return sum([group.left for group in groups]) / known if known else None


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
    remember: Remember = directly,
) -> BudgetLoad:
    """The load of one budget's jobs, finished ones included, by group in order of their first job.

    A group without any option is left out, as if its jobs had not come: they cost nothing, and say nothing of the jobs
    that can be served. So is a group without active jobs of which none is expected, or whose jobs have no profile and
    too little in common. The budget's
    balance remembers the jobs that are gone. Classes of which no job exists count by what their profile declares or the
    balance remembers; otherwise the first jobs of a month would be given all of its money.
    """
    groups = {key: group for key, group in groups.items() if menus.menu(key[1]).options}
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
        if (demand := loads[key[0]].demand(key, group, name, menus, ceiling, horizon)) is not None
    }
    fractions = {key: part for members in in_class.values() for key, part in _parts(members).items()}
    fractions |= {key: 1.0 for key, group, _ in of_class if group is None}
    seen = {class_id: remember(SeenJobs, known, ()) for class_id, known in history.items()}
    seen |= {class_id: load.seen for class_id, load in loads.items()}
    amount = budget.amount.dollars if budget.fixed_rate is None else 0.0
    usual = _usual_dollars(demands, loads, fractions, now) if amount > 0.0 else 0.0
    came = expected_arrivals(amount, budget.created, seen, usual, now, remember)
    found = {key: loads[key[0]].with_arrivals(demand, key[0], came, fractions[key]) for key, demand in demands.items()}
    return BudgetLoad(
        {key: group for key, group in found.items() if group.active or (group.arrivals and key[0] in profiles)}, came
    )


def _parts(groups: Sequence[JobGroup]) -> dict[GroupKey, float]:
    """The fraction of a class's jobs to come that each of its groups has: as of those that came."""
    came = {group.key: len(group.members) - len(group.not_come) for group in groups}
    whole = sum(came.values())
    return {key: number / whole if whole else 1.0 / len(groups) for key, number in came.items()}


def _any_key(profile: Profile) -> GroupKey:
    """The key of a class of which no job exists: on anything that its curves cover."""
    return profile.id, MenuKey(profile.id, 1, 1, profile.widest), 1.0


def _usual_dollars(
    demands: Mapping[GroupKey, GroupDemand],
    loads: Mapping[ClassId, _ClassLoad],
    fractions: Mapping[GroupKey, float],
    now: Instant,
) -> float:
    """m: mean dollars that a job that was seen usually costs at the least; 0 where none was."""
    counts = {key: loads[key[0]].seen.count(now) * fractions[key] for key in demands}
    whole = sum(counts.values())
    dollars = {key: max(demand.work * demand.menu.usual, demand.hull.money[0]) for key, demand in demands.items()}
    return sum(counts[key] * dollars[key] for key in demands) / whole if whole else 0.0


def _seen(groups: Sequence[JobGroup], balance: Balance | None, known: ClassHistory | None) -> SeenJobs:
    return SeenJobs(known, _uncounted(groups, balance))


def _uncounted(groups: Iterable[JobGroup], balance: Balance | None) -> list[Instant]:
    """The instants at which the jobs were created that came and are not in the balance's sums.

    A job that neither had GPUs nor wants any has not come yet: as long as it is suspended or refused, it costs
    nothing, and thousands of them must not take the money from others.
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
