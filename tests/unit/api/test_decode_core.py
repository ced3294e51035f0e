"""Reading Kubernetes' own kinds."""

from __future__ import annotations

from typing import Any

import pytest

from charterer.api import decode
from charterer.api.decode import ForeignPod, JobPod
from charterer.api.models.base import stored_bytes
from charterer.domain.ids import NodeName
from charterer.domain.pod import PodPhase
from charterer.domain.snapshot import Stop
from charterer.domain.time import parse_instant
from tests.unit.api import values

OURS = {"charterer.dev/job-uid": "uid-1", "charterer.dev/job": "sft", "charterer.dev/run": "2"}
INDEX = {"batch.kubernetes.io/job-completion-index": "3"}
RUN = {"apiVersion": "batch/v1", "kind": "Job", "name": "sft-r2", "uid": "run-uid", "controller": True}
TRAINING_JOB = {"apiVersion": "charterer.dev/v1alpha1", "kind": "TrainingJob", "name": "sft", "uid": "uid-1"}


def _pod(labels: dict[str, str], status: dict[str, Any], node: str | None = "node-1", **meta: Any) -> dict[str, Any]:
    containers = [
        {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        {"name": "logs", "resources": {"limits": {"cpu": "1"}}},
    ]
    spec = {"containers": containers, **({"nodeName": node} if node else {})}
    owned: dict[str, Any] = {"ownerReferences": [RUN], "annotations": INDEX, **meta}
    return values.raw("Pod", spec, name="sft-r2-3", status=status, labels=labels, **owned)


def _own(raw: dict[str, Any]) -> JobPod:
    found = decode.pod(raw)
    assert isinstance(found, JobPod)
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
    def test_a_pods_trouble_is_what_the_container_or_the_scheduler_says(
        self, status: dict[str, Any], words: str
    ) -> None:
        assert _own(_pod(OURS, {"phase": "Pending", **status})).pod.trouble == words

    @pytest.mark.parametrize(
        ("waiting", "hopeless"),
        [
            ({"reason": "ErrImageNeverPull"}, True),
            ({"reason": "InvalidImageName"}, True),
            ({"reason": "CreateContainerConfigError", "message": 'secret "key" not found'}, True),
            ({"reason": "ErrImagePull", "message": "rpc error: code = NotFound desc = failed to pull image"}, True),
            ({"reason": "ImagePullBackOff", "message": "Back-off pulling image: rpc error: code = NotFound"}, True),
            ({"reason": "ImagePullBackOff", "message": "Back-off pulling image: dial tcp: i/o timeout"}, False),
            ({"reason": "CrashLoopBackOff"}, False),
            ({"reason": "ContainerCreating"}, False),
        ],
    )
    def test_a_pod_is_hopeless_if_only_an_edit_can_start_it(self, waiting: dict[str, Any], hopeless: bool) -> None:
        status = {"phase": "Pending", "containerStatuses": [{"name": "trainer", "state": {"waiting": waiting}}]}
        assert _own(_pod(OURS, status)).pod.hopeless is hopeless

    @pytest.mark.parametrize(
        ("message", "hopeless"),
        [
            ("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: 0/3", True),
            (
                "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node "
                "affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
                False,
            ),
        ],
    )
    def test_a_pod_that_its_runs_nodes_do_not_take_is_hopeless(self, message: str, hopeless: bool) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        assert _own(_pod(OURS, {"phase": "Pending", "conditions": [condition]})).pod.hopeless is hopeless

    def test_a_schedulers_long_sentence_is_cut(self) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "x" * 9000}
        assert len(_own(_pod(OURS, {"phase": "Pending", "conditions": [condition]})).pod.trouble) == 512


