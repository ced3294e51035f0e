"""The author's requests on an adopted object. They are annotations, which have the names of a TrainingJob's fields."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from charterer.api.gpu_resources import annotated
from charterer.api.metadata import ObjectMeta, Raw
from charterer.api.models.base import Json, SpecAmount, Time
from charterer.api.names import (
    ANNOTATION_COMPLETE_BY,
    ANNOTATION_CREATED_BY,
    ANNOTATION_GIVEN_UP,
    ANNOTATION_GPUS,
    ANNOTATION_HELD,
    ANNOTATION_KEPT_RUNNING,
    ANNOTATION_MAX_COST,
    ANNOTATION_ORIGINAL,
    ANNOTATION_RESIZE,
    ANNOTATION_RESOURCE,
    ANNOTATION_SPOT,
    ANNOTATION_SUSPEND,
    ANNOTATION_WHEN_GIVEN_UP,
    GPU_RESOURCE,
    GROUP,
    LABEL_ADOPT,
    LABEL_PROFILE,
)
from charterer.api.template import MOST_GPUS, digest_of_content, template_problem, trainer_gpus
from charterer.cluster.paths import Resource
from charterer.cluster.store import WatchedKind
from charterer.domain.job import Allocation, Job, ResizePolicy, SpotPolicy
from charterer.domain.money import ZERO, Money
from charterer.domain.target import Asked, Target, TargetRef, WhenGivenUp
from charterer.domain.time import parse_instant
from charterer.sentences import names, nearest
from charterer.workloads.adopted.noted import stop_operations, suspend_changes, unsaid_gpus
from charterer.workloads.adopted.target_kind import NotAdoptable, Write, patch_of

# The common part of the kinds whose objects opt in by the label charterer.dev/adopt and are started and stopped by
# ``suspend``.


class LabelledKind(ABC):
    """The common part of such a ``TargetKind``. ``name``: the kind as objects name it.

    ``watched``: the kind's name among the watched kinds, if that is different. ``optional``: a CRD defines the kind.
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
        """See ``TargetKind.stop``.

        An object that was never placed gets the annotation charterer.dev/held, because its author did not suspend it.
        """
        return self._patched(raw, stop_operations(raw))

    def resize(self, raw: Raw, pods: int, retries: int, leaving: Sequence[str] = ()) -> Sequence[Write]:
        """See ``TargetKind.resize``. It is called only for an object whose ``shadow`` says InPlace."""
        return ()

    def _labelled(self, raw: Raw) -> Target | None:
        """Decode an object with the label. None for any other object."""
        labels = raw["metadata"].get("labels") or {}
        return self.read(raw) if labels.get(LABEL_ADOPT) == "true" else None

    def _ref(self, meta: ObjectMeta) -> TargetRef:
        return TargetRef(f"{self._resource.group}/{self._resource.version}", self.name, meta.name, meta.uid)

    def _patched(self, raw: Raw, operations: Sequence[Mapping[str, Any]]) -> tuple[Write, ...]:
        meta = raw["metadata"]
        return patch_of(self._resource.one(meta["name"], meta["namespace"]), raw, operations)


_RANGE: Final = re.compile(r"([1-9][0-9]{0,5})(?:\.\.([1-9][0-9]{0,5}))?", re.ASCII)
_AMOUNT: Final[TypeAdapter[Any]] = TypeAdapter(SpecAmount)
_TIME: Final[TypeAdapter[Any]] = TypeAdapter(Time)
_PROFILE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LABELS: Final = (LABEL_ADOPT, LABEL_PROFILE)
_ANNOTATIONS: Final = (
    ANNOTATION_GPUS,
    ANNOTATION_RESIZE,
    ANNOTATION_RESOURCE,
    ANNOTATION_SPOT,
    ANNOTATION_MAX_COST,
    ANNOTATION_COMPLETE_BY,
    ANNOTATION_SUSPEND,
    ANNOTATION_WHEN_GIVEN_UP,
)
"""The annotations that an author may set."""
_OWN: Final = (
    ANNOTATION_CREATED_BY,
    ANNOTATION_HELD,
    ANNOTATION_ORIGINAL,
    ANNOTATION_KEPT_RUNNING,
    ANNOTATION_GIVEN_UP,
)
"""The annotations that Charterer and its admission policies write."""


