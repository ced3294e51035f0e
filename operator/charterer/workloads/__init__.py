"""The kinds of Kubernetes objects that carry out runs: ``Workload`` creates such objects, and ``TargetKind`` adopts
objects of teams.

The package knows how to read, start, stop and resize the object of a run. ``lifecycle`` decides when to do so, and
``controller.execute`` sends the calls.
"""

from typing import Final

from charterer.cluster import kinds
from charterer.cluster.kinds import AnyKind
from charterer.workloads.adopted.job import ADOPTED_JOB
from charterer.workloads.adopted.job_set import ADOPTED_JOB_SET, ADOPTED_TRAIN_JOB
from charterer.workloads.adopted.kueue_workload import KUEUE_WORKLOAD
from charterer.workloads.adopted.ray_job import ADOPTED_RAY_JOB, QUEUED_RAY_JOBS
from charterer.workloads.adopted.target_kind import NotAdoptable, TargetKind, Write
from charterer.workloads.workload import INDEXED_JOB, NotATemplate, RunEnvironment, Workload

ADOPTED: Final[tuple[TargetKind, ...]] = (
    ADOPTED_JOB,
    ADOPTED_JOB_SET,
    ADOPTED_TRAIN_JOB,
    ADOPTED_RAY_JOB,
    KUEUE_WORKLOAD,
)
"""The kinds of objects that Charterer adopts."""

ALL_KINDS: Final[tuple[AnyKind, ...]] = (
    *kinds.COMMON,
    INDEXED_JOB.kind,
    *[adopted.kind for adopted in ADOPTED],
    QUEUED_RAY_JOBS,
)
"""Every kind that the operator watches."""

__all__ = [
    "ADOPTED",
    "ALL_KINDS",
    "INDEXED_JOB",
    "QUEUED_RAY_JOBS",
    "NotATemplate",
    "NotAdoptable",
    "RunEnvironment",
    "TargetKind",
    "Workload",
    "Write",
]
