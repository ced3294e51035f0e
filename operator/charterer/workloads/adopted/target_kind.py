"""The interface between a TrainingJob and the adopted object of its team (docs/development/adr/0017).

Every implementation keeps these rules, and the code outside this package relies on them:

- The methods are pure: they read the raw object as the API server returned it, and return the writes.
- They write ``suspend``, the width, the scheduling fields of the pod template and Charterer's own annotations. To fail
  an object that was given up, they also write the field or condition on which its controller acts. They write nothing
  else.
- The first ``place`` notes the values that it changes in the annotation ``charterer.dev/original``. So the object can
  be given back, or adopted again, after its TrainingJob is gone.
- Each write tests uid and resourceVersion. So it either changes the object that was read, or changes nothing.
- ``place`` and ``restore`` are called only for stopped objects. The API server refuses their writes until the last pods
  have ended.
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
    """The object stays unchanged. The text gives the reason with field, value and remedy."""


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch of the object at ``path``. A merge patch would not do, because it would replace the lists in JobSets
    and RayJobs.

    ``own``: the path is that of the adopted object, and not of an object that its controller made.
    """

    path: str
    operations: tuple[Mapping[str, Any], ...]
    own: bool = True


class TargetKind(Protocol):
    """One kind of adopted object."""

    @property
    def name(self) -> str:
        """The kind as objects name it, such as Job."""
        ...

    @property
    def kind(self) -> WatchedKind[Target]:
        """The watched kind: the resource, and the decoder of labelled objects.

        The kind is ``optional`` if a CRD defines it.
        """
        ...

    def read(self, raw: Raw) -> Target:
        """The object as a Target, with or without the label."""
        ...

    def shadow(self, raw: Raw) -> Json:
        """The spec of the object's TrainingJob, without its ``targetRef``. Raises NotAdoptable."""
        ...

    def selector(self, raw: Raw) -> str:
        """The label selector of all pods that the object's controllers made for it, of any run."""
        ...

    def place(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """Turn the stopped object into the allocation's run: labels, annotation, selector, tolerations and width."""
        ...

    def start(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """Let the pods of the allocation's run start."""
        ...

    def stop(self, raw: Raw) -> Sequence[Write]:
        """Stop the object. Its pods get SIGTERM and their grace period.

        Returns no write if the object is stopped already.
        """
        ...

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """Change the width of a running object. The pods with the lowest indexes stay. ``retries``: see
        ``Workload.resize``.

        ``leaving``: names of the pods that end, if pods have no indexes of their own. The method is called only for
        objects whose ``shadow`` says InPlace.
        """
        ...

    def fail(self, raw: Raw, reason: str, message: str, now: Instant) -> Sequence[Write]:
        """Let the stopped object's own controller fail it, and note the reason.

        Not called for objects that Kueue starts.
        """
        ...

    def restore(self, raw: Raw) -> Sequence[Write]:
        """Restore the stopped object as its author wrote it, from the note of ``place``."""
        ...


def patch_of(path: str, raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
    """One write of the operations onto the object as it was read. If there are no operations, no write."""
    if not operations:
        return ()
    meta = raw["metadata"]
    seen = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
    return (Write(path, (uid_test(meta["uid"]), seen, *operations)),)