class Elasticity(NamedTuple):
    """Which changes a kind's objects permit: whether the width may change at a restart (``width``), and while the
    object runs (``in_place``).

    ``because``: the remedy in the sentence that refuses an unsupported change.
    """

    width: bool
    in_place: bool
    because: str = ""


def shadow_spec(meta: ObjectMeta, template: Json, pods: int, can: Elasticity, spot_refused: str) -> Json:
    """The spec of the TrainingJob for an object with ``pods`` pods, without its ``targetRef``.

    ``spot_refused``: the reason why the object must not get spot nodes, or empty if it may get them. Raises
    NotAdoptable, which names all faults.
    """
    problem = template_problem(template)
    if problem:
        raise NotAdoptable(problem)
    each = trainer_gpus(template)
    if not each:
        raise NotAdoptable(
            f"no GPUs: the first container of spec.template has no {GPU_RESOURCE} or the like in its limits, and "
            f"Charterer pays for jobs with GPUs only; take the label off, or set it{unsaid_gpus([template])}"
        )
    spec: Json = {"template": template}
    wrong: list[str] = []
    parts: tuple[Callable[[], Json], ...] = (
        lambda: _known_words(meta),
        lambda: _resource(meta, template),
        lambda: {"gpus": _gpus(meta, each, pods * each, can)},
        lambda: {"resizePolicy": _resize(meta, can)},
        lambda: {"spotPolicy": SpotPolicy.NEVER if spot_refused else _word(meta, ANNOTATION_SPOT, SpotPolicy)},
        lambda: _max_cost(meta),
        lambda: _complete_by(meta),
        lambda: _profile(meta),
        lambda: _suspend(meta),
        lambda: _when_given_up(meta),
    )
    for part in parts:
        try:
            spec |= part()
        except NotAdoptable as error:
            wrong.append(str(error))
    if wrong:
        raise NotAdoptable("; ".join(wrong))
    return spec


def asked(spec: Json) -> Asked:
    """The author's requests in a TrainingJob's ``spec``, as a value."""
    gpus, cost, by = spec["gpus"], spec.get("maxCost"), spec.get("targetCompletionTime")
    return Asked(
        gpus["min"],
        gpus["preferred"],
        gpus["max"],
        spec["resizePolicy"],
        spec["spotPolicy"],
        None if cost is None else Money.parse(cost),
        None if by is None else parse_instant(by),
        spec.get("profileName", ""),
        spec.get("suspend", False),
        digest_of_content(spec["template"]),
    )


def when_given_up(meta: ObjectMeta) -> WhenGivenUp:
    """The treatment of the object if its job is given up."""
    back = _value(meta, ANNOTATION_WHEN_GIVEN_UP) == WhenGivenUp.GIVE_BACK
    return WhenGivenUp.GIVE_BACK if back else WhenGivenUp.FAIL


def wants_spot(meta: ObjectMeta) -> bool:
    """Whether the author requests spot nodes, even if other annotations are invalid."""
    return (_value(meta, ANNOTATION_SPOT) or "") == SpotPolicy.ALLOWED


def _gpus(meta: ObjectMeta, each: int, asked: int, can: Elasticity) -> Json:
    """The widths in GPUs: those of the annotation, or without the annotation the object's own width."""
    text = _value(meta, ANNOTATION_GPUS)
    if text is None:
        return {"min": asked, "preferred": asked, "max": asked}
    found = _RANGE.fullmatch(text)
    if found is None:
        raise NotAdoptable(f'{ANNOTATION_GPUS} is {text!r:.60}: give a number of GPUs, or a range such as "4..32"')
    least = int(found[1])
    most = int(found[2] or least)
    if least > most:
        raise NotAdoptable(f"{ANNOTATION_GPUS} is {text!r}: the first number must not exceed the second")
    if most > MOST_GPUS:
        raise NotAdoptable(f"{ANNOTATION_GPUS} is {text!r}: at most {MOST_GPUS} GPUs")
    if (least, most) != (asked, asked) and not can.width:
        raise NotAdoptable(f"{ANNOTATION_GPUS} is {text!r}, but the number of its pods is fixed: {can.because}")
    if least % each or most % each:
        raise NotAdoptable(f"{ANNOTATION_GPUS} is {text!r}, and a pod has {each}: give multiples of {each}")
    return {"min": least, "preferred": min(max(asked, least), most), "max": most}


