"""A pod of a run, and the names of runs and of their Kubernetes objects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import NodeName
from charterer.domain.time import Instant, seconds_between

RUN_LABEL_PREFIX = "run.charterer.dev/"
"""Node labels ``run.charterer.dev/<first 8 of the job's uid>: r<run>`` implement a placement (``Job.run_label``)."""


def run_name(job_name: str, run: int) -> str:
    """The name of a run and of its Kubernetes object; its pods are ``<run name>-<index>``."""
    return f"{job_name}-r{run}"


def job_of_run(name: str, run: int) -> str:
    """The name of the TrainingJob from the name and number of one of its runs."""
    return name.removesuffix(f"-r{run}")


def run_number(name: str, job_name: str | None = None) -> int | None:
    """The number of the run with this name (of the job ``job_name``, if given); None if the name is not a run's."""
    job, separator, digits = name.rpartition("-r")
    if not separator or not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
        return None
    number = int(digits)
    return number if run_name(job if job_name is None else job_name, number) == name else None


_KILLED = 137
"""The exit code of a process ended by SIGKILL."""
_CLOCK_SKEW_SECONDS = 2
"""Seconds by which the clocks of the kubelet and the API server may differ."""


class PodPhase(StrEnum):
    """A pod's status.phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a run.

    ``disrupted``: the pod has a true DisruptionTarget condition. ``allocation``: the value of its annotation.
    ``trouble``: why the pod does not run, in Kubernetes' own words (its conditions, and the waiting states of its
    containers); empty if there are none. ``must_end_by``: the end of its grace period, if it is being deleted.
    ``told_to_end``: when its deletion was requested. ``hopeless``: the pod can never start in its present form.
    ``refused``: the kubelet ended the pod before any of its containers began.
    """

    name: str
    uid: str
    run: int
    index: int
    gpus: int
    node: NodeName | None
    phase: PodPhase
    ready: bool
    deleting: bool
    disrupted: bool
    exit_code: int | None
    finished: Instant | None
    message: str
    allocation: str
    trouble: str = ""
    must_end_by: Instant | None = None
    told_to_end: Instant | None = None
    hopeless: bool = False
    refused: bool = False

    @property
    def live(self) -> bool:
        """Whether the pod has not finished, as far as known, so that it may still hold its GPUs."""
        return self.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def killed_after_grace(self) -> bool:
        """Whether the kubelet killed the pod because it was still running when its grace period ended."""
        if self.exit_code != _KILLED or self.must_end_by is None or self.finished is None:
            return False
        early = seconds_between(self.finished, self.must_end_by)
        return early <= _CLOCK_SKEW_SECONDS and not self.message.startswith("OOMKilled")

    @property
    def serves(self) -> bool:
        """Whether the pod is running, ready and not being deleted."""
        return self.phase is PodPhase.RUNNING and self.ready and not self.deleting

    @property
    def proves_completion(self) -> bool:
        """Whether the pod succeeded undisturbed. A pod that is made to stop may exit with 0 before its work is done."""
        return self.phase is PodPhase.SUCCEEDED and not self.deleting and not self.disrupted
