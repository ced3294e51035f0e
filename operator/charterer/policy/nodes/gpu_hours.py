"""What amounts of GPU-hours still allow while a plan is made (ADR 30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from charterer.domain.budget import Budget, GpuHours, Mode
from charterer.domain.budget_tree import BudgetTree
from charterer.domain.gpu_time import ended_in, gpu_type_of, held_in, held_on
from charterer.domain.ids import BudgetId, JobId, RentalId
from charterer.domain.job import Allocation, Job
from charterer.domain.option import Option
from charterer.domain.plan import GpuHoursVerdict, Reason, ReasonCode
from charterer.domain.reasons.fact import Fact
from charterer.domain.reasons.nodes import GpuHoursNear
from charterer.domain.reasons.waits import GpuHoursAhead, GpuHoursUsed
from charterer.domain.rental import Rental
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant, after
from charterer.incremental import Remember
from charterer.policy.jobs.job_facts import reason
from charterer.policy.nodes.limits import LOOK_AHEAD_SECONDS, MARGIN_SECONDS, USEFUL_SECONDS

# An amount of GPU-hours holds even if every run ends as late as it may.
#
# At every plan, used + Σ GPUs·(grace + margin) ≤ amount holds for every amount, where the sum is over the runs that
# hold GPUs of that type, of the budget and all below it. As with the hard limit in dollars (``nodes.limits``), the
# instant at which all of them must leave is known in advance.


_SECOND = 1_000_000


class RunGpus(NamedTuple):
    """GPUs that a run holds, and the seconds in which it leaves them once it is told to."""

    gpus: int
    leaving: int


class HoursPurse:
    """The GPU-time of one GPU type that a budget, and all below it, may still use. Placing jobs uses it up."""

    def __init__(self, budget: Budget, hours: GpuHours, used: int, now: Instant) -> None:
        self.budget = budget
        self.hours = hours
        self.used = used
        self._now = now
        self._start, self.end = budget.in_period_of(now).period
        self._held: dict[tuple[JobId, int], RunGpus] = {}

    def hold(self, run: tuple[JobId, int], held: RunGpus) -> None:
        """Count a run. If it was counted before, the new number of GPUs replaces the old one."""
        self._held[run] = held

    @property
    def committed(self) -> int:
        """GPU-microseconds used, and the most that all runs can still hold until an orderly end."""
        return self.used + sum([held.gpus * held.leaving * _SECOND for held in self._held.values()])

    @property
    def released(self) -> int:
        """GPU-microseconds of the amount that may be used by now."""
        return self.hours.released(self._start, self.end, self._now)

    def refuses(self, held: RunGpus, *, new: bool) -> Fact | None:
        """Why no run may hold that many GPUs; None if one may. ``new``: nothing of the run's job holds them yet."""
        gpus, gpu_type, amount = held.gpus + self._gpus, self.hours.gpu_type, self.hours.amount
        useful = gpus * (LOOK_AHEAD_SECONDS + USEFUL_SECONDS) * _SECOND
        if self.committed + held.gpus * held.leaving * _SECOND + useful > amount:
            return GpuHoursUsed(gpu_type, self.used, self.committed, amount, self.budget.id, self.end)
        if new and self.used >= self.released:
            at = self.hours.released_at(self.used, self._start, self.end)
            return GpuHoursAhead(gpu_type, self.used, self.released, amount, self.budget.id, at)
        return None

    @property
    def must_stop(self) -> Fact | None:
        """Why all runs must leave their GPUs now; None if they need not."""
        near = self.committed + self._gpus * LOOK_AHEAD_SECONDS * _SECOND > self.hours.amount
        if not self._held or not near:
            return None
        return GpuHoursNear(self.hours.gpu_type, self.used, self.hours.amount, self.budget.id, self.end)

    @property
    def again_at(self) -> Iterable[Instant]:
        """When runs must leave, if nothing else changes, and when more is released."""
        if self._gpus:
            left = self.hours.amount - self.committed - self._gpus * LOOK_AHEAD_SECONDS * _SECOND
            yield after(self._now, max(left / (self._gpus * _SECOND), 1.0))
        if self.used >= self.released:
            yield self.hours.released_at(self.used, self._start, self.end)
        yield self.end

    def verdict(self) -> GpuHoursVerdict:
        """What is told of it."""
        return GpuHoursVerdict(self.hours.gpu_type, self.hours.amount, self.used, self.committed, self.released)

    @property
    def _gpus(self) -> int:
        return sum([held.gpus for held in self._held.values()])


