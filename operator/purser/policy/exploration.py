"""Trials: moving one running job of a class to a width of which too little is known, to learn it from its reports.

What to try next is said by the class's profile (``estimate.probe``). A trial is paid from a part of the budget's
amount, ``explorationPercent``, at the whole price of its GPUs for the time that it takes to get there and be measured;
what it teaches is used by all jobs of the class to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from math import ceil

from purser.domain.ids import ClassId
from purser.domain.job import Allocation, Job, ResizePolicy
from purser.domain.money import ZERO, Money
from purser.domain.option import Option
from purser.domain.period import period_bounds
from purser.domain.plan import Allocate, Reason, Why
from purser.domain.profile import Trial
from purser.domain.snapshot import Snapshot
from purser.domain.time import Instant, after, seconds_between
from purser.policy import explain
from purser.policy.course import key_of
from purser.policy.draft import Draft
from purser.policy.moving import Moving
from purser.policy.reading import Reading

TRIAL_SECONDS = 300.0
"""A run is measured within so long of its first step: a job reports every ten seconds, the first report after a start
is not counted, and a probe's twenty steps take two minutes at most (``estimate.probe``)."""
LEAST_LIFE = 10.0
"""A job is not tried with whose end is nearer than so many trials: it would pay the delay and gain nothing."""


def held(job: Job, snapshot: Snapshot) -> bool:
    """Whether the job is where it is to be measured, and has not been yet."""
    allocation, profile = job.allocation, snapshot.profiles.get(job.class_id)
    if allocation is None or not allocation.option.trial or profile is None or profile.trial is None:
        return False
    return _is(profile.trial, allocation.option, snapshot) and snapshot.now < _ends(allocation)


class Exploring:
    """Begins trials with one budget's running jobs in its draft, after those that move for other reasons."""

    def __init__(self, draft: Draft, moving: Moving) -> None:
        self._draft = draft
        self._moving = moving
        self._snapshot = draft.snapshot

    def explore(self, running: Iterable[Reading]) -> None:
        """At most one trial of a class at a time, with the job that has the most work left."""
        budget, profiles = self._draft.standing.budget, self._snapshot.profiles
        wanted = {name: profile.trial for name, profile in profiles.items() if profile.trial is not None}
        if not wanted or not budget.exploration_percent or not self._draft.standing.feasible:
            return
        placed = {one.job for one in self._draft.decided.places if isinstance(one, Allocate)}
        candidates: dict[ClassId, list[Reading]] = {}
        for one in running:
            if one.settled and one.job.class_id in wanted and one.job.id not in placed:
                candidates.setdefault(one.job.class_id, []).append(one)
        purse = Money(budget.amount.micros * budget.exploration_percent // 100) - self._spent()
        for class_id, readings in candidates.items():
            trial = wanted[class_id]
            if not self._under_way(class_id, trial):
                readings.sort(key=lambda one: (-(one.job.remaining or 0.0), one.order))
                costs = (self._try(one.job, trial, purse) for one in readings)
                purse -= next((cost for cost in costs if cost is not None), ZERO)

    def _under_way(self, class_id: ClassId, trial: Trial) -> bool:
        """Whether a job of the class is there already: it will report, or never."""
        places = (one.job.allocation for one in self._draft.standing.jobs if one.job.class_id == class_id)
        return any(place is not None and _is(trial, place.option, self._snapshot) for place in places)

    def _try(self, job: Job, trial: Trial, purse: Money) -> Money | None:
        """What the trial will cost, where it begins or waits for its nodes."""
        share = self._draft.standing.share(job)
        if share is None or job.allocation is None or job.resize is ResizePolicy.NEVER:
            return None
        left = share.position(job).left / job.allocation.option.speed if job.remaining else 0.0
        for option in sorted(share.prospects.menu.options, key=lambda one: (one.price, one.pool)):
            if not _is(trial, option, self._snapshot) or _tried(job, option):
                continue
            seconds = option.entry_seconds + TRIAL_SECONDS
            cost = option.price.cost(ceil(seconds))
            if cost > purse or left < LEAST_LIFE * seconds:
                continue
            text = f"{explain.name(option)} is tried for the class: {trial.why}; {cost} of {purse} left for trials"
            why = partial(Reason, Why.EXPLORING, 0.0, cost, text, job.allocation.option)
            if self._moving.go(job, job.allocation, replace(option, trial=True), why):
                return cost
        return None

    def _spent(self) -> Money:
        """What trials have cost in this period, one that goes on with all that it may."""
        start = period_bounds(self._draft.standing.budget.time_zone, self._snapshot.now)[0]
        spent = ZERO
        for job in (one.job for one in self._draft.standing.jobs):
            for record in job.records:
                if record.option.trial:
                    ended = min(record.until, after(record.since, record.option.entry_seconds + TRIAL_SECONDS))
                    spent += _cost(record.option, max(record.since, start), ended)
            if job.allocation is not None and job.allocation.option.trial:
                spent += _cost(job.allocation.option, max(job.allocation.since, start), _ends(job.allocation))
        return spent


def _is(trial: Trial, option: Option, snapshot: Snapshot) -> bool:
    pool = snapshot.pools.get(option.pool)
    gpu_type = None if pool is None or pool.offering is None else pool.offering.gpu_type
    return (gpu_type, option.gpus) == (trial.gpu_type, trial.gpus)


def _tried(job: Job, option: Option) -> bool:
    """Whether a trial with this job has come to nothing there before."""
    return any(record.option.trial and key_of(record.option) == key_of(option) for record in job.records)


def _ends(allocation: Allocation) -> Instant:
    return after(allocation.since, allocation.option.entry_seconds + TRIAL_SECONDS)


def _cost(option: Option, since: Instant, until: Instant) -> Money:
    return option.price.cost(ceil(max(seconds_between(since, until), 0.0)))
