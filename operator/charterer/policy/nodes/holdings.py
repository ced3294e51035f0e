"""Who holds which GPUs.

The GPUs that a job holds on a node are the larger of what its allocation names there and what its live pods (or a run
that is not yet recorded) hold there: runs of one job never overlap, because the hand-over waits until the older run's
pods are gone. An allocation that is not believed (``Job.doubts``) holds nothing; pods hold what they use. Nor does
one of a job that is being deleted: it gets no pods any more, and a foreign finalizer may keep its object for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from charterer.domain.ids import NodeName, RentalId
from charterer.domain.job import Job, Placement
from charterer.incremental import Memo
from charterer.policy.jobs.groups import JobGroup

HeldGpus = Mapping[RentalId, int]


def by_rental(placements: Iterable[Placement]) -> dict[RentalId, int]:
    """GPUs of placements by rental."""
    gpus: dict[RentalId, int] = {}
    for place in placements:
        gpus[place.rental] = gpus.get(place.rental, 0) + place.takes
    return gpus


def held_by(job: Job, rental_of: Mapping[NodeName, RentalId]) -> HeldGpus:
    """The GPUs the job holds, by rental: the most of its allocation, its live pods and any run not yet recorded."""
    held: dict[RentalId, int] = {}
    living: dict[RentalId, int] = {}
    for run in job.runs:
        for pod in run.pods:
            rental = rental_of.get(pod.node) if pod.node is not None and pod.live else None
            if rental is not None:
                living[rental] = living.get(rental, 0) + pod.gpus
    for allocation in (job.allocation, *job.replaced):
        if allocation is not None and not job.deleting:
            for rental, gpus in by_rental(job.trusted(allocation)).items():
                held[rental] = max(held.get(rental, 0), gpus)
    for rental, gpus in living.items():
        held[rental] = max(held.get(rental, 0), gpus)
    return held


@dataclass(frozen=True, slots=True, eq=False)
class Holdings:
    """Use of a rental by all jobs: ``used`` GPUs, and ``grace``, the longest that a job there is given to end."""

    used: HeldGpus
    grace: Mapping[RentalId, int]
    rental_of: Mapping[NodeName, RentalId]

    def held(self, job: Job) -> HeldGpus:
        """The GPUs that the job holds."""
        return held_by(job, self.rental_of)


def holdings(groups: Iterable[JobGroup], rental_of: Mapping[NodeName, RentalId], memo: Memo) -> Holdings:
    """The GPUs that the jobs of all groups hold."""
    members = tuple(groups)
    return memo.within(_holdings, members, rental_of)


def _holdings(groups: Sequence[JobGroup], rental_of: Mapping[NodeName, RentalId], memo: Memo) -> Holdings:
    held = [memo(_held_by_group, group, tuple(map(rental_of.get, group.nodes))) for group in groups]
    same = memo.stable(
        dict(zip([(group.members[0].job.budget, group.key) for group in groups], held, strict=True)), "held"
    )
    return memo(_sum_up, tuple(same.values()), rental_of)


_GroupHoldings = Mapping[RentalId, tuple[int, int]]


def _held_by_group(group: JobGroup, rentals: Sequence[RentalId | None]) -> _GroupHoldings:
    """GPUs and grace of a group's jobs by rental. ``rentals``: of the nodes on which they have pods."""
    rental_of = {node: rental for node, rental in zip(group.nodes, rentals, strict=True) if rental is not None}
    total: dict[RentalId, tuple[int, int]] = {}
    for facts in group.members:
        for rental, gpus in held_by(facts.job, rental_of).items():
            used, grace = total.get(rental, (0, 0))
            total[rental] = used + gpus, max(grace, facts.job.grace_seconds)
    return total


def _sum_up(groups: Sequence[_GroupHoldings], rental_of: Mapping[NodeName, RentalId]) -> Holdings:
    used: dict[RentalId, int] = {}
    graces: dict[RentalId, int] = {}
    for held in groups:
        for rental, (gpus, grace) in held.items():
            used[rental] = used.get(rental, 0) + gpus
            graces[rental] = max(graces.get(rental, 0), grace)
    return Holdings(used, graces, rental_of)
