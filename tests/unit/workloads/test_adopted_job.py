"""A team's own Job as Charterer reads and writes it: what is refused, what is placed, and that all of it is undone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from charterer.api import decode
from charterer.domain.ids import PoolId, RentalId
from charterer.domain.job import Allocation, Placement
from charterer.domain.money import Price
from charterer.domain.option import Option
from charterer.domain.target import TargetRef
from charterer.domain.time import Instant
from charterer.workloads import NotAdoptable
from charterer.workloads.adopted.job import ADOPTED_JOB
from charterer.workloads.adopted.noted import shadow_names
from tests.factory.jobs import job as make_job
from tests.unit.api.values import raw as raw_object
from tests.unit.workloads.json_patches import applied

Raw = dict[str, Any]


def raw_job(annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    container = {"name": "train", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    template = {"metadata": {"labels": {"job-name": "whisper"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "whisper",
            "namespace": "speech",
            "uid": "u1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"charterer.dev/adopt": "true", **(labels or {})},
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "parallelism": 4,
            "completions": 4,
            "backoffLimit": 6,
            "template": template,
            **spec,
        },
        "status": {},
    }


def allocation(pods: int, run: int = 1) -> Allocation:
    option = Option(PoolId("a100"), pods * 2, 1.0, Price(0))
    return Allocation(run, option, tuple([Placement(RentalId("a100-1"), 2)] * pods), Instant(0))


def reason(raw: Raw) -> str:
    with pytest.raises(NotAdoptable) as refused:
        ADOPTED_JOB.shadow(raw)
    assert ADOPTED_JOB.read(raw).problem == str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("held", [True, False])
def test_what_is_placed_and_resized_is_given_back_as_it_was_written(held: bool) -> None:
    written = raw_job({"team.example/x": "1"}, suspend=not held)
    written["spec"]["template"]["spec"]["tolerations"] = [{"key": "own", "operator": "Exists"}]
    raw = applied(written, ADOPTED_JOB.stop(written)) if held else deepcopy(written)
    job = make_job()
    placed = applied(raw, ADOPTED_JOB.place(raw, job, allocation(2)))
    target = ADOPTED_JOB.read(placed)
    assert (target.job, target.run, target.pods, target.held) == (job.id, 1, 2, True)
    again = applied(placed, ADOPTED_JOB.place(placed, job, allocation(8, run=2)))
    assert ADOPTED_JOB.read(again).run == 2
    running = applied(again, ADOPTED_JOB.start(again, job, allocation(8, run=2)))
    wider = applied(running, ADOPTED_JOB.resize(again, 3, 100))
    assert (wider["spec"]["suspend"], wider["spec"]["completions"], wider["spec"]["backoffLimit"]) == (False, 3, 100)
    assert ADOPTED_JOB.read(wider).retries == 94
    stopped = applied(wider, ADOPTED_JOB.stop(wider))
    assert applied(stopped, ADOPTED_JOB.restore(stopped)) == written


@pytest.mark.parametrize("bare", [True, False])
def test_its_training_job_says_what_it_asks_for_however_it_is_placed_and_no_more_once_its_pods_change(
    bare: bool,
) -> None:
    written = raw_job()
    if bare:
        del written["spec"]["template"]["metadata"]
    asks = ADOPTED_JOB.read(written).asked
    shadow = raw_training_job(ADOPTED_JOB.shadow(written))
    assert asks is not None
    assert decode.training_job(shadow).job.template == asks.template
    placed = applied(written, ADOPTED_JOB.place(written, make_job(), allocation(2)))
    given_back = applied(placed, ADOPTED_JOB.restore(placed))
    assert [ADOPTED_JOB.read(raw).asked for raw in (placed, given_back)] == [asks, asks]
    other = raw_training_job(ADOPTED_JOB.shadow(written))
    other["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    assert decode.training_job(other).job.template != asks.template
    other["spec"]["template"]["spec"]["nodeName"] = "gpu-1"
    assert decode.training_job(other).job.template != asks.template


def raw_training_job(spec: Mapping[str, Any]) -> Raw:
    """A TrainingJob that stands for the Job."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "whisper", "uid": "u1"}
    return raw_object("TrainingJob", deepcopy({**spec, "targetRef": reference}))


