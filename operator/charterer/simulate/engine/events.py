"""The events that a simulated world reports as they happen."""

from __future__ import annotations

from charterer.domain.job import Allocation
from charterer.simulate.model.node_market import SimMachine
from charterer.simulate.model.sim_job import SimJob


class WorldEvents:
    """Receives the events of a world, but not the effects of actions in it. This one ignores all of them."""

    def job_arrived(self, job: SimJob) -> None:
        """A job was submitted."""

    def job_completed(self, job: SimJob) -> None:
        """A job is complete; the GPUs of its allocation, which it keeps for reference, are free now."""

    def job_interrupted(self, job: SimJob, held: Allocation) -> None:
        """The cloud took back a machine of the job: the GPUs of ``held`` are free, and the job waits."""

    def machine_ready(self, machine: SimMachine) -> None:
        """A machine takes pods from now on."""

    def machine_lost(self, machine: SimMachine) -> None:
        """The cloud took a machine back; no job is on it any more."""
