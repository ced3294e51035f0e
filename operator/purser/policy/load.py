"""The load on a budget: its jobs in groups that choose alike, how often a job of each arrives and how much work it is.

A group is a class, a menu and a weight. Its load is one of two things (docs/policy.md, section 3):

- λ, arrivals a second: as the profile declares it, or counted once there is a day of history. It spends λ·m.
- the number of jobs in sight, where there is no history: they spend m / a a second each for as long as they live, so
  the committed rate itself is what meets the allowed rate. By Little's law that is the load λ = N / a.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from purser.domain.ids import BudgetId, ClassId
from purser.domain.job import Job, SpotPolicy
from purser.domain.profile import Profile
from purser.domain.time import Instant, after, seconds_between
from purser.policy.exchange_rate import Demand
from purser.policy.hull import Hull
from purser.policy.menu import Menu, MenuKey, Menus

if TYPE_CHECKING:
    from purser.policy.cohort import Cohort

DEFAULT_WORK_SECONDS = 4 * 3600.0
"""Mean work of a class that neither declares it nor has a job that knows what it has left."""
HISTORY_WINDOW_SECONDS = 7 * 86_400.0
HISTORY_LEAST_SECONDS = 86_400.0
HISTORY_LEAST_JOBS = 5

GroupKey = tuple[ClassId, MenuKey, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs of one budget that choose alike. ``arrivals``: jobs a second, None when only jobs in sight are known.

    ``active`` counts jobs that want to run; ``work`` is the mean work of a job, seconds of the reference option.
    """

    class_id: ClassId
    weight: float
    menu: Menu
    frontier: Callable[[], Hull]
    work: float
    active: int
    arrivals: float | None

    @property
    def hull(self) -> Hull:
        """The hull of its ways to run a new job, computed when it is first asked for."""
        return self.frontier()

    def demand(self) -> Demand:
        """The group as the solver sees it."""
        if self.arrivals is None:
            return Demand(self.hull.slopes, self.hull.rates, float(self.active), self.weight)
        return Demand(self.hull.slopes, self.hull.money, self.arrivals, self.weight)

    def arrivals_per_hour(self, level: int) -> float:
        """Declared or counted; for jobs in sight what Little's law gives at that corner of the hull."""
        rate = self.active / self.hull.seconds[level] if self.arrivals is None else self.arrivals
        return rate * 3600.0


def observed_arrivals(created: Iterable[Sequence[Instant]], now: Instant) -> float | None:
    """Arrivals a second over the last week's jobs that still exist, or None when they are too few or too young.

    ``created``: when they were, in ascending columns. Counted from the oldest, which itself does not count: a clock
    that starts with an arrival would see one too many.
    """
    since = after(now, -HISTORY_WINDOW_SECONDS)
    recent = [(len(column) - at, column[at]) for column in created if (at := bisect_left(column, since)) < len(column)]
    jobs = sum([number for number, _ in recent])
    if jobs < HISTORY_LEAST_JOBS:
        return None
    elapsed = seconds_between(min([oldest for _, oldest in recent]), now)
    return (jobs - 1) / elapsed if elapsed >= HISTORY_LEAST_SECONDS else None


def _mean_work(profile: Profile | None, cohorts: Sequence[Cohort]) -> float:
    if profile is not None and profile.mean_work is not None:
        return profile.mean_work
    known = sum([one.known for one in cohorts])
    return sum([one.left for one in cohorts]) / known if known else DEFAULT_WORK_SECONDS


def group_key(job: Job, menus: Menus) -> GroupKey:
    """Which group a job belongs to; jobs without a profile that are alike are one group, whatever their uid."""
    menu_key = menus.key(job)
    class_id = job.class_id if menu_key[0] is not None else ClassId("")
    return class_id, menu_key, job.weight


def groups(
    cohorts: Mapping[GroupKey, Cohort],
    profiles: Mapping[ClassId, Profile],
    menus: Menus,
    now: Instant,
    budget: BudgetId | None = None,
) -> dict[GroupKey, Group]:
    """The groups of one budget's jobs (finished ones too: they are history), in order of their first job.

    A group without any option is left out, and so is one without active jobs unless its profile declares how often
    jobs arrive and how much work they are, or its history says so. Classes of ``budget`` of which no job is in sight
    count by what their profile declares: else the first jobs of a month would be given all of its money.
    """
    in_class: dict[ClassId, list[Cohort]] = {}
    for key, cohort in cohorts.items():
        in_class.setdefault(key[0], []).append(cohort)
    rates: dict[ClassId, float | None] = {}
    works: dict[ClassId, float] = {}
    for class_id, alike in in_class.items():
        profile = profiles.get(class_id)
        works[class_id] = _mean_work(profile, alike)
        if profile is None:
            rates[class_id] = None
        elif profile.arrivals_per_hour is not None:
            rates[class_id] = profile.arrivals_per_hour / 3600.0
        else:
            rates[class_id] = observed_arrivals([one.created for one in alike], now)
    jobs = {class_id: sum([len(one.members) for one in alike]) for class_id, alike in in_class.items()}
    found: dict[GroupKey, Group] = {}
    for key, cohort in cohorts.items():
        class_id, menu_key, weight = key
        rate = rates[class_id]
        arrivals = None if rate is None else rate * len(cohort.members) / jobs[class_id]
        menu = menus.menu(menu_key)
        if menu.options and (cohort.active or arrivals):
            work = works[class_id]
            hull = partial(menus.hull, menu_key, work)
            first = cohort.members[0].job.class_id
            found[key] = Group(first, weight, menu, hull, work, cohort.active, arrivals)
    for profile in profiles.values():
        if profile.budget is not None and profile.budget == budget and profile.id not in in_class:
            found |= _expected(profile, menus)
    return found


def _expected(profile: Profile, menus: Menus) -> dict[GroupKey, Group]:
    """The group of a class of which no job is in sight yet, taken to run on anything that its curves cover."""
    if not profile.arrivals_per_hour or profile.mean_work is None:
        return {}
    menu_key: MenuKey = (profile.id, 1, 1, profile.widest, (), SpotPolicy.NEVER, False, frozenset())
    menu = menus.menu(menu_key)
    if not menu.options:
        return {}
    hull = partial(menus.hull, menu_key, profile.mean_work)
    arrivals = profile.arrivals_per_hour / 3600.0
    return {(profile.id, menu_key, 1.0): Group(profile.id, 1.0, menu, hull, profile.mean_work, 0, arrivals)}
