"""The kinds of Kubernetes object that carry out a run: the protocol ``Workload`` and its one implementation.

What a run's object looks like, how it is read, stopped, started and resized belongs here; when that is done does not
(``lifecycle`` decides it, ``controller.execute`` sends it).
"""

from typing import Final

from charterer.cluster import kinds
from charterer.cluster.kinds import AnyKind
from charterer.workloads.indexed_job import INDEXED_JOB
from charterer.workloads.workload import NotATemplate, RunEnvironment, Workload

ALL_KINDS: Final[tuple[AnyKind, ...]] = (*kinds.COMMON, INDEXED_JOB.kind)
"""Every kind that the operator watches."""

__all__ = ["ALL_KINDS", "INDEXED_JOB", "NotATemplate", "RunEnvironment", "Workload"]
