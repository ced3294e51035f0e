"""The interfaces of a simulated world: the events that it reports, and what it asks of knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from charterer.domain.ids import ClassId
from charterer.domain.job import Allocation
from charterer.domain.profile import Profile
from charterer.domain.time import Instant
from charterer.tools.simulator.model.node_market import SimMachine
from charterer.tools.simulator.model.sim_job import SimJob

# The interface to knowledge of the job classes. The world calls it, and ``knowledge`` implements it.


class Knowledge(Protocol):
    """The profiles of the classes, and what trainers' reports add to them."""

    @property
    def report_seconds(self) -> float:
        """Seconds between two reports of a job in training. Infinite if reports would say nothing new."""

    def profiles(self) -> Mapping[ClassId, Profile]:
        """The profiles as of now. The same objects are returned until a profile changes."""

    def expected_work(self, job: SimJob) -> float | None:
        """The expected work of the whole job, in reference seconds of its class's profile, or None if unknown."""

    def batch(self, job: SimJob) -> int:
        """The total batch size with which a job trains from now on, or 0 for the best one of each epoch."""

    def receive_report(self, job: SimJob, at: Instant) -> None:
        """A job in training reports."""


class WorldEvents:
    """Receives the events of a world, except the effects of a policy's own actions. This class ignores all events."""

    def job_arrived(self, job: SimJob) -> None:
        """A job was submitted."""

    def job_completed(self, job: SimJob) -> None:
        """A job is complete. The GPUs of its allocation are free now. The job keeps the allocation only for
        reference.
        """

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        """The cloud took back a machine of the job. The GPUs of ``held`` are free, and the job waits."""

    def machine_ready(self, machine: SimMachine) -> None:
        """A machine takes pods from now on."""

    def machine_lost(self, machine: SimMachine) -> None:
        """The cloud took a machine back. No job is on it any more."""
