"""Which option each waiting job should have: its class's share of the budget, or its own best when partly done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from purser.domain.ids import JobId, Rate
from purser.domain.job import Job
from purser.domain.option import Option
from purser.policy.load import GroupKey
from purser.policy.queueing import QueueKey, by_dollars, by_value, takes_wider
from purser.policy.standing import Share, Standing, key_of, rank


class Wishes:
    """The options that a budget's waiting jobs should have. A class that mixes does so by a credit counter.

    The counter is counted anew from the jobs in sight: each that holds, or first held, one of the two options.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._taken: dict[GroupKey, list[int]] = {}
        for job in standing.jobs:
            share = standing.share(job)
            before = former(job)
            if share is None or share.wider is None or before is None:
                continue
            counter = self._taken.setdefault(standing.keys[job.id], [0, 0])
            key = key_of(before)
            counter[0] += key in (key_of(share.option), key_of(share.wider))
            counter[1] += key == key_of(share.wider)

    def of(self, jobs: Iterable[Job]) -> dict[JobId, Option]:
        """Each job's option; jobs whose menu is empty are left out."""
        wanted: dict[JobId, Option] = {}
        for job in jobs:
            share = self._standing.share(job)
            if share is not None:
                wanted[job.id] = self._wish(job, share)
        return wanted

    def _wish(self, job: Job, share: Share) -> Option:
        before = former(job)
        if before is not None:
            kept = next((one for one in (share.option, share.wider) if one and key_of(one) == key_of(before)), None)
            return kept or best(share, job.remaining, self._standing.rate)
        if share.wider is None:
            return share.option
        counter = self._taken.setdefault(self._standing.keys[job.id], [0, 0])
        wider = takes_wider(counter[0], counter[1], share.mix)
        counter[0] += 1
        counter[1] += wider
        return share.wider if wider else share.option


def former(job: Job) -> Option | None:
    """The option the job has, or had when it was first counted."""
    if job.allocation is not None:
        return job.allocation.option
    if job.records:
        return job.records[-1].option
    return job.replaced[-1].option if job.replaced else None


def best(share: Share, remaining: float | None, rate: Rate) -> Option:
    """The best option at θ* for what this job has left."""
    if remaining is None:
        return share.ranked[0]
    return rank(share.group.menu.options, remaining, rate, share.group.weight)[0]


def in_order(jobs: Sequence[Job], wanted: dict[JobId, Option], standing: Standing) -> list[Job]:
    """The queue: jobs with an option, in the order in which they are offered GPUs."""

    def key(job: Job) -> QueueKey:
        share = standing.share(job)
        if standing.feasible or share is None:
            return by_value(job, wanted[job.id])
        work = share.group.work if job.remaining is None else job.remaining
        return by_dollars(job, wanted[job.id], work)

    return sorted((job for job in jobs if job.id in wanted), key=key)
