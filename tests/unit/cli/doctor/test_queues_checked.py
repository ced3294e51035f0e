"""What ``charterer doctor`` says of Kueue's queues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.api.names import KUEUE_CHECK, KUEUE_CONTROLLER
from charterer.clouds.existing import ExistingNodes
from charterer.cluster.client import RawObject
from charterer.domain.ids import PoolId
from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.domain.pool import Pool
from charterer.tools.commands.doctor.checks import Finding, check_flavors
from charterer.tools.commands.doctor.command import examine
from charterer.tools.commands.shared.adopted_objects import Queues
from tests.factory import TEAM, pool
from tests.factory.pools import OFFERING
from tests.unit.cli.doctor.test_doctor import healthy, wrong


def check(name: str = KUEUE_CHECK, controller: str = KUEUE_CONTROLLER, active: str = "True") -> RawObject:
    conditions = [{"type": "Active", "status": active}]
    return {"metadata": {"name": name}, "spec": {"controllerName": controller}, "status": {"conditions": conditions}}


def queue(*checks: str) -> RawObject:
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "rented"}]}]
    return {"metadata": {"name": "research"}, "spec": {"admissionChecksStrategy": strategy, "resourceGroups": groups}}


def test_a_queue_whose_check_is_answered_is_well() -> None:
    _, reading = healthy()
    found = examine(replace(reading, queues=Queues((queue(KUEUE_CHECK),), (check(),))))
    assert [(line.subject, line.remedy) for line in found if line.check == "queues"] == [("ClusterQueue research", "")]


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ((), "there is none of that name"),
        ((check(controller="example.org/other"),), "its controllerName is example.org/other"),
        ((check(active="False"),), "the operator has not made it active yet"),
    ],
)
def test_a_queue_that_nobody_answers_is_told_with_what_to_do(checks: tuple[RawObject, ...], words: str) -> None:
    _, reading = healthy()
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK),), checks)))
    assert found.subject == "ClusterQueue research"
    assert f"asks AdmissionCheck charterer, and every job in it waits: {words}" in found.text


def test_a_queue_is_told_whose_operator_is_gone() -> None:
    _, reading = healthy()
    assert reading.leader is not None
    gone = replace(reading, leader=replace(reading.leader, trouble="the Lease ran out"))
    found = wrong(replace(gone, queues=Queues((queue(KUEUE_CHECK),), (check(),))))
    assert any("no operator answers it (the Lease ran out)" in line.text for line in found)
    assert any("take charterer out of its spec.admissionChecksStrategy" in line.remedy for line in found)


def test_a_check_by_which_an_autoscaler_adds_nodes_is_told() -> None:
    _, reading = healthy()
    other = check("autoscaler", "kueue.x-k8s.io/provisioning-request")
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK, "autoscaler"),), (check(), other))))
    assert found.remedy == "keep only one of autoscaler and charterer in the queue"


def test_a_check_by_which_jobs_run_in_another_cluster_is_told() -> None:
    _, reading = healthy()
    other = check("far", "kueue.x-k8s.io/multikueue")
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK, "far"),), (check(), other))))
    assert "by which its jobs run in another cluster: nothing is rented for them here" in found.text
    assert found.remedy == "keep only one of far and charterer in the queue"


# ResourceFlavors, by which Kueue changes every pod of a job.

GPU_TAINT = NodeTaint("nvidia.com/gpu", "", "NoSchedule")
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists"}


def told_of(*pools: Pool, name: str = "rented", **spec: object) -> list[Finding]:
    """What is told of a flavor with this spec beside these pools."""
    flavor = {"metadata": {"name": name}, "spec": spec}
    return list(check_flavors(Queues((queue(KUEUE_CHECK),), (check(),), (flavor,)), pools))


def nodes_with(*taints: NodeTaint, **labels: str) -> Pool:
    traits = NodeTraits(tuple(labels.items()), taints)
    return pool(offering=replace(OFFERING, traits=traits, traits_seen=1))


@pytest.mark.parametrize("name", ["rented", "of-another-queue"])
@pytest.mark.parametrize(
    "toleration", [TOLERATED, {"operator": "Exists"}, {"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
)
def test_a_flavor_that_lets_every_pod_onto_rented_nodes_is_told(name: str, toleration: RawObject) -> None:
    (found,) = told_of(nodes_with(GPU_TAINT), name=name, tolerations=[toleration])
    assert found.subject == f"ResourceFlavor {name}"
    assert "has spec.tolerations for nvidia.com/gpu:NoSchedule, the taint of GPUPool" in found.text
    assert found.remedy == "take that toleration out: Charterer gives it to the pods that it places"


@pytest.mark.parametrize(
    ("node", "spec"),
    [
        (nodes_with(GPU_TAINT), {}),
        (nodes_with(GPU_TAINT), {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
        (nodes_with(GPU_TAINT), {"tolerations": [TOLERATED], "nodeLabels": {"own": "yes"}}),
        (nodes_with(GPU_TAINT, NodeTaint("dedicated", "ml", "NoSchedule")), {"tolerations": [TOLERATED]}),
        (nodes_with(), {"tolerations": [TOLERATED]}),
        (replace(nodes_with(GPU_TAINT), cloud=ExistingNodes((), TEAM)), {"tolerations": [TOLERATED]}),
    ],
    ids=["none", "of another taint", "other nodes", "one of two taints", "nodes without a taint", "own nodes"],
)
def test_a_flavor_by_which_nobody_comes_onto_rented_nodes_is_not_told(node: Pool, spec: RawObject) -> None:
    assert told_of(node, name="of-another-queue", **spec) == []


def test_a_flavor_of_charterers_queue_whose_labels_no_pool_has_is_told() -> None:
    (found,) = told_of(nodes_with(zone="a"), nodeLabels={"zone": "b"})
    assert "has spec.nodeLabels zone=b, which nodes of no GPUPool have" in found.text
    assert found.remedy == "take the labels out: Charterer places the pods"
    assert told_of(nodes_with(zone="a"), nodeLabels={"zone": "a"}) == []
    assert told_of(nodes_with(zone="a"), pool(id=PoolId("new"), offering=None), nodeLabels={"zone": "b"}) == []
    own = replace(nodes_with(zone="b"), cloud=ExistingNodes((), TEAM))
    assert told_of(nodes_with(zone="a"), own, nodeLabels={"zone": "b"}) == []
    assert told_of(nodes_with(zone="a"), name="of-another-queue", nodeLabels={"zone": "b"}) == []


def test_what_doctor_says_has_the_flavors() -> None:
    _, reading = healthy()
    labelled = {"metadata": {"name": "rented"}, "spec": {"nodeLabels": {"zone": "nowhere"}}}
    (found,) = wrong(replace(reading, queues=Queues((queue(KUEUE_CHECK),), (check(),), (labelled,))))
    assert found.subject == "ResourceFlavor rented"