def test_pods_go_only_onto_the_nodes_of_the_run_and_are_left_alone_there() -> None:
    raw, job = raw_job(), make_job()
    template = applied(raw, ADOPTED_JOB.place(raw, job, allocation(4)))["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {job.run_label: "r1"}
    assert template["metadata"]["labels"]["charterer.dev/job-uid"] == job.id
    assert template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert template["spec"]["containers"] == raw["spec"]["template"]["spec"]["containers"]


def test_the_note_of_another_job_is_not_believed() -> None:
    raw = raw_job()
    placed = applied(raw, ADOPTED_JOB.place(raw, make_job(), allocation(4)))
    placed["metadata"]["uid"] = "copy"
    assert not ADOPTED_JOB.read(placed).held


@pytest.mark.parametrize(
    "note",
    [
        '{"uid":"u1","parallelism":"many"}',
        '{"uid":"u1","completions":-1}',
        '{"uid":"u1","labels":["x"]}',
        '{"uid":"u1","nodeSelector":{"x":5}}',
        '{"uid":"u1","tolerations":"all"}',
        '{"uid":"u1","suspend":"no"}',
        '{"uid":["u1"]}',
        pytest.param("[" * 100_000, id="deep"),
        '"u1"',
        "",
    ],
)
def test_a_note_that_somebody_else_wrote_is_not_believed_and_stops_nothing(note: str) -> None:
    forged = {"charterer.dev/original": note}
    raw = raw_job(forged, suspend=False)
    assert ADOPTED_JOB.read(raw).problem == ""
    stopped = applied(raw, ADOPTED_JOB.stop(raw))
    placed = applied(stopped, ADOPTED_JOB.place(stopped, make_job(), allocation(2)))
    given = applied(placed, ADOPTED_JOB.restore(placed))
    assert given["metadata"].pop("annotations") == {}
    assert given == raw_job(suspend=False)


def test_a_forged_note_in_the_right_form_changes_the_scheduling_fields_of_its_own_object_only() -> None:
    note = {
        "uid": "u1",
        "suspend": True,
        "parallelism": 1,
        "nodeSelector": {"disk": "fast"},
        "containers": [{"name": "train", "image": "evil:1"}],
        "serviceAccountName": "admin",
    }
    raw = raw_job({"charterer.dev/original": json.dumps(note)})
    changed = [each["path"] for write in ADOPTED_JOB.restore(raw) for each in write.operations if each["op"] != "test"]
    assert changed == [
        "/spec/template/spec/nodeSelector",
        "/spec/parallelism",
        "/metadata/annotations/charterer.dev~1original",
    ]


def test_what_its_author_asks_for_is_read() -> None:
    asks = {"gpus": "4..16", "resize": "InPlace", "spot": "Allowed", "max-cost": "250.50", "suspend": "true"}
    named = {f"charterer.dev/{key}": value for key, value in asks.items()}
    shadow = ADOPTED_JOB.shadow(raw_job(named, {"charterer.dev/profile": "sft"}))
    assert shadow["gpus"] == {"min": 4, "preferred": 8, "max": 16}
    assert (shadow["resizePolicy"], shadow["spotPolicy"], shadow["maxCost"]) == ("InPlace", "Allowed", "250.50")
    assert (shadow["profileName"], shadow["suspend"]) == ("sft", True)
    plain = ADOPTED_JOB.shadow(raw_job())
    assert (plain["gpus"], plain.get("suspend", False)) == ({"min": 8, "preferred": 8, "max": 8}, False)


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        ("gpus", "many", "give a number of GPUs, or a range"),
        ("gpus", "8..4", "the first number must not exceed the second"),
        ("gpus", "3..8", "a pod has 2: give multiples of 2"),
        ("resize", "Sometimes", "it must be one of Never, Restart, InPlace"),
        ("spot", "yes", "it must be one of Never, Allowed"),
        ("max-cost", "much", "give dollars"),
        ("max-cost", "0", "can never run"),
        ("complete-by", "tomorrow", "give a time"),
    ],
)
def test_an_annotation_that_does_not_parse_is_named_with_its_value(annotation: str, value: str, words: str) -> None:
    said = reason(raw_job({f"charterer.dev/{annotation}": value}))
    assert f"charterer.dev/{annotation} is {value!r}" in said
    assert words in said


