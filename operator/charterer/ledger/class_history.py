"""Finished jobs, folded into a budget's balance once each: the memory that κ and the rates of arrival come from.

Money is summed exactly (``jobs_cost``); what is learned of a class forgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from charterer.domain.budget import HISTORY_HALF_LIFE_SECONDS, WEEK_SECONDS, Balance, ClassHistory, decay
from charterer.domain.ids import ClassId
from charterer.domain.steps import CountedJob, CountJobs
from charterer.domain.time import after, seconds_between

UIDS_KEPT_SECONDS = 86_400.0
"""Seconds before the latest counted finish for which uids are kept: a finish may come to light a day late at most."""
CLASSES_KEPT = 1_000
"""A class that no job of has finished for the longest time is forgotten first."""


def learn(known: ClassHistory | None, job: CountedJob) -> ClassHistory:
    """The sums with one more job; of one that was predicted to cost nothing only that it came."""
    before = (known or ClassHistory(0.0, 0.0, 0.0, 0.0, job.created, job.finished)).aged(job.finished)
    age = seconds_between(job.created, before.at)
    came = replace(
        before,
        came=before.came + decay(age, HISTORY_HALF_LIFE_SECONDS),
        came_lately=before.came_lately + decay(age, WEEK_SECONDS),
        since=min(before.since, job.created),
    )
    predicted, actual = job.predicted.dollars, job.actual.dollars
    if predicted <= 0:
        return came
    return replace(
        came,
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
    classes = dict(balance.experience)
    for job in sorted(fresh, key=lambda one: (one.finished, one.uid)):
        classes[job.class_id] = learn(classes.get(job.class_id), job)
    through = after(max(job.finished for job in fresh), -UIDS_KEPT_SECONDS)
    if balance.counted_through is not None:
        through = max(balance.counted_through, through)
    counted = {**balance.counted, **{job.uid: job.finished for job in fresh}}
    return replace(
        balance,
        experience=_kept(classes),
        jobs_cost=sum((job.actual for job in fresh), balance.jobs_cost),
        counted={uid: at for uid, at in counted.items() if at > through},
        counted_through=through,
    )


def _kept(classes: Mapping[ClassId, ClassHistory]) -> Mapping[ClassId, ClassHistory]:
    latest = sorted(classes, key=lambda one: (-classes[one].at, one))[:CLASSES_KEPT]
    return {class_id: classes[class_id] for class_id in sorted(latest)}
