"""kwok's Stages behave towards batch/v1 Jobs like a real kubelet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.testbed.controlplane import NODE_ANNOTATION, SILENT_LABEL, ControlPlane

CAPACITY = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
ALLOCATABLE = {**CAPACITY, "cpu": "63"}


@dataclass(frozen=True)
class Stage:
    """A node for one test, and Jobs that run only there."""

    plane: ControlPlane
    node: str

    def create(self, manifest: dict[str, Any]) -> None:
        self.plane.kubectl("create", "-f", "-", input=json.dumps(manifest))

    def create_job(self, name: str, annotations: dict[str, str], *, pods: int = 1, suspend: bool = False) -> None:
        container = {"name": "trainer", "image": "trainer:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec = {
            "suspend": suspend,
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [disrupted]},
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeName": self.node,
                    "terminationGracePeriodSeconds": 3,
                    "containers": [container],
                },
            },
        }
        self.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})

    def suspend_job(self, name: str, suspend: bool) -> None:
        self.plane.kubectl("patch", "job", name, "--type=merge", "-p", json.dumps({"spec": {"suspend": suspend}}))

    def wait(self, what: str, condition: str) -> None:
        self.plane.kubectl("wait", what, f"--for={condition}", "--timeout=30s")

    def pods(self, job: str) -> list[dict[str, Any]]:
        answer = self.plane.kubectl("get", "pods", "--selector", f"job-name={job}", "--output=json")
        pods: list[dict[str, Any]] = json.loads(answer)["items"]
        return pods

    def exit_code(self, pod: dict[str, Any]) -> int:
        code: int = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        return code

    def hold(self, job: str) -> str:
        """Keep the job's pod object after its end with a finalizer, so that its last state can be read.

        Return its name.
        """
        (pod,) = self.pods(job)
        name: str = pod["metadata"]["name"]
        patch = [{"op": "add", "path": "/metadata/finalizers/-", "value": "testbed.charterer.dev/hold"}]
        self.plane.kubectl("patch", "pod", name, "--type=json", "-p", json.dumps(patch))
        return name

    def let_go(self, pod: str) -> None:
        self.plane.kubectl("patch", "pod", pod, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.fixture
def stage(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Stage]:
    node = f"node-{abs(hash(request.node.name)):x}"
    stage = Stage(control_plane, node)
    stage.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": node,
                "labels": {"kubernetes.io/hostname": node},
                "annotations": {NODE_ANNOTATION: "fake"},
            },
            "status": {"capacity": CAPACITY, "allocatable": ALLOCATABLE},
        }
    )
    stage.wait(f"node/{node}", "condition=Ready")
    yield stage
    control_plane.kubectl("delete", "jobs", "--all", "--cascade=foreground")
    control_plane.kubectl("delete", "node", node)


def test_a_node_becomes_ready_and_keeps_what_it_was_created_with(stage: Stage) -> None:
    node = json.loads(stage.plane.kubectl("get", "node", stage.node, "--output=json"))
    assert node["status"]["capacity"] == CAPACITY
    assert node["status"]["allocatable"] == ALLOCATABLE


def test_a_run_is_started_suspended_and_started_again_until_it_completes(stage: Stage) -> None:
    stage.create_job("run", {}, pods=2, suspend=True)
    stage.wait("job/run", "condition=Suspended")
    assert stage.pods("run") == []
    stage.suspend_job("run", False)
    stage.wait("job/run", "jsonpath={.status.ready}=2")
    first = stage.pods("run")
    assert all(pod["status"]["podIP"] for pod in first)
    stage.suspend_job("run", True)
    stage.plane.kubectl("wait", "pods", "--selector=job-name=run", "--for=delete", "--timeout=30s")
    stage.wait("job/run", "condition=Suspended")
    stage.suspend_job("run", False)
    stage.wait("job/run", "jsonpath={.status.ready}=2")
    second = stage.pods("run")
    assert {pod["metadata"]["uid"] for pod in first}.isdisjoint(pod["metadata"]["uid"] for pod in second)
    stage.plane.kubectl("annotate", "pods", "--selector=job-name=run", "testbed.charterer.dev/exit-code=0")
    stage.wait("job/run", "condition=Complete")
    assert {pod["status"]["phase"] for pod in stage.pods("run")} == {"Succeeded"}


def test_a_stopped_pod_ends_with_143_before_it_goes(stage: Stage) -> None:
    stage.create_job("stopped", {})
    stage.wait("job/stopped", "jsonpath={.status.ready}=1")
    name = stage.hold("stopped")
    stage.suspend_job("stopped", True)
    stage.wait(f"pod/{name}", "jsonpath={.status.phase}=Failed")
    (pod,) = stage.pods("stopped")
    assert pod["metadata"]["deletionTimestamp"]
    assert stage.exit_code(pod) == 143
    stage.let_go(name)


@pytest.mark.parametrize(
    ("annotations", "code", "phase"),
    [
        ({"testbed.charterer.dev/stop-exit-code": "0"}, 0, "Succeeded"),
        ({"testbed.charterer.dev/stop-delay": "1s"}, 143, "Failed"),
        ({"testbed.charterer.dev/stop-delay": "30s"}, 137, "Failed"),
    ],
    ids=["stops cleanly", "takes a second", "outlives its grace period"],
)
def test_annotations_say_how_a_pod_stops(stage: Stage, annotations: dict[str, str], code: int, phase: str) -> None:
    stage.create_job("stopping", annotations)
    stage.wait("job/stopping", "jsonpath={.status.ready}=1")
    name = stage.hold("stopping")
    stage.suspend_job("stopping", True)
    stage.wait(f"pod/{name}", f"jsonpath={{.status.phase}}={phase}")
    (pod,) = stage.pods("stopping")
    assert stage.exit_code(pod) == code
    stage.let_go(name)


def test_a_pod_that_exits_with_another_code_fails_its_job(stage: Stage) -> None:
    stage.create_job("failing", {"testbed.charterer.dev/exit-code": "7"})
    stage.wait("job/failing", "condition=Failed")
    (pod,) = stage.pods("failing")
    assert pod["status"]["phase"] == "Failed"
    assert stage.exit_code(pod) == 7


def test_a_pod_completes_after_the_time_it_says(stage: Stage) -> None:
    stage.create_job("timed", {"testbed.charterer.dev/complete-after": "2s"})
    stage.wait("job/timed", "jsonpath={.status.ready}=1")
    stage.wait("job/timed", "condition=Complete")
    (pod,) = stage.pods("timed")
    assert stage.exit_code(pod) == 0


def test_a_silent_kubelet_makes_the_node_unknown_and_leaves_its_pods_alone_until_it_speaks(stage: Stage) -> None:
    stage.create_job("quiet", {})
    stage.wait("job/quiet", "jsonpath={.status.ready}=1")
    stage.plane.kubectl("label", "node", stage.node, f"{SILENT_LABEL}=true")
    stage.wait(f"node/{stage.node}", "condition=Ready=Unknown")
    stage.suspend_job("quiet", True)
    (name,) = (pod["metadata"]["name"] for pod in stage.pods("quiet"))
    stage.wait(f"pod/{name}", "jsonpath={.metadata.deletionTimestamp}")
    (pod,) = stage.pods("quiet")
    assert pod["status"]["phase"] == "Running"
    stage.plane.kubectl("label", "node", stage.node, f"{SILENT_LABEL}-")
    stage.wait(f"node/{stage.node}", "condition=Ready")
    stage.plane.kubectl("wait", "pods", "--selector=job-name=quiet", "--for=delete", "--timeout=30s")
