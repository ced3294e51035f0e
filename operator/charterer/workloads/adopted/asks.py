"""What the author of an adopted object asks for, in annotations with the words of a TrainingJob."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from charterer.api.metadata import ObjectMeta
from charterer.api.models.base import Json, SpecAmount, Time
from charterer.api.names import (
    ANNOTATION_COMPLETE_BY,
    ANNOTATION_GPUS,
    ANNOTATION_MAX_COST,
    ANNOTATION_RESIZE,
    ANNOTATION_SPOT,
    GPU_RESOURCE,
    LABEL_PROFILE,
)
from charterer.api.template import MOST_GPUS, digest_of_content, template_problem, trainer_gpus
from charterer.domain.job import ResizePolicy, SpotPolicy
from charterer.domain.jobs.target import Asked
from charterer.domain.money import ZERO, Money
from charterer.domain.time import parse_instant
from charterer.workloads.adopted.target_kind import NotAdoptable

_RANGE: Final = re.compile(r"([1-9][0-9]{0,5})(?:\.\.([1-9][0-9]{0,5}))?", re.ASCII)
_AMOUNT: Final[TypeAdapter[Any]] = TypeAdapter(SpecAmount)
_TIME: Final[TypeAdapter[Any]] = TypeAdapter(Time)
_PROFILE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


class Elasticity(NamedTuple):
    """What the object's kind lets Charterer change: its width at a restart, and while it runs.

    ``because``: what to do to get more, for the sentence that refuses what the object cannot.
    """

    width: bool
    in_place: bool
    because: str = ""


def shadow_spec(meta: ObjectMeta, template: Json, pods: int, can: Elasticity, spot_refused: str) -> Json:
    """The spec of the TrainingJob of an object of ``pods`` pods, without its ``targetRef``. Raises NotAdoptable.

    ``spot_refused``: why the object must not get spot nodes; empty where it may.
    """
    problem = template_problem(template)
    if problem:
        raise NotAdoptable(problem)
    each = trainer_gpus(template)
    if not each:
        raise NotAdoptable(
            f"no GPUs: the first container of spec.template has no {GPU_RESOURCE} in its limits, and Charterer pays "
            "for jobs with GPUs only; take the label off, or set it"
        )
    least, most = _range(meta, each, pods * each, can)
    spec: Json = {
        "gpus": {"min": least, "preferred": min(max(pods * each, least), most), "max": most},
        "resizePolicy": _resize(meta, can),
        "spotPolicy": SpotPolicy.NEVER if spot_refused else _word(meta, ANNOTATION_SPOT, SpotPolicy),
        "template": template,
    }
    if (cost := _value(meta, ANNOTATION_MAX_COST)) is not None:
        amount = _read(_AMOUNT, ANNOTATION_MAX_COST, cost, 'dollars, such as "250"')
        if amount <= ZERO:
            raise NotAdoptable(f"{ANNOTATION_MAX_COST} is {cost!r}: a job that may cost nothing can never run")
        spec["maxCost"] = cost
    if (by := _value(meta, ANNOTATION_COMPLETE_BY)) is not None:
        _read(_TIME, ANNOTATION_COMPLETE_BY, by, "a time, such as 2026-11-30T09:00:00Z")
        spec["targetCompletionTime"] = by
    if (profile := meta.labels.get(LABEL_PROFILE)) is not None:
        if not _PROFILE.fullmatch(profile):
            raise NotAdoptable(f"the label {LABEL_PROFILE} is {profile!r}: give the name of a SpeedupProfile")
        spec["profileName"] = profile
    return spec


def asked(spec: Json) -> Asked:
    """The same as a value."""
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
        digest_of_content(spec["template"]),
    )


def wants_spot(meta: ObjectMeta) -> bool:
    """Whether the author asks for spot nodes, in whatever state the other annotations are."""
    return (_value(meta, ANNOTATION_SPOT) or "") == SpotPolicy.ALLOWED


def _range(meta: ObjectMeta, each: int, asked: int, can: Elasticity) -> tuple[int, int]:
    """The fewest and the most GPUs."""
    text = _value(meta, ANNOTATION_GPUS)
    if text is None:
        return asked, asked
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
    return least, most


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
        return words(text or "Never")
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
