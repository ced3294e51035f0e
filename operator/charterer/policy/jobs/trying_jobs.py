"""Which job tries a variant of which nothing is known.

It is offered to one job of the class at a time, as fast as the fastest option that is known (``options.menu``): that is
the most to be hoped, and one job, moved there and back, is what it costs to know. A job tries each variant once. If
nothing is learned of it meanwhile, as where its trainer does not report, the job leaves it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from charterer.domain.ids import ClassId, JobId
from charterer.domain.job import Job, ResizePolicy
from charterer.domain.profile import Profile
from charterer.domain.time import Instant, after
from charterer.policy.jobs.exploration_budget import TRIAL_SECONDS
from charterer.policy.options.variants import has_curve

_LATE = 2.0
"""Multiple of a trial's time after which nothing will be learned: curves follow reports within half a minute."""


def trying_jobs(jobs: Iterable[Job], profiles: Mapping[ClassId, Profile], now: Instant) -> frozenset[JobId]:
    """The jobs that may try variants without a curve: one of each class.

    The one that tries one already, otherwise the latest that runs, or the latest that waits.
    """
    first: dict[ClassId, tuple[bool, bool, int, JobId]] = {}
    for job in jobs:
        if not job.variants or job.resize is ResizePolicy.NEVER or job.target_completion is not None:
            continue
        unknown = {variant.name for variant in job.variants if not has_curve(profiles.get(variant.class_id))}
        unknown -= {record.option.variant for record in job.records}
        here = job.allocation
        if here is not None and now > after(here.since, here.option.entry_seconds + _LATE * TRIAL_SECONDS):
            unknown.discard(here.option.variant)
        if unknown and job.wants_to_run:
            rank = here is not None and here.option.variant in unknown, here is not None, job.created, job.id
            first[job.class_id] = max(rank, first.get(job.class_id, rank))
    return frozenset([job_id for *_, job_id in first.values()])