class TestPods:
    def test_a_running_pod_of_ours(self) -> None:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        own = _own(_pod(OURS, status))
        assert (own.controller, own.controller_uid) == ("sft-r2", "run-uid")
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

    @pytest.mark.parametrize(
        "reason",
        ["UnexpectedAdmissionError", "OutOfcpu", "OutOfnvidia.com/gpu", "TopologyAffinityError", "SomethingNew"],
    )
    def test_a_pod_that_failed_before_any_container_began_was_refused_by_its_kubelet(self, reason: str) -> None:
        status: dict[str, Any] = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
        pod = _own(_pod(OURS, status)).pod
        assert (pod.refused, pod.exit_code, pod.message) == (True, None, f"{reason}: Pod was rejected")
        waits = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
        assert _own(_pod(OURS, status | {"containerStatuses": [waits]})).pod.refused

    @pytest.mark.parametrize(
        "status",
        [
            {"phase": "Running", "reason": "UnexpectedAdmissionError"},
            {"phase": "Failed"},
            {"phase": "Failed", "reason": "DeadlineExceeded"},
            {"phase": "Failed", "reason": "Evicted", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"phase": "Failed", "reason": "X", "containerStatuses": [_ended(1, values.CREATED)]},
            {"phase": "Failed", "reason": "X", "initContainerStatuses": [_ended(1, values.CREATED)]},
            {"phase": "Failed", "reason": "X", "containerStatuses": [{"lastState": {"terminated": {"exitCode": 1}}}]},
        ],
        ids=[
            "runs",
            "no reason",
            "its own deadline",
            "disrupted",
            "ended by itself",
            "did not get ready",
            "ran before",
        ],
    )
    def test_any_other_end_is_not_its_kubelets_refusal(self, status: dict[str, Any]) -> None:
        assert not _own(_pod(OURS, status)).pod.refused

    def test_a_pod_was_told_to_end_when_its_grace_period_began(self) -> None:
        told: dict[str, Any] = {"deletionTimestamp": "2026-01-31T12:00:30Z", "deletionGracePeriodSeconds": 30}
        status = {"phase": "Failed", "containerStatuses": [_ended(143, "2026-01-31T12:00:09Z", reason="Error")]}
        going = _own(_pod(OURS, status, **told))
        assert going.pod.must_end_by == parse_instant("2026-01-31T12:00:30Z")
        assert going.pod.told_to_end == parse_instant("2026-01-31T12:00:00Z")
        staying = _own(_pod(OURS, status))
        assert staying.pod.told_to_end is None
        assert [decode.was_told_to_end(pod) for pod in (going, staying)] == [True, False]

    def test_a_pod_of_somebody_else_counts_by_the_gpus_it_holds(self) -> None:
        assert decode.pod(_pod({}, {"phase": "Running"})) == ForeignPod(NodeName("node-1"), 4)

    def test_a_slice_that_a_pod_holds_counts_as_one(self) -> None:
        raw = _pod({}, {"phase": "Running"})
        raw["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.5gb": "1", "memory": "8Gi"}
        assert decode.pod(raw) == ForeignPod(NodeName("node-1"), 1)

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

    def test_sidecars_hold_their_gpus_beside_the_containers_and_beside_later_init_containers(self) -> None:
        raw = _pod(OURS, {"phase": "Pending"})
        sidecar = {"name": "cache", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        warm = {"name": "warm", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        raw["spec"]["initContainers"] = [sidecar, warm]
        assert _own(raw).pod.gpus == 6
        raw["spec"]["initContainers"] = [sidecar, warm | {"resources": {"limits": {"nvidia.com/gpu": 5}}}]
        assert _own(raw).pod.gpus == 7
        raw["spec"]["initContainers"] = [warm | {"resources": {"limits": {"nvidia.com/gpu": 5}}}, sidecar]
        assert _own(raw).pod.gpus == 6

    def test_the_overhead_of_a_runtime_class_counts(self) -> None:
        raw = _pod(OURS, {"phase": "Pending"})
        raw["spec"]["overhead"] = {"nvidia.com/gpu": "1"}
        assert _own(raw).pod.gpus == 5

    @pytest.mark.parametrize(
        ("written", "gpus"), [(8, 8), ("8", 8), ("1k", 1000), ("8000m", 8), ("2e1", 20), ("1Ki", 1024)]
    )
    def test_gpus_are_read_as_kubernetes_writes_quantities(self, written: object, gpus: int) -> None:
        raw = _pod({}, {"phase": "Running"})
        raw["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = written
        assert decode.pod(raw) == ForeignPod(NodeName("node-1"), gpus)

    @pytest.mark.parametrize(
        "changes",
        [
            {"ownerReferences": []},
            {"ownerReferences": [RUN | {"controller": False}]},
            {"ownerReferences": [RUN | {"kind": "ReplicaSet"}]},
            {"ownerReferences": [RUN | {"apiVersion": "evil.example/v1"}]},
            {"annotations": {"batch.kubernetes.io/job-completion-index": "first"}},
        ],
        ids=["no owner", "not its controller", "a ReplicaSet", "another group", "no index"],
    )
    def test_a_pod_with_a_runs_labels_that_no_run_can_control_is_foreign(self, changes: dict[str, Any]) -> None:
        assert decode.pod(_pod(OURS, {"phase": "Running"}, **changes)) == ForeignPod(NodeName("node-1"), 4)

    @pytest.mark.parametrize("owner", [{"name": "backup"}, {"name": "sft-r-2"}, {"name": "ray", "kind": "RayCluster"}])
    def test_a_pod_whose_controller_is_named_as_no_run_may_be_one_of_an_adopted_object(
        self, owner: dict[str, Any]
    ) -> None:
        own = _own(_pod(OURS, {"phase": "Running"}, ownerReferences=[RUN | owner]))
        assert (own.adopted_for, own.pod.run, own.controller) == ("uid-1", 2, owner["name"])

    def test_the_number_of_its_run_is_that_of_its_controller_whatever_its_label_says(self) -> None:
        assert _own(_pod({**OURS, "charterer.dev/run": "9"}, {})).pod.run == 2


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

    def test_slices_are_counted_by_the_names_of_their_resources(self) -> None:
        status = {"allocatable": {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "56", "cpu": "96"}}
        node = decode.node(values.raw("Node", {}, name="node-1", status=status))
        assert (node.gpus, node.others) == (0, {"nvidia.com/mig-1g.5gb": 56})
        assert [node.count(f"nvidia.com/{name}") for name in ("gpu", "mig-1g.5gb", "mig-2g.10gb")] == [0, 56, 0]

    def test_so_are_places_on_shared_gpus(self) -> None:
        status = {"allocatable": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}}
        assert decode.node(values.raw("Node", {}, name="node-1", status=status)).count("nvidia.com/gpu.shared") == 8

    def test_of_its_taints_those_count_that_keep_pods_off(self) -> None:
        taints = [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"key": "soft", "effect": "PreferNoSchedule"},
            {"key": "nvidia.com/gpu", "effect": "NoExecute", "timeAdded": "2026-01-31T12:00:00Z"},
        ]
        node = decode.node(values.raw("Node", {"taints": taints}, name="node-1", status={}))
        assert [taint.text for taint in node.taints] == ["dedicated=gpu:NoSchedule", "nvidia.com/gpu:NoExecute"]

    def test_a_node_whose_kubelet_is_silent_is_not_ready(self) -> None:
        status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        node = decode.node(values.raw("Node", {}, name="node-1", status=status))
        assert (node.ready, node.gpus) == (False, 0)


def test_a_namespace_is_its_name_and_labels() -> None:
    labelled = decode.namespace({"metadata": {"name": "research", "labels": {"team": "a"}}})
    assert labelled == decode.DecodedNamespace("research", {"team": "a"})
    assert decode.namespace({"metadata": {"name": "bare"}}) == decode.DecodedNamespace("bare", {})


@pytest.mark.parametrize(
    ("value", "stop"), [("drain", Stop.DRAIN), (" Drain ", Stop.DRAIN), ("rent", Stop.RENT), ("", Stop.RENT)]
)
def test_whatever_the_annotation_says_it_stops_the_operator(value: str, stop: Stop) -> None:
    annotated = {"metadata": {"name": "charterer-system", "annotations": {"charterer.dev/stop": value}}}
    assert decode.namespace(annotated).stop is stop


def test_a_service_is_known_by_the_job_it_belongs_to_until_it_goes() -> None:
    owned: dict[str, Any] = {"labels": OURS, "ownerReferences": [TRAINING_JOB | {"controller": True}]}
    assert decode.service(values.raw("Service", {}, **owned)) == "uid-1"
    assert decode.service(values.raw("Service", {}, **owned, deletionTimestamp=values.CREATED)) is None
    assert decode.service(values.raw("Service", {}, **owned, name="other")) is None
    assert decode.service(values.raw("Service", {}, labels=OURS)) is None
    assert decode.service(values.raw("Service", {}, labels=OURS, ownerReferences=[TRAINING_JOB])) is None