class GpuHoursRoom:
    """All amounts of GPU-hours of a plan. ``purses``: by budget and GPU type."""

    def __init__(self, snapshot: Snapshot, tree: BudgetTree, remember: Remember) -> None:
        self._snapshot = snapshot
        self._tree = tree
        budgets = snapshot.known_budgets
        self.purses: dict[BudgetId, dict[str, HoursPurse]] = {}
        limited = [budget for budget in budgets.values() if budget.gpu_hours]
        if not limited:
            return
        families = {budget.id: (budget.id, *tree.below.get(budget.id, ())) for budget in limited}
        counted = {name for family in families.values() for name in family}
        rentals: dict[BudgetId, list[Rental]] = {name: [] for name in counted}
        for rental in snapshot.rentals.values():
            if rental.budget in rentals:
                rentals[rental.budget].append(rental)
        runs = _runs(snapshot, counted)
        used = {name: _used(budgets[name], rentals[name], runs, snapshot, remember) for name in counted}
        for budget in limited:
            of_family = [used[name] for name in families[budget.id]]
            purses = self.purses[budget.id] = {
                hours.gpu_type: HoursPurse(budget, hours, most_of_a_period(of_family, hours.gpu_type), snapshot.now)
                for hours in budget.gpu_hours
            }
            for (name, gpu_type, run), held in _held(runs, snapshot).items():
                if name in families[budget.id] and gpu_type in purses:
                    purses[gpu_type].hold(run, held)

    def of(self, budget: BudgetId, gpu_type: str) -> Sequence[HoursPurse]:
        """The amounts that hold for runs of that type on nodes of the budget: its own, and those above it."""
        if not self.purses:
            return ()
        names = self._tree.with_parents(budget)
        return [self.purses[name][gpu_type] for name in names if gpu_type in self.purses.get(name, ())]

    def must_leave(self) -> Mapping[RentalId, Reason]:
        """The rentals whose runs must leave them now, because an amount would be passed otherwise, with the reason."""
        found: dict[RentalId, Reason] = {}
        for rental in self._snapshot.rentals.values() if self.purses else ():
            payer = self._snapshot.budgets.get(rental.budget)
            if payer is not None and payer.mode is Mode.ENFORCE:
                purses = self.of(rental.budget, gpu_type_of(rental, self._snapshot.pools))
                why = next((fact for purse in purses if (fact := purse.must_stop) is not None), None)
                if why is not None:
                    found[rental.id] = reason(ReasonCode.HARD_LIMIT, why)
        return found

    def again_at(self) -> Iterable[Instant]:
        """When the plan is to be made again for an amount."""
        return [at for purses in self.purses.values() for purse in purses.values() for at in purse.again_at]

    def verdicts(self, budget: BudgetId) -> tuple[GpuHoursVerdict, ...]:
        """What is told of the amounts of a budget."""
        return tuple([purse.verdict() for purse in self.purses.get(budget, {}).values()])


class JobHours:
    """The amounts of GPU-hours that hold for the jobs of one budget while its plan is made."""

    def __init__(self, budget: BudgetId, room: GpuHoursRoom, snapshot: Snapshot) -> None:
        self._budget = budget
        self._room = room
        self._snapshot = snapshot

    def refuses(self, job: Job, option: Option, more: int = 0) -> Fact | None:
        """Why the job may not have the option, because of an amount of GPU-hours; None if it may.

        ``more``: GPUs that the job holds beside those of the option and keeps.
        """
        purses = self._of(option)
        if not purses:
            return None
        new = not job.records and job.allocation is None
        grows = job.allocation is not None and option.takes + more > self._holds(job, option)
        held = RunGpus(option.takes, leaving_seconds(job))
        return next((why for purse in purses if (why := purse.refuses(held, new=new or grows)) is not None), None)

    def hold(self, job: Job, option: Option) -> None:
        """Count a run that begins with the option."""
        for purse in self._of(option):
            purse.hold((job.id, _NEXT_RUN), RunGpus(option.takes, leaving_seconds(job)))

    def _of(self, option: Option) -> Sequence[HoursPurse]:
        pool = self._snapshot.pools[option.pool]
        return () if pool.offering is None else self._room.of(self._budget, pool.offering.gpu_type)

    def _holds(self, job: Job, option: Option) -> int:
        """GPUs of the option's type that the job's present run holds."""
        pools, allocation = self._snapshot.pools, job.allocation
        offering = pools[option.pool].offering
        held = 0
        for place in () if allocation is None or offering is None else job.trusted(allocation):
            rental = self._snapshot.rentals.get(place.rental)
            if rental is not None and offering is not None and gpu_type_of(rental, pools) == offering.gpu_type:
                held += place.takes
        return held


_NEXT_RUN = -1
"""The number by which a run is counted that the plan begins."""


def leaving_seconds(job: Job) -> int:
    """The seconds in which a run of the job has left its GPUs once it is told to."""
    return job.grace_seconds + MARGIN_SECONDS


