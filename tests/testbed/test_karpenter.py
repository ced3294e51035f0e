"""The testbed's Karpenter: claims become Nodes, and the cloud behind Karpenter can be out of stock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.testbed.controlplane import ControlPlane
from tests.testbed.karpenter_process import GPU, NODE_CLASS, KarpenterProcess

pytestmark = pytest.mark.xdist_group("karpenter")


def _claim(name: str, zone: str) -> dict[str, Any]:
    wanted = {
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
        "karpenter.sh/capacity-type": "on-demand",
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": NODE_CLASS,
            "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()],
            "resources": {"requests": {GPU: "8"}},
        },
    }


def test_a_claim_becomes_a_ready_node_with_gpus_until_it_is_deleted(
    control_plane: ControlPlane, karpenter: KarpenterProcess
) -> None:
    """The bill has the machine from its launch to its end."""
    control_plane.kubectl("create", "-f", "-", input=json.dumps(_claim("bed-1", "zone-a")))
    control_plane.kubectl("wait", "--for=condition=Ready", "nodeclaim/bed-1", "--timeout=30s")
    node = json.loads(control_plane.kubectl("get", "node", "-l", "kubernetes.io/hostname=bed-1", "-o", "json"))[
        "items"
    ][0]
    assert node["status"]["allocatable"][GPU] == "8"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-a"
    (machine,) = karpenter.instances(["bed-1"])
    assert machine.ended is None
    control_plane.kubectl("delete", "nodeclaim", "bed-1", "--timeout=30s")
    (machine,) = karpenter.instances(["bed-1"])
    assert machine.ended is not None
    assert machine.ended > machine.launched


def test_a_claim_of_what_is_out_of_stock_is_deleted_without_a_machine(
    control_plane: ControlPlane, karpenter: KarpenterProcess
) -> None:
    """Only that zone is out of stock, even after Karpenter was killed and restarted."""
    karpenter.behave({"zone": "zone-b", "stock": 0})
    karpenter.kill()
    karpenter.restart()
    control_plane.kubectl("create", "-f", "-", input=json.dumps(_claim("bed-2", "zone-b")))
    control_plane.kubectl("wait", "--for=delete", "nodeclaim/bed-2", "--timeout=30s")
    assert karpenter.instances(["bed-2"]) == []
