"""Reading Kubernetes' own kinds."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from charterer.api.decode import ForeignPod, OwnPod
from charterer.api.stored_size import stored_bytes
from charterer.domain.errors import InvalidObject
from charterer.domain.ids import NodeName
from charterer.domain.job import PodPhase
from charterer.domain.time import parse_instant
from tests.unit.api import values

OURS = {"charterer.dev/job-uid": "uid-1", "charterer.dev/job": "sft", "charterer.dev/run": "2"}
INDEX = {"batch.kubernetes.io/job-completion-index": "3"}


def _pod(labels: dict[str, str], status: dict[str, Any], node: str | None = "node-1", **meta: Any) -> dict[str, Any]:
    containers = [
        {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        {"name": "logs", "resources": {"limits": {"cpu": "1"}}},
    ]
    spec = {"containers": containers, **({"nodeName": node} if node else {})}
    return values.raw("Pod", spec, name="sft-r2-3", status=status, labels=labels, annotations=INDEX, **meta)


def _own(raw: dict[str, Any]) -> OwnPod:
    found = decode.pod(raw)
    assert isinstance(found, OwnPod)
    return found


def _ended(code: int, at: str, **said: str) -> dict[str, Any]:
    return {"state": {"terminated": {"exitCode": code, "finishedAt": at, **said}}}


def test_a_failed_containers_message_keeps_its_end_counted_as_it_is_stored() -> None:
    logs = "\x1b[31m" * 1000 + "Traceback\nRuntimeError: CUDA out of memory\n"
    status = {"phase": "Failed", "containerStatuses": [_ended(1, "2026-01-31T12:00:00Z", reason="Error", message=logs)]}
    message = _own(_pod(OURS, status)).pod.message
    assert message.startswith("Error: …")
    assert message.endswith("RuntimeError: CUDA out of memory")
    assert stored_bytes(message) <= 768 + len('"Error: "')
    brief = {"phase": "Failed", "containerStatuses": [_ended(1, "2026-01-31T12:00:00Z", message="no such file")]}
    assert _own(_pod(OURS, brief)).pod.message == "no such file"


class TestTrouble:
    """Why a pod does not run, in the words of its status."""

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (
                {
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                    ]
                },
                "Unschedulable: 0/3 nodes",
            ),
            (
                {
                    "containerStatuses": [
                        {"name": "trainer", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}}
                    ]
                },
                "container trainer: ErrImagePull: no such tag",
            ),
            (
                {
                    "containerStatuses": [{"name": "trainer", "state": {"waiting": {"reason": "PodInitializing"}}}],
                    "initContainerStatuses": [
                        {"name": "fetch", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}
                    ],
                },
                "container fetch: CreateContainerConfigError",
            ),
            (
                {"containerStatuses": [{"name": "trainer", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
                "",
            ),
            ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ""),
            ({}, ""),
        ],
    )
    def test_it_is_what_the_container_or_the_scheduler_says(self, status: dict[str, Any], words: str) -> None:
        assert _own(_pod(OURS, {"phase": "Pending", **status})).pod.trouble == words

    def test_a_schedulers_long_sentence_is_cut(self) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x" * 9000}
        assert len(_own(_pod(OURS, {"phase": "Pending", "conditions": [condition]})).pod.trouble) == 512


class TestPods:
    def test_a_running_pod_of_ours(self) -> None:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        own = _own(_pod(OURS, status))
        assert own.job == "uid-1"
        assert (own.pod.run, own.pod.index, own.pod.gpus, own.pod.node) == (2, 3, 4, "node-1")
        assert (own.pod.phase, own.pod.ready, own.pod.live) == (PodPhase.RUNNING, True, True)
        assert (own.pod.deleting, own.pod.disrupted, own.pod.exit_code, own.pod.finished) == (False, False, None, None)

    def test_a_failed_pod_tells_the_first_bad_exit_and_when_the_last_container_ended(self) -> None:
        status = {
            "phase": "Failed",
            "containerStatuses": [
                _ended(0, "2026-01-31T12:00:09Z", reason="Completed"),
                _ended(137, "2026-01-31T12:00:05Z", reason="OOMKilled", message="out of memory"),
            ],
        }
        pod = _own(_pod(OURS, status)).pod
        assert (pod.exit_code, pod.message) == (137, "OOMKilled: out of memory")
        assert pod.finished == parse_instant("2026-01-31T12:00:09Z")
        assert not pod.live

    def test_a_pod_that_succeeded_ended_with_zero(self) -> None:
        status = {"phase": "Succeeded", "containerStatuses": [_ended(0, "2026-01-31T12:00:09Z", reason="Completed")]}
        pod = _own(_pod(OURS, status)).pod
        assert (pod.exit_code, pod.message) == (0, "")

    def test_a_disrupted_pod_that_is_going(self) -> None:
        status = {
            "phase": "Failed",
            "reason": "InstanceTerminated",
            "message": "the machine is gone",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
        pod = _own(_pod(OURS, status, deletionTimestamp=values.CREATED)).pod
        assert (pod.disrupted, pod.deleting) == (True, True)
        assert pod.message == "InstanceTerminated: the machine is gone"

    def test_a_pod_of_somebody_else_counts_by_the_gpus_it_holds(self) -> None:
        assert decode.pod(_pod({}, {"phase": "Running"})) == ForeignPod(NodeName("node-1"), 4)

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_finished_pod_of_somebody_else_does_not_matter(self, phase: str) -> None:
        assert decode.pod(_pod({}, {"phase": phase})) is None

    def test_a_pod_of_somebody_else_without_a_node_does_not_matter(self) -> None:
        assert decode.pod(_pod({}, {"phase": "Pending"}, node=None)) is None

    def test_a_pod_of_somebody_else_without_gpus_does_not_matter(self) -> None:
        raw = _pod({}, {"phase": "Running"})
        raw["spec"]["containers"].pop(0)
        assert decode.pod(raw) is None

    def test_an_init_container_that_takes_more_gpus_counts(self) -> None:
        raw = _pod(OURS, {"phase": "Pending"})
        raw["spec"]["initContainers"] = [{"name": "warm", "resources": {"limits": {"nvidia.com/gpu": 8}}}]
        assert _own(raw).pod.gpus == 8

    def test_a_run_label_that_is_no_number_is_a_problem(self) -> None:
        with pytest.raises(InvalidObject, match="'two' is no run number"):
            decode.pod(_pod({**OURS, "charterer.dev/run": "two"}, {}))


class TestNodes:
    def test_a_node_with_gpus(self) -> None:
        labels = {"run.charterer.dev/0a1b2c3d": "r2", "nvidia.com/gpu.product": "A100"}
        status = {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "96"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        }
        spec = {"providerID": "fake:///i-1", "unschedulable": True}
        node = decode.node(values.raw("Node", spec, name="node-1", status=status, labels=labels))
        assert (node.name, node.provider_id, node.ready, node.unschedulable) == ("node-1", "fake:///i-1", True, True)
        assert (node.gpus, node.foreign_gpus, node.run_labels) == (8, 0, {"run.charterer.dev/0a1b2c3d": "r2"})

    def test_a_node_whose_kubelet_is_silent_is_not_ready(self) -> None:
        status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        node = decode.node(values.raw("Node", {}, name="node-1", status=status))
        assert (node.ready, node.gpus) == (False, 0)


def test_a_namespace_is_its_name_and_labels() -> None:
    assert decode.namespace({"metadata": {"name": "research", "labels": {"team": "a"}}}) == ("research", {"team": "a"})
    assert decode.namespace({"metadata": {"name": "bare"}}) == ("bare", {})


def test_a_service_is_known_by_the_job_it_belongs_to_until_it_goes() -> None:
    assert decode.service(values.raw("Service", {}, labels=OURS)) == "uid-1"
    assert decode.service(values.raw("Service", {}, labels={})) is None
    assert decode.service(values.raw("Service", {}, labels=OURS, deletionTimestamp=values.CREATED)) is None
