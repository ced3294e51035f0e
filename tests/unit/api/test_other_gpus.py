"""GPUs of other makers: how templates ask for them, how pods and Nodes are counted, and which pools a job may use."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from charterer.api.gpu_resources import pod_gpus
from charterer.api.node_demands import node_demands
from charterer.api.template import gpu_resource, template_problem, trainer_gpus
from charterer.domain.node_demands import OfferedNode, OtherResource, misfits
from charterer.domain.option import GPU_RESOURCES
from charterer.domain.reasons.options import misfits_in_words
from tests.unit.api import values

AMD = "amd.com/gpu"
CUDA = "nvidia.com/gpu"


def template(**limits: int) -> dict[str, Any]:
    named = {name.replace("_", ".") + "/gpu": number for name, number in limits.items()}
    return {"spec": {"containers": [{"name": "trainer", "image": "train:1", "resources": {"limits": named}}]}}


def test_the_gpus_of_a_template_are_those_that_it_names_and_nvidias_where_it_names_none() -> None:
    assert (gpu_resource(template(amd_com=4)), trainer_gpus(template(amd_com=4))) == (AMD, 4)
    assert (gpu_resource(template()), trainer_gpus(template())) == (CUDA, 0)
    assert pod_gpus(template(amd_com=4)["spec"]) == 4


@pytest.mark.parametrize("resource", GPU_RESOURCES)
def test_each_maker_is_counted_in_templates_pods_and_nodes_and_kept_to_its_pools(resource: str) -> None:
    asked = {"spec": {"containers": [{"name": "trainer", "image": "train:1", "resources": {"limits": {resource: 4}}}]}}
    assert template_problem(asked) == ""
    assert (gpu_resource(asked), trainer_gpus(asked), pod_gpus(asked["spec"])) == (resource, 4, 4)
    raw = values.raw_job(template=asked)
    del raw["spec"]["gpus"]
    job = decode.training_job(raw).job
    assert (job.invalid, job.demands.resource) == ("", resource)
    assert resource not in dict(job.demands.asks)
    assert misfits(job.demands, OfferedNode((), (), (), 8, resource)) == ()
    others = [each for each in GPU_RESOURCES if each != resource]
    assert [misfits(job.demands, OfferedNode((), (), (), 8, each)) for each in others] == [
        (OtherResource(resource, each),) for each in others
    ]


def test_gpus_of_two_makers_in_one_template_are_refused() -> None:
    assert template_problem(template(amd_com=4)) == ""
    assert "amd.com/gpu, nvidia.com/gpu: the GPUs of a job are of one maker" in template_problem(
        template(amd_com=4, nvidia_com=1)
    )


@pytest.mark.parametrize(("spec", "resource"), [({}, CUDA), ({"resource": AMD}, AMD)])
def test_an_elastic_job_says_whose_gpus_it_wants(spec: dict[str, Any], resource: str) -> None:
    demands = decode.training_job(values.raw_job(**spec)).job.demands
    assert demands.resource == resource
    assert resource in [each.key for each in demands.tolerations]


def test_a_job_whose_spec_and_template_name_different_gpus_cannot_run() -> None:
    raw = values.raw_job(template=template(nvidia_com=4), resource=AMD)
    del raw["spec"]["gpus"]
    invalid = decode.training_job(raw).job.invalid
    assert invalid.startswith(f"spec.resource is {AMD}, and its first container asks for {CUDA}")


def test_only_pools_with_the_jobs_own_gpus_fit_it() -> None:
    demands = node_demands(template(amd_com=4), AMD)
    assert misfits(demands, OfferedNode((), (), (), 8, AMD)) == ()
    (misfit,) = misfits(demands, OfferedNode((), (), (), 8))
    assert misfit == OtherResource(AMD, CUDA)
    assert "add a GPUPool with spec.resource amd.com/gpu" in misfits_in_words([misfit])


def test_a_node_is_counted_by_the_resource_that_it_shows() -> None:
    raw = {
        "metadata": {"name": "node", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-07-10T12:00:00Z"},
        "status": {"allocatable": {AMD: "8", "example.com/nic": "2"}},
    }
    node = decode.node(raw)
    assert (node.count(AMD), node.count(CUDA)) == (8, 0)