# Who holds GPUs now: the runs of jobs' own records, because a rental lists a run only a moment after it has begun.


class _Run(NamedTuple):
    job: Job
    allocation: Allocation
    rental: Rental
    gpus: int


def _runs(snapshot: Snapshot, budgets: Iterable[BudgetId]) -> Sequence[_Run]:
    """The runs that hold GPUs on rentals of these budgets: one for each rental."""
    counted, found = frozenset(budgets), list[_Run]()
    for job in snapshot.jobs.values():
        if job.allocation is None and not job.replaced:
            continue
        over = {record.number for record in job.records}
        given = [*job.replaced, *([] if job.allocation is None else [job.allocation])]
        for allocation in given:
            gpus: dict[RentalId, int] = {}
            for place in job.trusted(allocation) if allocation.run not in over else ():
                gpus[place.rental] = gpus.get(place.rental, 0) + place.takes
            for name, takes in gpus.items():
                rental = snapshot.rentals.get(name)
                if rental is not None and rental.budget in counted:
                    found.append(_Run(job, allocation, rental, takes))
    return found


def _held(runs: Sequence[_Run], snapshot: Snapshot) -> Mapping[tuple[BudgetId, str, tuple[JobId, int]], RunGpus]:
    """The GPUs of each run by the budget of its nodes and their GPU type."""
    found: dict[tuple[BudgetId, str, tuple[JobId, int]], RunGpus] = {}
    for run in runs:
        gpu_type = gpu_type_of(run.rental, snapshot.pools)
        key = run.rental.budget, gpu_type, (run.job.id, run.allocation.run)
        before = found.get(key, RunGpus(0, 0))
        found[key] = RunGpus(before.gpus + run.gpus, leaving_seconds(run.job))
    return found


class PeriodTime(NamedTuple):
    """GPU-microseconds by GPU type of the period, by number, in which a budget is now, and of the one ``before``."""

    number: int
    used: Mapping[str, int]
    before: Mapping[str, int]


def most_of_a_period(budgets: Sequence[PeriodTime], gpu_type: str) -> int:
    """The most that the budgets used together in one of the periods in which some of them are now.

    Their periods are of one kind, but may begin at other instants, because they have time zones of their own.
    """
    return max(
        sum(
            [
                (each.used if each.number == number else each.before).get(gpu_type, 0)
                for each in budgets
                if each.number in (number, number + 1)
            ]
        )
        for number in {each.number for each in budgets}
    )


def _used(
    budget: Budget, rentals: Sequence[Rental], runs: Sequence[_Run], snapshot: Snapshot, remember: Remember
) -> PeriodTime:
    now, balance = snapshot.now, budget.balance
    present = budget.in_period_of(now)
    start, calendar = present.period[0], budget.calendar
    number = calendar.number(start)
    folded = frozenset() if present.balance is None else present.balance.folded
    used: dict[str, int] = {} if present.balance is None else dict(present.balance.gpu_time)
    for rental in rentals:
        if rental.uid not in folded:
            held = remember(ended_in, rental, start) + held_on(rental, start, now)
            gpu_type = gpu_type_of(rental, snapshot.pools)
            used[gpu_type] = used.get(gpu_type, 0) + held
    for run in runs:
        if run.rental.budget == budget.id and run.rental.uid not in folded:
            gpu_type = gpu_type_of(run.rental, snapshot.pools)
            used[gpu_type] = used.get(gpu_type, 0) + _not_listed(run, start, now)
    before: Mapping[str, int] = {}
    if balance is not None and balance is not present.balance:
        earlier: dict[str, int] = dict(balance.gpu_time)
        for rental in rentals:
            if rental.uid not in balance.folded:
                gpu_type = gpu_type_of(rental, snapshot.pools)
                earlier[gpu_type] = earlier.get(gpu_type, 0) + held_in(rental, balance.period_start, start)
        before = earlier
    elif balance is not None and balance.history and calendar.number(balance.history[-1].start) == number - 1:
        before = balance.history[-1].gpu_time
    return PeriodTime(number, used, before)


def _not_listed(run: _Run, start: Instant, now: Instant) -> int:
    """GPU-microseconds of a run since ``start`` that its rental does not list yet: of all its GPUs, or of more GPUs
    since it was resized in place."""
    listed = [use for use in run.rental.uses if use.key == (run.job.id, run.allocation.run)]
    last = max(listed, key=lambda use: use.since, default=None)
    if last is not None and (last.until is not None or run.allocation.since <= last.since):
        return 0
    more = run.gpus - (0 if last is None else last.gpus)
    end = now if run.rental.ended is None else min(now, run.rental.ended)
    return max(more, 0) * max(end - max(run.allocation.since, start), 0)
