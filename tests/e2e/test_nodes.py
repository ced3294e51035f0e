"""The nodes themselves: GPUs of a device plugin, logs of containers, and nothing that is left of a node."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.support import REAL_NODES
from tests.testbed import cgroups
from tests.testbed.images import TRAIN
from tests.testbed.node_host import BRIDGE, FOLDER, cable, links, wait_until
from tests.testbed.real_bed import RealCluster

pytestmark = REAL_NODES
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "speaks", "namespace": "default"},
    "spec": {
        "nodeName": "alone",
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "usr", "hostPath": {"path": "/usr"}}],
        "containers": [
            {
                "name": "speaks",
                "image": TRAIN,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", "echo heard; exec sleep 600"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}],
            }
        ],
    },
}


def left_of(number: int) -> Mapping[str, object]:
    """What there is of a node on this machine besides its processes: mounts, interfaces, cgroups."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {
        "mounts": [line for line in mounts if str(FOLDER) in line or "/var/lib/kubelet" in line],
        "links": [link for link in links() if link == cable(number)],
        "cgroups": [name for name in cgroups.existing() if name == cgroups.name_of(number)],
        "files": list((FOLDER / str(number)).glob("*")),
    }


def status_of(cluster: RealCluster, kind: str, name: str) -> dict[str, Any]:
    """The status of an object; empty while there is none."""
    found = cluster.plane.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
    status: dict[str, Any] = json.loads(found)["status"] if found else {}
    return status


def test_a_node_has_gpus_runs_pods_and_leaves_nothing_when_it_is_switched_off(cluster: RealCluster) -> None:
    bridge = Path(f"/sys/class/net/{BRIDGE}/address")
    known_to_nodes = bridge.read_text()
    node = cluster.boot("alone", gpus=2)
    assert bridge.read_text() == known_to_nodes

    def gpus() -> object:
        return status_of(cluster, "node", "alone").get("allocatable", {}).get("nvidia.com/gpu")

    wait_until(lambda: gpus() == "2", 60, "both GPUs are there")
    node.signal_gpus(signal.SIGUSR1)
    wait_until(lambda: gpus() == "1", 60, "one of them is unhealthy")
    cluster.plane.kubectl("apply", "--filename=-", input=json.dumps(POD))
    wait_until(lambda: status_of(cluster, "pod", "speaks").get("phase") == "Running", 60, "the pod runs")
    wait_until(lambda: cluster.plane.kubectl("logs", "speaks") == "heard\n", 30, "its log is read")
    running = cgroups.processes(node.cgroup)
    assert {"containerd", "kubelet", "pause", "sleep"} <= {psutil.Process(pid).name() for pid in running}
    assert left_of(node.number)["links"]
    cluster.power_off("alone")
    assert not any(left_of(node.number).values())
    assert not [pid for pid in running if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    cluster.plane.kubectl("delete", "pod", "speaks", "--force", "--grace-period=0")
    cluster.plane.kubectl("delete", "node", "alone")
