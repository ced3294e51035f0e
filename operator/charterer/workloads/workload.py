"""The seam between a run and the Kubernetes object that carries it out; Kueue's ``GenericJob`` is the model.

Rules that every implementation keeps, and that the code outside this package relies on:

- The object is named ``run_name(job, number)`` and owned by the TrainingJob, so that it goes with it. By that name and
  owner it is known as a run of a job in its namespace, and its pods by their controller's uid: never by labels alone.
- The object and its pods carry the labels ``charterer.dev/job-uid``, ``charterer.dev/job`` and ``charterer.dev/run``.
  Its pods carry their index as the Job controller gives it, and the annotation ``charterer.dev/allocation``.
- It is created suspended. Suspended, it has no pods, or only such as are ending with their grace period.
- It never starts a failed pod again by itself: whether there is another run is decided by ``lifecycle``.
- It is done when each of the ``Run.completions`` indices has an undisturbed Succeeded pod (``Run.unproven``). Its own
  terminal condition, decoded into ``Run.complete`` or ``Run.failed``, says only that it is time to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from charterer.cluster.client import RawObject
from charterer.cluster.store import WatchedKind
from charterer.domain.ids import JobId
from charterer.domain.job import Allocation, Job, Run


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """Where a run's pods report progress: the URL of the endpoint, and the PEM of the CA that vouches for it."""

    progress_url: str
    ca_pem: str


class NotATemplate(Exception):
    """The pod template, which the schema of TrainingJob does not look into, is malformed."""


class Workload(Protocol):
    """One kind of object that carries out runs. Its methods are pure: they make request bodies and send nothing."""

    @property
    def kind(self) -> WatchedKind[tuple[JobId, Run]]:
        """Where the objects live, which of them are runs, and how one is decoded (``Run.pods`` stays empty)."""
        ...

    def service(self, job: Job) -> RawObject:
        """The headless Service that gives the pods of all of the job's runs their names."""
        ...

    def manifest(
        self, job: Job, training_job: Mapping[str, Any], allocation: Allocation, environment: RunEnvironment
    ) -> RawObject:
        """The suspended object of the allocation's run: one pod for each placement, for the placements' nodes only.

        ``training_job`` is the raw object of ``job``, whose template the store does not keep. Raises NotATemplate, and
        ValueError when the pods of this kind cannot have the placements' widths.
        """
        ...

    def unmodified(self, job: Job, training_job: Mapping[str, Any]) -> RawObject:
        """An object with the user's template as it is, for a dry run in which the API server names its faults."""
        ...

    def suspend(self) -> RawObject:
        """The merge patch that stops a run: its pods get SIGTERM and their grace period."""
        ...

    def resume(self) -> RawObject:
        """The merge patch that lets a suspended run's pods start."""
        ...

    def resize(self, run: Run, pods: int, retries: int) -> RawObject:
        """The merge patch that changes the number of a run's pods in place: the lowest indices stay.

        ``retries`` more pods may fail from now on before the run does: pods that join must not end those that train.
        """
        ...