def _max_cost(meta: ObjectMeta) -> Json:
    cost = _value(meta, ANNOTATION_MAX_COST)
    if cost is None:
        return {}
    if _read(_AMOUNT, ANNOTATION_MAX_COST, cost, 'dollars, such as "250"') <= ZERO:
        raise NotAdoptable(f"{ANNOTATION_MAX_COST} is {cost!r}: a job that may cost nothing can never run")
    return {"maxCost": cost}


def _complete_by(meta: ObjectMeta) -> Json:
    by = _value(meta, ANNOTATION_COMPLETE_BY)
    if by is None:
        return {}
    _read(_TIME, ANNOTATION_COMPLETE_BY, by, "a time, such as 2026-11-30T09:00:00Z")
    return {"targetCompletionTime": by}


def _profile(meta: ObjectMeta) -> Json:
    profile = meta.labels.get(LABEL_PROFILE)
    if profile is None:
        return {}
    if not _PROFILE.fullmatch(profile):
        raise NotAdoptable(f"the label {LABEL_PROFILE} is {profile!r}: give the name of a SpeedupProfile")
    return {"profileName": profile}


def _suspend(meta: ObjectMeta) -> Json:
    text = _value(meta, ANNOTATION_SUSPEND) or "false"
    if text not in ("true", "false"):
        raise NotAdoptable(f'{ANNOTATION_SUSPEND} is {text!r:.60}: it must be "true" or "false"')
    return {"suspend": True} if text == "true" else {}


def _when_given_up(meta: ObjectMeta) -> Json:
    """Validate the annotation. It adds nothing to the spec, so the result is empty."""
    _word(meta, ANNOTATION_WHEN_GIVEN_UP, WhenGivenUp)
    return {}


def _known_words(meta: ObjectMeta) -> Json:
    """Refuse unknown keys of Charterer's group, which may be misspelt. The function adds nothing to the spec, so the
    result is empty.
    """
    wrong = [
        f"{noun} {key} is not known: {nearest(key, known, f'{GROUP}/') or f'known are {names(known)}'}"
        for noun, keys, known in (("label", meta.labels, _LABELS), ("annotation", meta.annotations, _ANNOTATIONS))
        for key in sorted(keys)
        if key.startswith(f"{GROUP}/") and key not in (*known, *_OWN)
    ]
    if wrong:
        raise NotAdoptable("; ".join(wrong))
    return {}


def _resource(meta: ObjectMeta, template: Json) -> Json:
    """Refuse the name of the GPUs' resource beside the template, which has it for Charterer and for Kueue alike."""
    named = _value(meta, ANNOTATION_RESOURCE)
    if named is not None and named != annotated(template):
        raise NotAdoptable(
            f"{ANNOTATION_RESOURCE} is {named!r:.80} on the object: write it into the metadata of its pods' template"
        )
    return {}


def _resize(meta: ObjectMeta, can: Elasticity) -> ResizePolicy:
    policy: ResizePolicy = _word(meta, ANNOTATION_RESIZE, ResizePolicy)
    if policy is ResizePolicy.IN_PLACE and not can.in_place:
        raise NotAdoptable(
            f"{ANNOTATION_RESIZE} is {policy.value}, but this object cannot change while it runs: {can.because}"
        )
    return policy


def _word(meta: ObjectMeta, annotation: str, words: Any) -> Any:
    text = _value(meta, annotation)
    try:
        return next(iter(words)) if text is None else words(text)
    except ValueError:
        allowed = ", ".join(word.value for word in words)
        raise NotAdoptable(f"{annotation} is {text!r:.60}: it must be one of {allowed}") from None


def _read(adapter: TypeAdapter[Any], annotation: str, text: str, wanted: str) -> Any:
    try:
        return adapter.validate_python(text)
    except ValidationError:
        raise NotAdoptable(f"{annotation} is {text!r:.60}: give {wanted}") from None


def _value(meta: ObjectMeta, annotation: str) -> str | None:
    value = meta.annotations.get(annotation)
    return None if value is None else value.strip()
