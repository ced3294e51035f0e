"""What a template may not say: each refusal names the field, its value and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charterer.api import decode
from charterer.api.template import (
    CHARTERERS_VARIABLES,
    digest,
    grace_seconds,
    misleading_variables,
    template_problem,
    trainer_gpus,
    unknown_variables,
)
from tests.unit.api import values

ROOT = Path(__file__).resolve().parents[3]
TRAINER = {"name": "trainer", "image": "acme/sft:1"}


def gpus(count: object, resource: str = "nvidia.com/gpu", part: str = "limits") -> dict[str, Any]:
    return {"name": "x", "resources": {part: {resource: count}}}


def problem(**fields: Any) -> str:
    return template_problem({"spec": {"containers": [TRAINER], **fields}})


@pytest.mark.parametrize(
    ("fields", "field", "value", "what_to_do"),
    [
        ({"nodeName": "big-1"}, "nodeName", "'big-1'", "leave nodeName out"),
        ({"schedulerName": "mine"}, "schedulerName", "'mine'", "leave schedulerName out"),
        ({"resourceClaims": [{"name": "a"}]}, "resourceClaims", "[{'name': 'a'}]", "leave resourceClaims out"),
        (
            {"priorityClassName": "system-node-critical"},
            "priorityClassName",
            "'system-node-critical'",
            "must not begin",
        ),
        (
            {"initContainers": [TRAINER, {**gpus(2), "restartPolicy": "Always"}]},
            "initContainers[1].resources[nvidia.com/gpu]",
            "2",
            "leave GPUs out of init containers and sidecars",
        ),
        ({"initContainers": [gpus("1k")]}, "initContainers[0].resources[nvidia.com/gpu]", "1000", "leave GPUs out"),
        ({"initContainers": [gpus(1, part="requests")]}, "initContainers[0]", "1", "leave GPUs out"),
        ({"containers": [TRAINER, gpus(1)]}, "containers[1]", "1", "only the first container may have GPUs"),
        (
            {"containers": [gpus(1, "nvidia.com/gpu.shared")]},
            "containers[0].resources[nvidia.com/gpu.shared]",
            "1",
            "GPUs are counted in nvidia.com/gpu only",
        ),
        ({"containers": [gpus("many")]}, "containers[0].resources", "'many'", "a whole number of GPUs"),
        ({"terminationGracePeriodSeconds": "soon"}, "terminationGracePeriodSeconds", "'soon'", "give whole seconds"),
    ],
    ids=lambda value: str(value)[:15],
)
def test_what_would_evade_placement_or_billing_is_refused(
    fields: dict[str, Any], field: str, value: str, what_to_do: str
) -> None:
    said = problem(**fields)
    assert f"spec.template.spec.{field}" in said
    assert value in said
    assert what_to_do in said


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"schedulerName": "default-scheduler", "nodeName": "", "priorityClassName": "urgent", "resourceClaims": []},
        {"initContainers": [TRAINER, gpus(0), {**gpus(4, "cpu"), "restartPolicy": "Always"}]},
        {"containers": [gpus("8"), gpus(1, "cpu")], "terminationGracePeriodSeconds": 0},
        {"containers": [{"name": "x", "resources": "malformed"}]},
    ],
    ids=["nothing", "defaults", "containers before", "containers beside", "malformed"],
)
def test_what_a_template_usually_says_is_accepted(fields: dict[str, Any]) -> None:
    assert problem(**fields) == ""


@pytest.mark.parametrize(("least", "most", "refused"), [(8, 8, False), (1, 8, True), (4, 4, True), (1, 4, True)])
def test_gpus_of_the_container_that_disagree_with_those_of_the_job_are_refused(
    least: int, most: int, refused: bool
) -> None:
    job = decode.training_job(values.raw_job(gpus={"min": least, "max": most}, containers=[gpus(8)])).job
    assert ("spec.gpus says" in job.invalid) is refused
    if refused:
        assert "containers[0] is 8" in job.invalid
        assert "leave nvidia.com/gpu out" in job.invalid


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(max_size=5)},
        optional={
            "resources": st.fixed_dictionaries(
                {},
                optional={
                    part: st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig", "cpu"]), json_values)
                    for part in ("limits", "requests")
                },
            ),
            "restartPolicy": json_values,
        },
    ),
    max_size=3,
)


@given(
    st.fixed_dictionaries(
        {"containers": containers},
        optional={
            "initContainers": containers,
            **{
                name: json_values
                for name in ("nodeName", "schedulerName", "resourceClaims", "terminationGracePeriodSeconds", "other")
            },
        },
    )
)
def test_no_template_that_the_schema_accepts_breaks_its_reading(spec: dict[str, Any]) -> None:
    template = {"spec": spec}
    problem = template_problem(template)
    assert trainer_gpus(template) >= 0
    assert 0 <= grace_seconds(template) <= 86_400
    assert problem == "" or problem.startswith("spec.template.spec.")


def env(*names: str, **sources: Any) -> dict[str, Any]:
    """A template whose trainer has these variables with a value of their own, and others with a source or a value."""
    own = [{"name": name, "value": "1"} for name in names]
    listed = [*own, *({"name": name, **source} for name, source in sources.items())]
    return {"spec": {"containers": [{"name": "trainer", "image": "t", "env": listed}]}}


def test_variables_that_charterer_or_a_launcher_sets_are_named_with_what_to_do() -> None:
    said = misleading_variables(env("PET_NNODES", "MASTER_ADDR", "HF_HOME"), in_place=False)
    assert said == (
        "PET_NNODES of the template is replaced by Charterer's own; MASTER_ADDR is the same for every pod and every "
        "number of GPUs: leave out what the launcher sets (docs/progress.md)"
    )
    assert "CUDA_VISIBLE_DEVICES, RANK are the same" in misleading_variables(
        env("CUDA_VISIBLE_DEVICES", "RANK"), in_place=True
    )


@pytest.mark.parametrize(
    ("template", "in_place"),
    [
        (env("HF_HOME"), False),
        (env("PET_NNODES"), True),  # which the template of an elastic launch has to set
        (env(MASTER_ADDR={"value": "$(PET_MASTER_ADDR)"}), False),
        (env(RANK={"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}), False),
        ({"spec": {"containers": [{"name": "trainer", "env": "none"}]}}, False),
        ({"spec": {"containers": [{"name": "trainer", "env": [None, {}, {"name": 7}]}]}}, False),
    ],
)
def test_variables_that_may_be_right_are_left_alone(template: dict[str, Any], in_place: bool) -> None:
    assert misleading_variables(template, in_place=in_place) == ""


def test_a_variable_of_charterers_prefix_that_nobody_reads_is_told_with_the_nearest_one() -> None:
    template = env("CHARTERER_PROGESS_URL", "CHARTERER_GROUP_PORT", "HF_HOME")
    template["spec"]["initContainers"] = [{"name": "fetch", "env": [{"name": "CHARTERER_XYZ"}]}, None]
    assert unknown_variables(template, ["CHARTERER_VARIAN"]) == (
        "Charterer does not know CHARTERER_PROGESS_URL (did you mean CHARTERER_PROGRESS_URL?), CHARTERER_VARIAN (did "
        "you mean CHARTERER_VARIANT?), CHARTERER_XYZ (leave it out)"
    )
    assert unknown_variables(env(*CHARTERERS_VARIABLES), []) == ""


def test_every_variable_that_the_trainer_reads_is_known() -> None:
    texts = (path.read_text() for path in (ROOT / "trainer").rglob("*.py"))
    read = {name for text in texts for name in re.findall(r"\bCHARTERER_[A-Z_]*[A-Z]\b", text)}
    assert len(read) > 10
    assert read - set(CHARTERERS_VARIABLES) == set()


def test_words_that_say_nothing_in_a_template_are_refused_and_those_of_its_pods_are_not() -> None:
    def problem(**metadata: Any) -> str:
        return template_problem(env("HF_HOME") | {"metadata": metadata})

    assert problem(annotations={"charterer.dev/gpus": "4..8"}) == (
        "spec.template.metadata.annotations has charterer.dev/gpus, which says nothing to Charterer in a template: "
        "leave it out, and write what you mean into the object's own metadata, or into the spec of a TrainingJob"
    )
    assert problem(labels={"charterer.dev/job": "a", "charterer.dev/adopt": "true", "example.com/x": "y"}) == ""
    assert problem(labels=["charterer.dev/x"], annotations=None) == ""


def test_only_another_template_has_another_digest() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1, "b": [2]}) != digest({"a": 1, "b": [3]})


IMAGES = [
    "train",
    "train:1",
    "acme/sft:v1.2_rc-3",
    "localhost:5000/a/b__c/d-e.f",
    "Registry.Example.com:443/team/x@sha256:" + "a" * 64,
    "MyOrg/train:Latest",
    "[2001:db8::1]:5000/train",
    "registry.k8s.io/pause:3.10@sha256:" + "0" * 64,
]


@pytest.mark.parametrize("image", IMAGES)
def test_every_name_of_an_image_is_accepted(image: str) -> None:
    assert template_problem({"spec": {"containers": [{"name": "trainer", "image": image}]}}) == ""


@pytest.mark.parametrize(
    "image", ["my image:latest", "acme/SFT:1", "acme//sft", "sft:", "sft:a:b", "https://acme/sft", "sft@sha256:1"]
)
def test_an_image_that_no_runtime_could_look_for_is_refused_before_anything_is_rented(image: str) -> None:
    said = template_problem({"spec": {"containers": [{"name": "trainer", "image": image}]}})
    assert (
        said == f"spec.template.spec.containers[0].image is {image!r}: write it as registry/name:tag, in small letters"
    )
