"""The kinds of Kubernetes object that carry out a run: ``Workload`` makes them, ``TargetKind`` takes those of teams.

What a run's object looks like, how it is read, stopped, started and resized belongs here; when that is done does not
(``lifecycle`` decides it, ``controller.execute`` sends it).
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
"""The kinds of object that are adopted."""

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
