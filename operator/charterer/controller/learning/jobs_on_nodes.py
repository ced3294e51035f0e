"""The GPU type of which a report tells, where jobs share GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from charterer.domain.ids import RentalId
from charterer.domain.job import Job
from charterer.domain.pool import Offering
from charterer.domain.snapshot import Snapshot
from charterer.gpu_types import whole_type


@dataclass(slots=True)
class JobsOnNodes:
    """How many jobs are on each node, counted once a snapshot."""

    _of: Snapshot | None = None
    _jobs: Counter[RentalId] = field(default_factory=Counter)

    def measured_type(self, job: Job, offering: Offering, snapshot: Snapshot) -> str:
        """The GPU type whose speed the job's report tells; empty where nobody knows.

        A job that shares GPUs and is alone on its node is as fast as on a whole GPU, and its node costs as much. Its
        place is worth what it costs only beside others. So reports tell of places on shared GPUs only from full nodes;
        on nodes in between nobody knows who is on the job's GPU.
        """
        if job.allocation is None or not job.allocation.option.shares_gpu:
            return offering.gpu_type
        if snapshot is not self._of:
            self._of, self._jobs = snapshot, _counted(snapshot)
        jobs = self._jobs[job.allocation.placements[0].rental]
        if jobs <= 1:
            return whole_type(offering.gpu_type)
        return offering.gpu_type if jobs >= offering.gpus_per_node else ""


def _counted(snapshot: Snapshot) -> Counter[RentalId]:
    """Jobs whose pods run, by node."""
    found = Counter[RentalId]()
    for job in snapshot.jobs.values():
        if job.allocation is not None and job.allocation.option.shares_gpu and job.has_all_pods():
            found[job.allocation.placements[0].rental] += 1
    return found
