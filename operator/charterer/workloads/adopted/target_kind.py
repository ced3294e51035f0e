"""The seam between a TrainingJob and the object that its team already had (docs/development/adr/0017).

Rules that every implementation keeps, and that the code outside this package relies on:

- Its methods are pure: they look at the raw object as the API server just gave it, and return what to write.
- They write ``suspend``, the width, the scheduling fields of the pod template and Charterer's own annotations, and
  to end what is given up the field or the condition by which its controller takes it for failed. Nothing else.
- The first ``place`` notes in the annotation ``charterer.dev/original`` what it changes, so that an object can be given
  back, or adopted anew, when its TrainingJob is gone.
- Each write tests uid and resourceVersion, so that it meets the object that was looked at or nothing.
- ``place`` and ``restore`` are asked for stopped objects only, and are refused while the last pods end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from charterer.api.metadata import Raw
from charterer.api.models.base import Json
from charterer.cluster.kinds import uid_test
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.target import Target
from charterer.domain.time import Instant


class NotAdoptable(Exception):
    """The object stays as it is; the text says why, naming field and value, and what to do."""


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch of the object at ``path``. No merge patch: that replaces the lists of JobSets and RayJobs.

    ``own``: the path is that of the adopted object, not of one that its controller made.
    """

    path: str
    operations: tuple[Mapping[str, Any], ...]
    own: bool = True


class TargetKind(Protocol):
    """One kind of object that is adopted."""

    @property
    def name(self) -> str:
        """The kind as objects name it, such as Job."""
        ...

    @property
    def kind(self) -> WatchedKind[Target]:
        """Where the objects live, and how one is decoded: the labelled ones. ``optional`` where a CRD defines it."""
        ...

    def read(self, raw: Raw) -> Target:
        """The object as Charterer looks at it, whether it has the label or not."""
        ...

    def shadow(self, raw: Raw) -> Json:
        """The spec of the object's TrainingJob, without its ``targetRef``. Raises NotAdoptable."""
        ...

    def selector(self, raw: Raw) -> str:
        """The label selector of the pods that its controllers made for it, whatever their run."""
        ...

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """Make the stopped object the allocation's run: labels, annotation, selector, tolerations and width."""
        ...

    def start(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """Let the pods of the allocation's run start."""
        ...

    def stop(self, raw: Raw) -> Sequence[Write]:
        """Stop it: its pods get SIGTERM and their grace period. None where it is stopped."""
        ...

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """Change the width of what runs: the lowest indices stay. ``retries``: see ``Workload.resize``.

        ``leaving``: names of the pods that end, where they have no indices of their own.
        Asked only for objects whose ``shadow`` says InPlace.
        """
        ...

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """Let its own controller end the stopped object as failed, and note why. Not asked for what Kueue starts."""
        ...

    def restore(self, raw: Raw) -> Sequence[Write]:
        """Give the stopped object back as its author wrote it: the annotation of ``place`` says what that was."""
        ...


def patch_of(path: str, raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
    """One write of the operations onto the object as it was read; none where there are no operations."""
    if not operations:
        return ()
    meta = raw["metadata"]
    seen = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
    return (Write(path, (uid_test(meta["uid"]), seen, *operations)),)
