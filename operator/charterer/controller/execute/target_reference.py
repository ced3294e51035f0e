"""How a TrainingJob names the object that it stands for."""

from __future__ import annotations

from charterer.api.names import ANNOTATION_GPUS
from charterer.cluster.client import RawObject
from charterer.domain.jobs.target import TargetRef


def owner_of(ref: TargetRef) -> RawObject:
    """The owner reference of a TrainingJob to its object."""
    return {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid, "controller": True}


def reference_to(ref: TargetRef) -> RawObject:
    """``spec.targetRef``."""
    reference: RawObject = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid}
    return reference | {name: True for name in ("queued", "sized") if getattr(ref, name)}


def read_once(ref: TargetRef, metadata: RawObject) -> TargetRef:
    """The reference with what is not looked at again."""
    return ref._replace(sized=ref.queued and ANNOTATION_GPUS in (metadata.get("annotations") or {}))
