"""Which jobs choose alike: those of one class with the same menu and weight."""

from __future__ import annotations

from charterer.domain.ids import NO_PROFILE, ClassId
from charterer.domain.job import Job, RunOutcome
from charterer.domain.nodes.demands import NO_OFFERS, NodeOffers
from charterer.policy.jobs.predicates import fewest_pods
from charterer.policy.options.menu_key import NOWHERE, MenuKey

GroupKey = tuple[ClassId, MenuKey, float]
"""Class, what decides the menu, and weight."""


def menu_key(job: Job, classes: frozenset[ClassId], tries: bool = False, offers: NodeOffers = NO_OFFERS) -> MenuKey:
    """The key of a job's menu. ``classes``: those that have a profile; ``tries``: see ``MenuKey``."""
    known = job.class_id if job.class_id in classes else None
    widths, failed = job.widths, NOWHERE
    if (known is not None or job.variants) and job.failures:
        ended = (record.option for record in job.records if record.outcome is RunOutcome.FAILED)
        failed = frozenset((option.pool, option.gpus, option.variant) for option in ended)
    return MenuKey(
        known,
        widths.min,
        widths.preferred,
        widths.max,
        job.gpu_types,
        job.spot,
        fewest_pods(job),
        failed,
        widths.slices,
        widths.shared_mib,
        job.variants,
        tries,
        widths.each,
        offers.limits(job.demands, widths.each),
    )


def group_key(job: Job, classes: frozenset[ClassId], tries: bool = False, offers: NodeOffers = NO_OFFERS) -> GroupKey:
    """Which group a job belongs to; jobs without a profile that are alike are one group, whatever their uid."""
    key = menu_key(job, classes, tries, offers)
    class_id = job.class_id if key.class_id is not None else NO_PROFILE
    return class_id, key, job.weight
