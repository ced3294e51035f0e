"""Finished jobs, counted once each in a budget's balance. κ and the rates of arrival are estimated from these sums.

Money is summed exactly (``jobs_cost``); the statistics of a class forget with time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.budget import HISTORY_HALF_LIFE_SECONDS, WEEK_SECONDS, Balance, ClassHistory, decay
from charterer.domain.ids import ClassId
from charterer.domain.steps import CountedJob, CountJobs
from charterer.domain.time import after, seconds_between

UIDS_KEPT_SECONDS = 86_400.0
"""Seconds a counted job's uid is kept: a day, the latest that a finish may be seen after others that came later."""
CLASSES_KEPT = 1_000
"""Most classes in a balance, to bound its size; the class whose last job finished longest ago is dropped first."""


def learn(history: ClassHistory | None, job: CountedJob) -> ClassHistory:
    """The sums with one more job; a job that was predicted to cost nothing counts as an arrival only."""
    before = (history or ClassHistory(0.0, 0.0, 0.0, 0.0, job.created, job.finished)).aged(job.finished)
    age, arrived = seconds_between(job.created, before.at), 0.0 if job.opening else 1.0
    with_arrival = replace(
        before,
        arrivals=before.arrivals + arrived * decay(age, HISTORY_HALF_LIFE_SECONDS),
        recent_arrivals=before.recent_arrivals + arrived * decay(age, WEEK_SECONDS),
        since=min(before.since, job.created),
    )
    predicted, actual = job.predicted.dollars, job.actual.dollars
    if predicted <= 0:
        return with_arrival
    return replace(
        with_arrival,
        jobs=before.jobs + 1.0,
        predicted=before.predicted + predicted,
        actual=before.actual + actual,
        squares=before.squares + actual**2 / predicted,
    )


def apply_count(balance: Balance, step: CountJobs) -> Balance:
    """Add the jobs that are not in the sums yet; the same sums when all of them are."""
    fresh = [job for job in step.jobs if not balance.counts(job.uid, job.finished)]
    if not fresh:
        return balance
    classes = dict(balance.class_history)
    for job in sorted(fresh, key=lambda counted: (counted.finished, counted.uid)):
        classes[job.class_id] = learn(classes.get(job.class_id), job)
    through = after(max(job.finished for job in fresh), -UIDS_KEPT_SECONDS)
    if balance.counted_through is not None:
        through = max(balance.counted_through, through)
    counted = {**balance.counted, **{job.uid: job.finished for job in fresh}}
    return replace(
        balance,
        class_history=_kept(classes),
        jobs_cost=sum((job.actual for job in fresh), balance.jobs_cost),
        counted={uid: at for uid, at in counted.items() if at > through},
        counted_through=through,
    )


def _kept(classes: Mapping[ClassId, ClassHistory]) -> Mapping[ClassId, ClassHistory]:
    latest = sorted(classes, key=lambda class_id: (-classes[class_id].at, class_id))[:CLASSES_KEPT]
    return {class_id: classes[class_id] for class_id in sorted(latest)}
