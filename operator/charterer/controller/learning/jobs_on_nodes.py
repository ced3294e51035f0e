"""The GPU type of which a report tells, where jobs share GPUs, and the class of the job beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from charterer.domain.ids import ClassId, RentalId
from charterer.domain.job import Job
from charterer.domain.pool import Offering
from charterer.domain.snapshot import Snapshot
from charterer.gpu_types import whole_type


@dataclass(slots=True)
class JobsOnNodes:
    """The jobs on each node that share GPUs, found once a snapshot."""

    _of: Snapshot | None = None
    _jobs: dict[RentalId, list[Job]] = field(default_factory=dict)

    def measured_type(self, job: Job, offering: Offering, snapshot: Snapshot) -> str:
        """The GPU type whose speed the job's report tells; empty where nobody knows.

        A job that shares GPUs and is alone on its node is as fast as on a whole GPU, and its node costs as much. Its
        place is worth what it costs only beside others. So reports tell of places on shared GPUs only from full nodes;
        on nodes in between nobody knows who is on the job's GPU.
        """
        if job.allocation is None or not job.allocation.option.shares_gpu:
            return offering.gpu_type
        jobs = len(self._beside(job, snapshot)) + 1
        if jobs <= 1:
            return whole_type(offering.gpu_type)
        return offering.gpu_type if jobs >= offering.gpus_per_node else ""

    def partner(self, job: Job, offering: Offering, snapshot: Snapshot) -> ClassId | None:
        """The class of the one job that trains on the job's GPU too; None where that is not known.

        Where a node has several GPUs nobody knows who is on which. A job that has not reported from its present run may
        still be starting, and disturbs nobody then.
        """
        if job.allocation is None or not job.allocation.option.shares_gpu or offering.gpus_per_node != 2:
            return None
        others = self._beside(job, snapshot)
        if len(others) != 1 or offering.slices_per_gpu != 2:
            return None
        other, run = others[0], others[0].allocation
        variant = None if run is None else other.variant(run.option.variant)
        trains = run is not None and other.progress is not None and other.progress.run == run.run
        return variant.class_id if variant is not None and trains and variant.class_id.has_profile else None

    def _beside(self, job: Job, snapshot: Snapshot) -> list[Job]:
        """The other jobs on its node that share its GPUs."""
        if snapshot is not self._of:
            self._of, self._jobs = snapshot, _by_node(snapshot)
        assert job.allocation is not None
        there = self._jobs.get(job.allocation.placements[0].rental, ())
        return [other for other in there if other.id != job.id]


def _by_node(snapshot: Snapshot) -> dict[RentalId, list[Job]]:
    """Jobs whose pods run, by node."""
    found: dict[RentalId, list[Job]] = {}
    for job in snapshot.jobs.values():
        if job.allocation is not None and job.allocation.option.shares_gpu and job.has_all_pods():
            found.setdefault(job.allocation.placements[0].rental, []).append(job)
    return found
