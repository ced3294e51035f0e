"""What of a TrainingJob reaches what its pods run: only what the policy charterer-create-pods fences.

Each field of the spec, and labels and annotations, is rendered into the run's Job before and after a change. A new
field has no change here, and the test says so: whoever adds it decides whether it reaches pods.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from charterer.api import decode
from charterer.api.models.trainingjob import TrainingJobSpec
from charterer.workloads import INDEXED_JOB, RunEnvironment
from tests.unit.api import values

ENVIRONMENT = RunEnvironment("https://charterer-progress.charterer.svc", "-----BEGIN CERTIFICATE-----")
CHART = Path(__file__).parents[3] / "charts/charterer/templates/admission.yaml"
PLAIN: dict[str, Any] = {"profileName": "resnet", "variants": [{"name": "other"}]}
"""A job whose next run is of a variant."""
_GPUS = {"min": 1, "preferred": 3, "max": 5}
CHANGES: dict[str, Any] = {
    "gpus": [
        _GPUS | {"slices": ["1g.10gb"]},
        _GPUS | {"shared": {"memory": "7Gi", "leastSpeed": 0.7}},
    ],
    "resizePolicy": ["Restart", "InPlace"],
    "template": [{"spec": {"containers": [{"name": "trainer", "image": "poison"}]}}],
    "profileName": ["poison"],
    "gpuTypes": [["poison"]],
    "resource": ["amd.com/gpu"],
    "spotPolicy": ["Allowed"],
    "priorityClassName": ["poison"],
    "suspend": [True],
    "backoffLimit": [7],
    "maxRestarts": [7],
    "stallTimeoutSeconds": [7],
    "readyTimeoutSeconds": [7],
    "ttlSecondsAfterFinished": [7],
    "maxCost": ["7.77"],
    "targetCompletionTime": ["2027-07-07T07:07:07Z"],
    "quote": [
        {
            **{"at": "2026-07-07T07:07:07Z", "costLow": "7.77", "costHigh": "77.7"},
            **{"endLow": "2026-07-07T08:07:07Z", "endHigh": "2026-07-07T09:07:07Z"},
        }
    ],
    "interactive": [{"asks": 7, "hourly": "7.77", "idleSeconds": 7.0}],
    "variants": [
        [
            {
                "name": "other",
                "env": [{"name": "POISON", "value": "poison"}],
                "args": ["poison"],
                "gpus": _GPUS,
                "profileName": "poison",
            }
        ]
    ],
    "targetRef": [
        {"apiVersion": "batch/v1", "kind": "poison", "name": "poison", "uid": "poison", "queued": True, "sized": True}
    ],
}
"""Other values of each field, which between them set every field below it."""
OWN_VARIABLES = frozenset(
    {
        "PET_NNODES",
        "KUBEFLOW_TRAINER_SERVER_URL",
        "KUBEFLOW_TRAINER_SERVER_TOKEN",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
        "CHARTERER_VARIANT",
    }
)
"""Variables of Charterer's own that are there or not as the spec says, with values of its own."""


def pods(metadata: dict[str, Any] | None = None, **spec: Any) -> Any:
    """The pod template of the run's Job, and what says how it fails, without variables of Charterer's own."""
    raw = values.raw_job(**{**PLAIN, **spec})
    raw["metadata"] |= metadata or {}
    given = values.allocation()
    given = replace(given, option=replace(given.option, variant="other"))
    made = INDEXED_JOB.manifest(decode.training_job(raw).job, raw, given, ENVIRONMENT)
    template = made["spec"]["template"]
    for container in template["spec"]["containers"]:
        container["env"] = [one for one in container["env"] if one["name"] not in OWN_VARIABLES]
    return template


def fenced() -> set[str]:
    """The fields of the spec whose changes need the right to create pods."""
    text = CHART.read_text().partition("---")[0]
    condition = text.partition("what-its-pods-run-is-new")[2].partition("- name:")[0]
    return set(re.findall(r"object\.spec\.\??(\w+)", condition)) & set(
        re.findall(r"oldObject\.spec\.\??(\w+)", condition)
    )


def limited() -> set[str]:
    """The fields whose bytes the policy counts."""
    text = CHART.read_text().partition("---")[0]
    return set(re.findall(r"object\.spec\.\??(\w+)", text.partition("format")[2].partition("message")[0]))


def set_below(model: BaseModel) -> set[str]:
    """The fields of a value and of the values in it that are set; those that are not are left out."""
    found = set()
    for name in model.model_fields_set:
        found.add(f"{type(model).__name__}.{name}")
        value = getattr(model, name)
        for part in value if isinstance(value, tuple) else (value,):
            found |= set_below(part) if isinstance(part, BaseModel) else set()
    return found


def models_in(annotation: Any) -> set[type[BaseModel]]:
    """The models of a spec's values, at any depth."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return {model for part in get_args(annotation) for model in models_in(part)}
    below = [models_in(field.annotation) for field in annotation.model_fields.values()]
    return {annotation}.union(*below)


def test_every_field_of_a_training_job_has_a_change_here() -> None:
    names = {field.alias or name for name, field in TrainingJobSpec.model_fields.items()}
    assert set(CHANGES) == names, "a field without a change: does it reach pods?"
    given = set()
    for name, changes in CHANGES.items():
        for change in changes:
            given |= set_below(TrainingJobSpec.model_validate({"template": {}, **PLAIN, name: change}))
    known = {f"{model.__name__}.{name}" for model in models_in(TrainingJobSpec) for name in model.model_fields}
    assert known - given == set(), "a field below without a change: does it reach pods?"


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_what_reaches_pods_is_fenced_and_counted(name: str) -> None:
    reaches = any(pods(**{name: change}) != pods() for change in CHANGES[name])
    assert reaches == (name in fenced())
    assert reaches == (name in limited())


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_no_label_or_annotation_of_a_job_reaches_its_pods(where: str) -> None:
    keys = ["poison", "charterer.dev/adopt", "charterer.dev/allocation", "charterer.dev/ca", "charterer.dev/job-uid"]
    keys += ["kueue.x-k8s.io/queue-name", "charterer.dev/created-by", "charterer.dev/original"]
    assert pods({where: dict.fromkeys(keys, "poison")}) == pods()


def test_the_values_of_own_variables_are_charterers() -> None:
    raw = json.dumps(
        [
            INDEXED_JOB.manifest(decode.training_job(job).job, job, values.allocation(), ENVIRONMENT)
            for name in set(CHANGES) - fenced()
            for change in CHANGES[name]
            for job in [values.raw_job(**{name: change})]
        ]
    )
    assert "poison" not in raw