def test_what_somebody_else_owns_or_cannot_be_carried_out_is_refused() -> None:
    assert "gives it to Kueue" in reason(raw_job(labels={"kueue.x-k8s.io/queue-name": "gpus"}))
    assert "another controller makes its pods" in reason(raw_job(managedBy="kueue.x-k8s.io/multikueue"))
    controlled = raw_job()
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    controlled["metadata"]["ownerReferences"] = [owner]
    assert "JobSet set controls this Job" in reason(controlled)
    assert "make the two equal" in reason(raw_job(completions=9))
    assert "set spec.completionMode to Indexed" in reason(
        raw_job({"charterer.dev/gpus": "2..8"}, completionMode="NonIndexed")
    )
    assert "set spec.completionMode to Indexed" in reason(
        raw_job({"charterer.dev/resize": "InPlace"}, completionMode="NonIndexed")
    )
    without, second = raw_job(), raw_job()
    del without["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert "no GPUs" in reason(without)
    assert "annotation charterer.dev/resource" not in reason(without)
    containers = second["spec"]["template"]["spec"]["containers"]
    containers.append(containers[0] | {"name": "other"})
    assert "only the first container may have GPUs" in reason(second)


def ignored(action: str) -> Mapping[str, Any]:
    return {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


@pytest.mark.parametrize(
    ("spec", "granted"),
    [
        ({}, True),
        ({"backoffLimit": 0}, False),
        ({"backoffLimit": 0, "podFailurePolicy": ignored("Ignore")}, True),
        ({"podFailurePolicy": ignored("FailJob")}, False),
        ({"backoffLimitPerIndex": 0}, False),
    ],
)
def test_a_job_that_a_lost_pod_fails_for_good_never_gets_spot(spec: Mapping[str, Any], granted: bool) -> None:
    raw = raw_job({"charterer.dev/spot": "Allowed"}, **spec)
    assert ADOPTED_JOB.shadow(raw)["spotPolicy"] == ("Allowed" if granted else "Never")
    assert bool(ADOPTED_JOB.read(raw).warning) is not granted


def test_a_job_that_just_suspended_cannot_be_placed_yet() -> None:
    raw = raw_job()
    assert ADOPTED_JOB.read(raw).placeable
    raw["status"] = {"startTime": "2026-11-01T00:00:00Z"}
    assert not ADOPTED_JOB.read(raw).placeable
    raw["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
    assert ADOPTED_JOB.read(raw).placeable


@pytest.mark.parametrize("name", ["whisper", "x" * 45])
def test_a_legal_name_is_kept(name: str) -> None:
    assert shadow_names(TargetRef("batch/v1", "Job", name, "u1"))[0] == name


@pytest.mark.parametrize("name", ["x" * 46, "4bit", "a.b", "9" * 63])
def test_another_name_is_shortened_with_a_hash(name: str) -> None:
    plain, hashed = shadow_names(TargetRef("batch/v1", "Job", name, "u1"))
    assert plain == ""
    assert len(hashed) <= 45
    assert hashed[0].isalpha()
    assert hashed != shadow_names(TargetRef("batch/v1", "Job", name, "u2"))[1]


def npu_job(annotations: Mapping[str, str] | None = None, said: str = "example.com/npu") -> Raw:
    """A Job for GPUs of another name. ``said``: that its template gives them; empty for none."""
    raw = raw_job(annotations)
    template = raw["spec"]["template"]
    template["spec"]["containers"][0]["resources"]["limits"] = {"example.com/npu": 2, "example.com/nic": 1}
    if said:
        template["metadata"]["annotations"] = {"charterer.dev/resource": said}
    return raw


def test_a_template_says_which_of_its_resources_is_its_gpus() -> None:
    raw, job = npu_job(), make_job()
    shadow = ADOPTED_JOB.shadow(raw)
    assert shadow["gpus"] == {"min": 8, "preferred": 8, "max": 8}
    read = decode.training_job(raw_training_job(shadow)).job
    assert (read.invalid, read.demands.resource, read.pod_gpus) == ("", "example.com/npu", 2)
    given = replace(allocation(4), option=replace(allocation(4).option, resource="example.com/npu"))
    placed = applied(raw, ADOPTED_JOB.place(raw, job, given))
    template = placed["spec"]["template"]
    assert "example.com/npu" in [each["key"] for each in template["spec"]["tolerations"]]
    assert template["metadata"]["annotations"]["charterer.dev/resource"] == "example.com/npu"
    assert ADOPTED_JOB.read(placed).problem == ""


def test_a_job_whose_gpus_have_a_name_that_nobody_said_is_told_where_to_say_it() -> None:
    assert (
        "if its GPUs are example.com/nic, example.com/npu, name that in the annotation charterer.dev/resource of the "
        "pods' template"
    ) in reason(npu_job(said=""))
    beside = reason(npu_job({"charterer.dev/resource": "example.com/npu"}, said="example.com/nic"))
    assert "charterer.dev/resource is 'example.com/npu' on the object: write it into the metadata" in beside
