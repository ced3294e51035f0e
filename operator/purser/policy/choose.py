"""What each waiting job looks at when it chooses, and the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from purser.domain.ids import JobId
from purser.domain.job import Job
from purser.domain.option import Option
from purser.policy.course import OptionKey, key_of
from purser.policy.load import GroupKey
from purser.policy.prospects import Outcome, Prospects
from purser.policy.queueing import QueueKey, by_dollars, by_value, takes_wider
from purser.policy.standing import Share, Standing


class Lots:
    """Which of a mixing class's two paths each job takes: by a credit counter, once per job.

    The counter is counted anew from the jobs in sight: each that holds, or first held, the first option of a path.
    Paths that begin alike tell nothing of who took which: then a job's uid decides.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._taken: dict[GroupKey, list[int]] = {}

    def prospects(self, job: Job, share: Share) -> Prospects:
        """The prospects of a waiting job; asked once for each new one, in order of creation."""
        if not _tells(share):
            return share.by_lot(job)
        before = former(job)
        if before is not None:
            return share.for_wider if key_of(before) == _wider_key(share) else share.prospects
        counter = self._counter(job, share)
        wider = takes_wider(counter[0], counter[1], share.mix)
        counter[0] += 1
        counter[1] += wider
        return share.for_wider if wider else share.prospects

    def _counter(self, job: Job, share: Share) -> list[int]:
        """How many of the job's group took one of the paths, and how many of them the wider; counted when asked for."""
        key = self._standing.key(job)
        if key not in self._taken:
            alike = [former(one.job) for one in self._standing.jobs if one.key == key]
            had = [key_of(option) for option in alike if option is not None]
            taken = [one == _wider_key(share) for one in had if one in (key_of(share.path[0]), _wider_key(share))]
            self._taken[key] = [len(taken), sum(taken)]
        return self._taken[key]


def _tells(share: Share) -> bool:
    """Whether the first option of a job's path shows which of two it is."""
    return share.wider is not None and key_of(share.path[0]) != key_of(share.wider[0])


def _wider_key(share: Share) -> OptionKey | None:
    return None if share.wider is None else key_of(share.wider[0])


def former(job: Job) -> Option | None:
    """The option the job has, or had when it was first counted."""
    if job.allocation is not None:
        return job.allocation.option
    if job.records:
        return job.records[-1].option
    return job.replaced[-1].option if job.replaced else None


def wishes(jobs: Iterable[Job], standing: Standing) -> dict[JobId, Sequence[Outcome]]:
    """Each waiting job's options, best first; jobs whose menu is empty are left out."""
    lots = Lots(standing)
    found: dict[JobId, Sequence[Outcome]] = {}
    for job in jobs:
        share = standing.share(job)
        if share is not None:
            found[job.id] = lots.prospects(job, share).entering(share.position(job))
    return found


def in_order(jobs: Sequence[Job], wanted: Mapping[JobId, Sequence[Outcome]], standing: Standing) -> list[Job]:
    """The queue: jobs with an option, in the order in which they are offered GPUs."""

    def key(job: Job) -> QueueKey:
        best = wanted[job.id][0]
        return by_value(job, best.option) if standing.feasible else by_dollars(job, best.dollars)

    return sorted((job for job in jobs if job.id in wanted), key=key)
