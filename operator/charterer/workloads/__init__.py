"""The kinds of Kubernetes object that carry out a run: the protocol ``Workload`` and its one implementation.

What a run's object looks like, how it is read, stopped, started and resized belongs here; when that is done does not
(``lifecycle`` decides it, ``controller.execute`` sends it).
"""

from charterer.workloads.indexed_job import INDEXED_JOB
from charterer.workloads.workload import NotATemplate, RunEnvironment, Workload

__all__ = ["INDEXED_JOB", "NotATemplate", "RunEnvironment", "Workload"]
