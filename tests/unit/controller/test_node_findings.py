"""What a preflight finds on the Nodes that came before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from charterer.clouds.karpenter import NodeClaims
from charterer.controller.preflights import node_findings
from charterer.domain.ids import PoolId
from charterer.domain.job import Job
from charterer.domain.node_demands import NodeTaint, NodeTraits
from charterer.domain.pod import PodPhase
from charterer.domain.pool import Partition, Pool
from charterer.domain.rental import Rental, RentalPhase
from charterer.domain.snapshot import Departure, Node
from charterer.providers.provider import PreflightFinding
from tests.factory import OFFERING, POOL, allocation, at, instance, job, node, pod, pool, rental, run, snapshot

READY = rental("a100-1", instance(), ready=at(60))
KNOWN = pool(offering=OFFERING)
DEDICATED = NodeTaint("dedicated", "gpu", "NoSchedule")
WAITS = "Unschedulable: 0/3 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}."


def found(*things: Pool | Rental | Node | Job, seconds: float = 600) -> dict[str, PreflightFinding]:
    """The findings of the one pool by their subjects."""
    declared = [thing for thing in things if isinstance(thing, Pool)] or [KNOWN]
    rest = [thing for thing in things if not isinstance(thing, Pool)]
    findings = node_findings(snapshot(*declared, *rest, now=at(seconds)))
    return {finding.subject: finding for finding in findings.get(POOL, ())}


class TestDevicePlugin:
    def test_a_node_that_offers_all_gpus_is_well(self) -> None:
        assert found(READY, node())["device plugin"] == PreflightFinding(
            "device plugin", True, "each Node offers 4 GPUs"
        )

    def test_a_node_without_gpus_has_no_device_plugin(self) -> None:
        finding = found(READY, node(gpus=0))["device plugin"]
        assert not finding.well
        assert finding.message == (
            "no nvidia.com/gpu on Node n-i1: install the NVIDIA device plugin there, or let it tolerate their taints"
        )

    def test_a_node_with_fewer_gpus_than_the_pool_says_is_named(self) -> None:
        finding = found(READY, node(gpus=3))["device plugin"]
        assert not finding.well
        assert finding.message.startswith("Node n-i1 offers 3 of 4 GPUs: see the log")

    def test_a_node_whose_gpus_are_not_cut_as_the_pool_says_is_named_before_it_counts_as_ready(self) -> None:
        cut = pool(offering=replace(OFFERING, resource="nvidia.com/mig-1g.5gb"), partition=Partition("1g.5gb"))
        starting = rental("a100-1", instance(), phase=RentalPhase.STARTING, ready=None)
        assert "device plugin" not in found(cut, starting, node(), seconds=239)
        finding = found(cut, starting, node(), seconds=240)["device plugin"]
        assert not finding.well
        assert finding.message.startswith("no nvidia.com/mig-1g.5gb on Node n-i1: spec.partition says")
        whole = node(gpus=0, others={"nvidia.com/mig-1g.5gb": 4})
        assert found(cut, starting, whole)["device plugin"].message == "each Node offers 4 1g.5gb slices"

    def test_a_node_whose_device_plugin_does_not_share_gpus_is_named(self) -> None:
        offering = replace(OFFERING, resource="nvidia.com/gpu.shared", gpus_per_node=8, slices_per_gpu=2)
        shared = pool(offering=offering, partition=Partition("mps-2"))
        finding = found(shared, READY, node())["device plugin"]
        assert not finding.well
        assert finding.message.startswith("no nvidia.com/gpu.shared on Node n-i1: spec.sharing says")
        there = node(gpus=0, others={"nvidia.com/gpu.shared": 8})
        assert found(shared, READY, there)["device plugin"].message == "each Node offers 8 GPU places"

    def test_a_new_node_has_two_minutes_for_it(self) -> None:
        assert "device plugin" not in found(READY, node(gpus=0), seconds=179)
        assert "device plugin" in found(READY, node(gpus=0), seconds=180)


@pytest.mark.parametrize(
    "things",
    [
        (),
        (READY,),
        (replace(READY, phase=RentalPhase.DRAINING), node()),
        (READY, node(ready=False)),
        (READY, node(deleting=True)),
        (READY, node(departure=Departure("taint x"))),
        (replace(READY, pool=PoolId("other")), node()),
    ],
)
def test_only_nodes_of_the_pool_that_are_ready_and_stay_say_anything(things: tuple[Rental | Node, ...]) -> None:
    assert found(*things) == {}


def kept_off(trouble: str) -> Job:
    """A job whose pod has no node, for that reason."""
    waiting = pod(phase=PodPhase.PENDING, ready=False, node=None, trouble=trouble)
    return job(allocation=allocation("a100-1"), runs=(run(1, waiting),))


class TestTaints:
    def test_a_taint_that_training_pods_tolerate_or_that_passes_is_not_told(self) -> None:
        taints = (
            NodeTaint("nvidia.com/gpu", "present", "NoSchedule"),
            NodeTaint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
            NodeTaint("karpenter.sh/disrupted", "", "NoSchedule"),
        )
        finding = found(READY, node(taints=taints))["taints"]
        assert finding == PreflightFinding("taints", True, "none that training pods do not tolerate")

    def test_another_taint_is_named_for_whoever_writes_templates(self) -> None:
        finding = found(READY, node(taints=(DEDICATED,)))["taints"]
        assert finding.well
        assert finding.message == "dedicated=gpu:NoSchedule on Node n-i1: a job's template has to tolerate it"

    def test_a_job_that_waits_because_of_it_is_named(self) -> None:
        finding = found(READY, node(taints=(DEDICATED,)), kept_off(WAITS))["taints"]
        assert not finding.well
        assert finding.message == (
            "dedicated=gpu:NoSchedule on Node n-i1, and pods of TrainingJob research/sft do not tolerate it: remove "
            "the taint, or let the job's template tolerate it"
        )

    def test_a_job_that_waits_for_something_else_is_not_its_fault(self) -> None:
        assert found(READY, node(taints=(DEDICATED,)), kept_off("Insufficient memory"))["taints"].well

    def test_gpus_that_may_not_be_used_by_what_runs_are_told(self) -> None:
        stays = NodeTaint("nvidia.com/gpu", "", "NoExecute")
        assert "nvidia.com/gpu:NoExecute on Node n-i1" in found(READY, node(taints=(stays,)))["taints"].message

    def test_a_taint_of_the_pools_own_spec_is_said_to_be_that(self) -> None:
        claims = NodeClaims("karpenter.k8s.aws", "EC2NodeClass", "gpu", "p4d", "a", taints=(DEDICATED,))
        finding = found(replace(KNOWN, cloud=claims), READY, node(taints=(DEDICATED,)))["taints"]
        assert "(spec.karpenter.taints): a job's template" in finding.message


class TestLabels:
    def test_a_declared_label_that_nodes_did_not_have_is_told_also_once_they_are_gone(self) -> None:
        came = replace(OFFERING, traits=NodeTraits((("disk", "slow"), ("team", "ml"))), traits_seen=1)
        declared = pool(offering=came, node_labels={"disk": "fast", "team": "ml"})
        assert found(declared)["labels"] == PreflightFinding(
            "labels",
            False,
            "spec.labels declares disk=fast, and nodes that came did not have it: let the node pool of the cloud give "
            "them, or correct spec.labels",
        )

    def test_declared_labels_that_nodes_have_are_well_and_unknown_before_one_came(self) -> None:
        came = replace(OFFERING, traits=NodeTraits((("disk", "fast"),)), traits_seen=1)
        assert found(pool(offering=came, node_labels={"disk": "fast"}))["labels"].well
        assert "labels" not in found(pool(offering=OFFERING, node_labels={"disk": "fast"}))
