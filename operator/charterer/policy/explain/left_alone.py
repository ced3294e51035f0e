"""Widths that a job asks for and may not have, because runs failed there."""

from __future__ import annotations

from dataclasses import dataclass

from charterer.domain.job import Job, RunOutcome
from charterer.domain.jobs.variant import Variant
from charterer.domain.snapshot import Snapshot
from charterer.domain.time import Instant
from charterer.gpu_types import may_use
from charterer.policy.options.width_backoff import quarantines, untested


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A width that is no option because runs failed there: until when, None where the job never goes there again."""

    gpu_type: str
    gpus: int
    until: Instant | None
    message: str
    variant: str = ""


def left_alone(job: Job, variant: Variant, snapshot: Snapshot) -> tuple[LeftAlone, ...]:
    """The widths of one of the job's variants."""
    profile, name = snapshot.profiles.get(variant.class_id), variant.name
    if profile is None:
        return ()
    found = {
        (failed.gpu_type, failed.gpus): LeftAlone(failed.gpu_type, failed.gpus, until, failed.message, name)
        for failed, until in quarantines(profile, snapshot.now)
        if variant.least <= failed.gpus <= variant.most
        and may_use(failed.gpu_type, job.gpu_types, variant.slices, variant.shared_mib)
    }
    for record in job.records if job.failures else ():
        pool = snapshot.pools.get(record.option.pool)
        failed = record.outcome is RunOutcome.FAILED and record.option.variant == name
        if failed and pool is not None and pool.offering is not None:
            width = pool.offering.gpu_type, record.option.gpus
            if untested(profile, frozenset({width})):
                found[width] = LeftAlone(*width, None, record.message, name)
    return tuple(found[width] for width in sorted(found))
