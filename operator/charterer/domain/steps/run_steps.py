"""Steps on runs, each an Indexed Job or an adopted object, and on the adopted objects themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from charterer.domain.ids import JobId, NodeName
from charterer.domain.job import RunRecord
from charterer.domain.jobs.finish import Finish
from charterer.domain.jobs.group import TrainingGroup
from charterer.domain.jobs.pod import Pod
from charterer.domain.jobs.target import Target
from charterer.domain.snapshot import Orphan
from charterer.domain.steps.rental_steps import Cordon, MarkDraining


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create the job's headless Service."""

    job: JobId


@dataclass(frozen=True, slots=True)
class CreateRun:
    """Create the Job of the allocation's run, suspended."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class LabelNode:
    """Set (or with value None remove) one label of a node; ``job`` may be gone when its label is removed."""

    job: JobId
    node: NodeName
    uid: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Unsuspend:
    """Let the run's pods start, by a patch that carries the Job's resourceVersion.

    Only after an uncached list by the job's uid shows that no pod of another run is live.
    """

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopRun:
    """Suspend the run, or delete the pods of one in deletion: they get SIGTERM and their checkpoint grace."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class StopOrphan:
    """Stop a run whose TrainingJob is gone in the same way, once an uncached look says so too."""

    orphan: Orphan


@dataclass(frozen=True, slots=True)
class ResizeRun:
    """InPlace: parallelism and completions in one patch, and how many more of the run's pods may fail (``retries``)."""

    job: JobId
    run: int
    completions: int
    retries: int = 0


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """InPlace: record which pods should train together, and what their leader said of it.

    ``counts``: the width of the allocation counts from now on, instead of that from which the run was resized.
    """

    job: JobId
    group: TrainingGroup
    counts: bool = False


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Write the allocation annotation onto a pod (JSON patch with a test on its uid)."""

    job: JobId
    pod: Pod
    allocation: str


class RunWarning(StrEnum):
    """What was wrong with a run that Charterer stopped, in a word for its owner."""

    KILLED_AFTER_GRACE = "KilledAfterGrace"
    STOPPED_WITH_ZERO = "StoppedWithZero"


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Record a run's end in the TrainingJob's status, once an uncached list shows that none of its pods is live.

    The same write clears the allocation when it is this run's and takes the run out of ``replaced``, counts a failure
    (FAILED) or a restart (INTERRUPTED), and sets ``finish``. ``warning``: what its owner should correct in a run that
    was stopped.
    """

    job: JobId
    record: RunRecord
    finish: Finish | None
    warning: RunWarning | None = None


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete the Job object of a run that is recorded or that status does not name.

    In the foreground and with a test on its uid: the object stays in sight until its pods are gone.
    """

    job: JobId
    run: int
    uid: str


@dataclass(frozen=True, slots=True)
class AdoptTarget:
    """Make the TrainingJob of a labelled object; one that runs without a pod that has begun is stopped first."""

    target: Target


@dataclass(frozen=True, slots=True)
class EditJob:
    """Give the TrainingJob of an adopted object what the object's author asks for by now."""

    job: JobId


@dataclass(frozen=True, slots=True)
class LetGo:
    """Give an object that is held back as its author wrote it, although no TrainingJob stands for it.

    Of one in deletion the ``pods`` are ended that Charterer placed.
    """

    target: Target
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishJob:
    """Record that the job has ended, as its adopted object says of itself, while it has no run."""

    job: JobId
    finish: Finish


@dataclass(frozen=True, slots=True)
class EndTarget:
    """Let the adopted object of a job that was given up have an end, or give it back, as its author asks.

    ``closes``: see ``GiveBack``.
    """

    job: JobId
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Stop the job's adopted object and give it back as its author wrote it, and then delete the TrainingJob.

    ``record``: of a run that is recorded first, once its pods are gone. ``closes``: gives back the machines that only
    it used, before it could begin on them.
    """

    job: JobId
    because: str
    record: RecordRun | None = None
    closes: tuple[MarkDraining | Cordon, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the finished TrainingJob whose ttlSecondsAfterFinished has passed."""

    job: JobId


RunStep = (
    CreateService
    | CreateRun
    | LabelNode
    | Unsuspend
    | StopRun
    | StopOrphan
    | ResizeRun
    | RecordGroup
    | AnnotatePod
    | RecordRun
    | DeleteRun
    | DeleteJob
    | AdoptTarget
    | EditJob
    | LetGo
    | FinishJob
    | EndTarget
    | GiveBack
)
