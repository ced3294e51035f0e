"""The objects on which Events about one of Charterer's are recorded."""

from __future__ import annotations

from collections.abc import Sequence

from charterer.api.manifests import EventSubject
from charterer.api.names import API_VERSION
from charterer.domain.jobs.target import TargetRef

Subjects = Sequence[EventSubject]


def subjects(kind: str, name: str, uid: str, namespace: str = "", target: TargetRef | None = None) -> Subjects:
    """The object, and of a TrainingJob its ``target``: that is the one at which its owner looks."""
    own = EventSubject(API_VERSION, kind, namespace, name, uid)
    return (own,) if target is None else (own, target_subject(target, namespace))


def target_subject(ref: TargetRef, namespace: str) -> EventSubject:
    """An object that is adopted, or is to be."""
    return EventSubject(ref.api_version, ref.kind, namespace, ref.name, ref.uid)
