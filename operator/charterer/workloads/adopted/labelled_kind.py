"""What the kinds of object have in common that opt in by a label of their own, and start and stop by ``suspend``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.names import LABEL_ADOPT
from charterer.cluster.paths import Resource
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job
from charterer.domain.jobs.target import Target, TargetRef
from charterer.workloads.adopted.noted import stop_operations, suspend_changes
from charterer.workloads.adopted.target_kind import Write, patch_of


class LabelledKind(ABC):
    """See ``TargetKind``, of which it is the part that is alike. ``name``: the kind as objects name it.

    ``watched``: its name among the watched kinds, if that is another one. ``optional``: a CRD defines it.
    """

    def __init__(self, name: str, resource: Resource, *, watched: str = "", optional: bool = True) -> None:
        self.name = name
        self._resource = resource
        self.kind: WatchedKind[Target] = WatchedKind(
            watched or name, resource, self._labelled, labels=f"{LABEL_ADOPT}=true", optional=optional
        )

    @abstractmethod
    def read(self, raw: Raw) -> Target:
        """See ``TargetKind.read``."""

    def start(self, raw: Raw, job: Job, allocation: Allocation) -> Sequence[Write]:
        """See ``TargetKind.start``."""
        return self._patched(raw, suspend_changes(raw, False))

    def stop(self, raw: Raw) -> Sequence[Write]:
        """See ``TargetKind.stop``. One that nobody placed is noted as held, since its author did not suspend it."""
        return self._patched(raw, stop_operations(raw))

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. Never asked for where ``shadow`` does not say InPlace."""
        return ()

    def _labelled(self, raw: Raw) -> Target | None:
        """An object with the label; None for any other."""
        labels = raw["metadata"].get("labels") or {}
        return self.read(raw) if labels.get(LABEL_ADOPT) == "true" else None

    def _ref(self, meta: ObjectMeta) -> TargetRef:
        return TargetRef(f"{self._resource.group}/{self._resource.version}", self.name, meta.name, meta.uid)

    def _patched(self, raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
        meta = raw["metadata"]
        return patch_of(self._resource.one(meta["name"], meta["namespace"]), raw, operations)
