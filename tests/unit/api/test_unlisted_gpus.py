"""GPUs whose resource no list has: a template's annotation or a job's ``spec.resource`` says what is a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from charterer.api.decode import ForeignPod, JobPod
from charterer.api.gpu_resources import gpu_names, pod_gpus, resource_problem
from charterer.api.template import gpu_resource, template_problem, trainer_gpus
from charterer.domain.ids import NodeName
from charterer.domain.node_demands import OfferedNode, OtherResource, misfits
from charterer.domain.option import GPU, GPU_RESOURCES, Option
from tests.unit.api import values

NPU = "example.com/npu"
SAYS = {"metadata": {"annotations": {"charterer.dev/resource": NPU}}}


def template(limits: dict[str, object], **more: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "train:1", "resources": {"limits": limits}}
    return {"spec": {"containers": [container]}, **more}


@pytest.mark.parametrize("resource", [*GPU_RESOURCES, NPU, "npu.example.com/Model_7.b", "huawei.com/Ascend310P"])
def test_whole_gpus_of_any_maker_may_be_named(resource: str) -> None:
    assert resource_problem(resource) == ""


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ("npu", "it must be the name of an extended resource, such as example.com/npu"),
        ("Example.com/npu", "it must be the name"),
        ("example.com/", "it must be the name"),
        ("example.com/npu\n", "it must be the name"),
        ("node.kubernetes.io/npu", "it must be the name"),
        (f"{'a.' * 120}com/npu", "it must be the name"),
        ("nvidia.com/mig-1g.10gb", "name one of these"),
        ("amd.com/cpx_nps4", "name one of these"),
        ("aws.amazon.com/neuroncore", "name one of these"),
        ("gpu.intel.com/i915_monitoring", "name one of these"),
    ],
)
def test_what_is_no_resource_of_whole_gpus_may_not(resource: str, told: str) -> None:
    assert told in resource_problem(resource)


def test_the_annotation_of_a_template_says_which_resource_is_its_gpus() -> None:
    limits: dict[str, object] = {NPU: 4, "example.com/nic": 1}
    plain, said = template(limits), template(limits, **SAYS)
    assert (gpu_resource(plain), trainer_gpus(plain), gpu_names(plain)) == (GPU, 0, GPU_RESOURCES)
    assert (gpu_resource(said), trainer_gpus(said)) == (NPU, 4)
    assert [pod_gpus(each["spec"], gpu_names(each)) for each in (plain, said)] == [0, 4]
    assert [template_problem(each) for each in (plain, said)] == ["", ""]


@pytest.mark.parametrize("named", ["npu", "nvidia.com/gpu.shared"])
def test_an_annotation_that_names_no_gpus_is_told_with_its_value(named: str) -> None:
    wrong = template({NPU: 4}, metadata={"annotations": {"charterer.dev/resource": named}})
    assert f"spec.template.metadata.annotations[charterer.dev/resource] is '{named}'" in template_problem(wrong)
    assert trainer_gpus(wrong) == 0


def test_a_template_with_unlisted_gpus_is_held_to_the_rules_of_all_gpus() -> None:
    both = template({NPU: 4, GPU: 1}, **SAYS)
    assert "example.com/npu, nvidia.com/gpu: the GPUs of a job are of one maker" in template_problem(both)
    half = template({NPU: "500m"}, **SAYS)
    assert "it must be a whole number of GPUs" in template_problem(half)
    second = template({NPU: 4}, **SAYS)
    second["spec"]["containers"].append(second["spec"]["containers"][0] | {"name": "other"})
    assert "only the first container may have GPUs" in template_problem(second)


@pytest.mark.parametrize("limits", [{}, {NPU: 4}])
def test_a_job_names_its_gpus(limits: dict[str, object]) -> None:
    job = decode.training_job(values.raw_job(template=template(limits), resource=NPU, gpus={"min": 4, "max": 4})).job
    assert (job.invalid, job.demands.resource, dict(job.demands.asks)) == ("", NPU, {})
    assert NPU in [each.key for each in job.demands.tolerations]
    assert misfits(job.demands, OfferedNode((), (), (), 8, NPU)) == ()
    assert misfits(job.demands, OfferedNode((), (), (), 8)) == (OtherResource(NPU, GPU),)


def test_a_job_that_names_its_gpus_may_leave_their_number_to_its_limits() -> None:
    raw = values.raw_job(template=template({NPU: 4}), resource=NPU)
    del raw["spec"]["gpus"]
    job = decode.training_job(raw).job
    assert (job.invalid, job.widths.min, job.widths.max, job.pod_gpus) == ("", 4, 4, 4)


def test_an_extended_resource_that_a_job_does_not_name_is_asked_of_its_nodes() -> None:
    job = decode.training_job(values.raw_job(template=template({NPU: 4}))).job
    assert (job.demands.resource, dict(job.demands.asks)) == (GPU, {NPU: 4000})


def test_gpus_that_are_cut_or_shared_are_nvidias_and_all_others_are_their_own() -> None:
    devices = {"nvidia.com/mig-1g.10gb": GPU, "nvidia.com/gpu.shared": GPU, "amd.com/gpu": "amd.com/gpu", NPU: NPU}
    option = values.allocation().option
    assert {name: Option(option.pool, 1, 1.0, option.price, resource=name).device for name in devices} == devices


def pod(limits: dict[str, object], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sft-r2", "uid": "u", "controller": True}
    metadata: dict[str, Any] = {"name": "sft-r2-0", "namespace": "research", "uid": "p", "resourceVersion": "1"}
    metadata |= {"creationTimestamp": "2026-07-10T12:00:00Z", "labels": labels or {}, "ownerReferences": [owner]}
    metadata |= {"annotations": {"batch.kubernetes.io/job-completion-index": "0"}}
    return {"metadata": metadata, "spec": {**template(limits)["spec"], **spec}, "status": {"phase": "Running"}}


def test_a_pod_is_read_with_every_extended_resource_that_may_be_gpus_on_its_node() -> None:
    limits: dict[str, object] = {NPU: "4", "example.com/nic": 1, "amd.com/gpu": 2, "cpu": 1, "ephemeral-storage": "1Gi"}
    read = decode.pod(pod(limits, nodeName="n1"))
    assert read == ForeignPod(NodeName("n1"), 2, (("example.com/nic", 1), (NPU, 4)))
    assert decode.pod(pod({NPU: 4})) is None


@pytest.mark.parametrize(("tolerated", "hopeless"), [(NPU, False), ("example.com/nic", True)])
def test_a_pod_of_a_run_waits_for_the_gpus_whose_taint_it_tolerates(tolerated: str, hopeless: bool) -> None:
    raw = pod({NPU: 4}, {"charterer.dev/job-uid": "j", "charterer.dev/job": "sft"}, tolerations=[{"key": tolerated}])
    message = "0/1 nodes are available: 1 Insufficient example.com/npu."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    raw["status"] = {"phase": "Pending", "conditions": [waits]}
    read = decode.pod(raw)
    assert isinstance(read, JobPod)
    assert read.pod.hopeless is hopeless
