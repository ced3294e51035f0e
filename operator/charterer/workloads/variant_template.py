"""The template of a job as one of its variants has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from charterer.api.models.base import Json
from charterer.workloads.workload import NotATemplate


def with_variant(template: Mapping[str, Any], variants: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The template with the variant's variables and arguments in its first container; itself for an empty name.

    ``variants``: as in the spec. NotATemplate where none has the name any more.
    """
    if not name:
        return template
    chosen = next((variant for variant in variants if variant["name"] == name), None)
    if chosen is None:
        named = ", ".join(variant["name"] for variant in variants) or "none"
        raise NotATemplate(
            f"spec.variants: its next run was planned as variant {name}, and the spec names {named}: change the spec "
            "once more to have the job planned anew"
        )
    first, *others = template["spec"]["containers"]
    trainer: Json = dict(first)
    added = chosen.get("env") or []
    if added:
        replaced = {variable["name"] for variable in added}
        kept = [variable for variable in first.get("env") or () if variable.get("name") not in replaced]
        trainer["env"] = [*kept, *added]
    if chosen.get("args") is not None:
        trainer["args"] = list(chosen["args"])
    return {**template, "spec": {**template["spec"], "containers": [trainer, *others]}}
