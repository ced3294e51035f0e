"""What is to be done about a machine's Node, as a function of the machine and the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.tools.fakecloud.config import SECOND, BillSegment, GroupSpec
from charterer.tools.fakecloud.nodes import NodeStep, manifest, next_step, resource_slices
from charterer.tools.fakecloud.records import Machine, NodePhase
from tests.unit.fakecloud.world import A100

SPEC = GroupSpec.model_validate(A100 | {"nodeDeletionSeconds": 5})
STARTING = Machine("i-1", "a100", "fake-1a", "A100", 4, 1, 0, (BillSegment(0, 1),), launched=0, runs=60 * SECOND)
RUNNING = replace(STARTING, node=NodePhase.REGISTERED)
ENDED = replace(RUNNING, ends=100 * SECOND)
SILENT = replace(ENDED, node=NodePhase.SILENT)


@pytest.mark.parametrize(
    ("machine", "seconds", "step"),
    [
        (STARTING, 10, (NodeStep.REGISTER, 60)),
        (replace(STARTING, ends=50 * SECOND), 55, (NodeStep.DELETE, 55)),
        (RUNNING, 70, None),
        (replace(RUNNING, silenced=True), 70, (NodeStep.SILENCE, 70)),
        (replace(RUNNING, silenced=True, node=NodePhase.SILENT), 70, None),
        (ENDED, 90, (NodeStep.SILENCE, 100)),
        (ENDED, 110, (NodeStep.SILENCE, 110)),
        (SILENT, 101, (NodeStep.DELETE, 105)),
        (replace(SILENT, stays=True), 1000, None),
        (replace(SILENT, node=NodePhase.GONE), 1000, None),
    ],
    ids=[
        "registers when it runs",
        "whose registration may have been cut off is deleted",
        "is left alone while it runs",
        "falls silent at once",
        "stays silent",
        "falls silent when its machine ends",
        "falls silent after its machine ended",
        "is deleted a while after the end",
        "stays behind where the group says so",
        "is gone",
    ],
)
def test_a_node(machine: Machine, seconds: int, step: tuple[NodeStep, int] | None) -> None:
    expected = None if step is None else (step[0], step[1] * SECOND)
    assert next_step(machine, SPEC, seconds * SECOND) == expected


def test_a_node_has_its_gpus_at_creation() -> None:
    status = manifest(RUNNING, SPEC)["status"]
    assert status["capacity"] == {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "4"}
    assert status["allocatable"] == status["capacity"]


def test_a_node_has_what_its_group_declares() -> None:
    declared = {"labels": {"team": "a"}, "taints": [{"key": "dedicated"}], "resources": {"example.com/port": "2"}}
    node = manifest(RUNNING, SPEC.patched(declared))
    assert node["metadata"]["labels"]["team"] == "a"
    assert node["metadata"]["labels"].keys() > manifest(RUNNING, SPEC)["metadata"]["labels"].keys()
    assert [(taint["key"], taint["value"], taint["effect"]) for taint in node["spec"]["taints"]] == [
        ("nvidia.com/gpu", "present", "NoSchedule"),
        ("dedicated", "", "NoSchedule"),
    ]
    assert node["status"]["allocatable"] == {
        **manifest(RUNNING, SPEC)["status"]["allocatable"],
        "example.com/port": "2",
    }


def _cut(published: str) -> GroupSpec:
    return SPEC.patched({"cut": {"profile": "1g.5gb", "slicesPerGpu": 7, "published": published}})


@pytest.mark.parametrize(
    ("published", "resources", "product"),
    [
        ("mixed", {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "28"}, "A100"),
        ("single", {"nvidia.com/gpu": "28"}, "A100-MIG-1g.5gb"),
        ("dra", {}, "A100"),
    ],
)
def test_a_node_shows_its_slices_as_its_driver_does(published: str, resources: dict[str, str], product: str) -> None:
    node = manifest(RUNNING, _cut(published))
    shown = {name: number for name, number in node["status"]["allocatable"].items() if "nvidia" in name}
    assert shown == resources
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"].endswith(product)


def test_a_dra_driver_publishes_the_counters_of_each_gpu_and_the_slices_that_consume_them() -> None:
    counters, devices = resource_slices(RUNNING, _cut("dra"), "node-uid")
    assert {part["spec"]["pool"]["resourceSliceCount"] for part in (counters, devices)} == {2}
    assert len(counters["spec"]["sharedCounters"]) == 4
    published = devices["spec"]["devices"]
    assert len({device["name"] for device in published}) == 28
    assert {device["consumesCounters"][0]["counterSet"] for device in published} == {f"gpu-{gpu}" for gpu in range(4)}
    assert resource_slices(RUNNING, _cut("mixed"), "node-uid") == ()
