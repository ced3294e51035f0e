"""A node with a real kubelet in its own network namespace: containerd, runc and a CNI bridge, without Docker.

containerd creates the network and mount namespaces, and the other programs join them. The namespaces end with their
last process, so a node that is switched off leaves no mount or interface. ``power_off`` sends SIGKILL to all processes
of the node, like a power failure. Facts that are hard to find:

- ``ip netns exec`` mounts /sys again, which hides the cgroups; nsenter does not.
- Each kubelet needs its own containerd (it kills unknown sandboxes) and its own cgroup root (it kills foreign pods).
- The folder of device plugins is a constant of the kubelet, which empties it at its start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed import cgroups
from tests.testbed.build import ROOT
from tests.testbed.controlplane import ControlPlane
from tests.testbed.dns import DOMAIN
from tests.testbed.images import PAUSE
from tests.testbed.node_host import BRIDGE, FOLDER, NodeHost, cable, disk_of, ip, remove_link, run, wait_until
from tests.testbed.node_programs import CNI, NodePrograms
from tests.testbed.supervise import Supervisor

MOST = 8
"""Maximum number of nodes at a time."""
_PLUGINS = "/var/lib/kubelet/device-plugins"
_CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{sandbox}"
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """The environment of nodes."""

    host: NodeHost
    plane: ControlPlane
    programs: NodePrograms
    images: Path
    """An archive of the images that every node has from the start."""
    logs: Path
    """The folder for logs of nodes that were switched off."""


@dataclass(slots=True)
class RealNode:
    """A node that runs until ``power_off``."""

    ground: Ground
    number: int
    name: str
    folder: Path
    _supervisor: Supervisor = field(default_factory=Supervisor)

    @classmethod
    def boot(
        cls,
        ground: Ground,
        number: int,
        name: str,
        *,
        gpus: int = 0,
        provider_id: str = "",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        proxy: bool = False,
    ) -> RealNode:
        """Start node ``number`` (1 to MOST, not in use). Its kubelet registers as ``name`` a moment later.

        ``gpus`` is the number of GPUs that a device plugin reports. ``proxy`` adds kube-proxy, which ClusterIPs need.
        Raises NodeError if a program does not start.
        """
        node = cls(ground, number, name, FOLDER / str(number))
        try:
            node._prepare()
            node._start_containerd()
            node._start_kubelet(provider_id, labels or {}, taints)
            if gpus:
                plugin = [sys.executable, "-m", "tests.testbed.gpus", str(node.folder / "device-plugins"), str(gpus)]
                node._start("gpus", plugin)
            if proxy:
                node._start_proxy()
        except BaseException:
            node.power_off()
            raise
        return node

    @property
    def address(self) -> str:
        """The node's InternalIP."""
        return self.ground.host.node_address(self.number)

    @property
    def cgroup(self) -> str:
        """The name of the node's cgroup in every hierarchy."""
        return cgroups.name_of(self.number)

    @property
    def _socket(self) -> Path:
        return self.folder / "containerd.sock"

    def load(self, archive: Path) -> None:
        """Import the images of an archive."""
        run(["ctr", "--address", str(self._socket), "--namespace", "k8s.io", "images", "import", str(archive)])

    def unplug(self) -> None:
        """Disconnect the node's network. Its processes continue to run."""
        ip(f"link set {self._cable} down")

    def plug_in(self) -> None:
        """Reconnect the node's network."""
        ip(f"link set {self._cable} up")

    def throttle(self, cores: float) -> None:
        """Limit the CPUs that the node's pods may use together."""
        cgroups.limit_cpu(self.cgroup, cores)

    def slow_network(self, bits_per_second: int) -> None:
        """Limit incoming traffic by a token bucket (tc-tbf(8)), because the kernel may lack netem."""
        bucket = f"rate {bits_per_second}bit burst 16kb latency 1s"
        run(["tc", "qdisc", "replace", "dev", self._cable, "root", "tbf", *bucket.split()])

    def slow_disk(self, path: Path, bytes_per_second: int) -> None:
        """Limit bytes per second that each running container may read and write on the disk with ``path``."""
        cgroups.limit_disk(self.cgroup, disk_of(path), bytes_per_second)

    def signal_gpus(self, signal: int) -> None:
        """Send a signal to the device plugin. SIGUSR1 makes its first GPU unhealthy, SIGUSR2 healthy again."""
        os.kill(self._supervisor.pids["gpus"], signal)

    def power_off(self) -> None:
        """Kill all processes of the node at once, like a power failure."""
        cgroups.kill(self.cgroup)
        self._supervisor.stop()
        cgroups.remove(self.cgroup)
        remove_link(self._cable)
        for log in self.folder.glob("*.log"):
            shutil.copy(log, self.ground.logs / f"{self.name}-{log.name}")
        shutil.rmtree(self.folder)

    @property
    def _cable(self) -> str:
        return cable(self.number)

    def _prepare(self) -> None:
        for name in ("cni", "device-plugins"):
            (self.folder / name).mkdir(parents=True)
        cgroups.create(self.cgroup)
        pods = self.ground.host.pod_network(self.number)
        ipam = {"type": "host-local", "dataDir": str(self.folder / "ipam"), "ranges": [[{"subnet": pods}]]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
        plugin = {**bridge, "ipam": {**ipam, "routes": [{"dst": "0.0.0.0/0"}]}}
        network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}
        (self.folder / "cni" / "10.conflist").write_text(json.dumps(network))
        config = _CONTAINERD.format(folder=self.folder, sandbox=PAUSE, plugins=CNI)
        (self.folder / "containerd.toml").write_text(config)

    def _start_containerd(self) -> None:
        script = f'ip link set lo up && mount --bind {self.folder}/device-plugins {_PLUGINS} && exec "$@"'
        containerd = ["containerd", "--config", str(self.folder / "containerd.toml"), "--log-level", "warn"]
        self._start("containerd", ["unshare", "--net", "--mount", "sh", "-c", script, "sh", *containerd])
        pid, own = self._supervisor.pids["containerd"], os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{pid}/ns/net") != own, 10, "a network namespace is there")
        host, number = self.ground.host, self.number
        ip(
            f"link add {self._cable} type veth peer name eth0 netns {pid}",
            f"link set {self._cable} master {BRIDGE} up",
            f"route replace {host.pod_network(number)} via {self.address}",
        )
        peers = (other for other in range(1, MOST + 1) if other != number)
        ip(
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {host.address}",
            *(f"route add {host.pod_network(peer)} via {host.node_address(peer)}" for peer in peers),
            inside=pid,
        )
        run(["nsenter", f"--net=/proc/{pid}/ns/net", "sysctl", "-qw", "net.ipv4.ip_forward=1"])
        version = ["ctr", "--address", str(self._socket), "version"]
        wait_until(lambda: not subprocess.run(version, capture_output=True).returncode, 30, "containerd answers")
        self.load(self.ground.images)

    def _start_kubelet(self, provider_id: str, labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> None:
        config = self.folder / "kubelet.json"
        config.write_text(json.dumps(self._kubelet_config(provider_id, taints)))
        words = ",".join(f"{key}={value}" for key, value in labels.items())
        flags = {
            "config": config,
            "kubeconfig": self.ground.plane.kubeconfig,
            "hostname-override": self.name,
            "node-ip": self.address,
            "root-dir": self.folder / "kubelet",
            "cert-dir": self.folder / "pki",
            **({"node-labels": words} if words else {}),
        }
        self._join("kubelet", [str(self.ground.programs.kubelet), *(f"--{k}={v}" for k, v in flags.items())])

    def _kubelet_config(self, provider_id: str, taints: Sequence[Mapping[str, str]]) -> Mapping[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "providerID": provider_id,
            "registerWithTaints": list(taints),
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "podCIDR": self.ground.host.pod_network(self.number),
            "podLogsDir": str(self.folder / "pod-logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "clusterDNS": [self.ground.host.address],
            "clusterDomain": DOMAIN,
            "resolvConf": "/dev/null",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}/pods",
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "makeIPTablesUtilChains": False,
            "nodeLeaseDurationSeconds": 4,
            "nodeStatusUpdateFrequency": "1s",
        }

    def _start_proxy(self) -> None:
        flags = (
            f"--kubeconfig={self.ground.plane.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--cluster-cidr={self.ground.host.network}",
            "--proxy-mode=iptables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        )
        self._join("kube-proxy", [str(self.ground.programs.kube_proxy), *flags])

    def _join(self, name: str, command: Sequence[str]) -> None:
        """Start a program inside the node's namespaces."""
        pid = self._supervisor.pids["containerd"]
        self._start(name, ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt", *command])

    def _start(self, name: str, command: Sequence[str]) -> None:
        """Start a program in the node's cgroup, which also contains its children."""
        script = f'echo $$ > {cgroups.tracking(self.cgroup)}/cgroup.procs && exec "$@"'
        self._supervisor.start(
            name,
            ["sh", "-c", script, "sh", *command],
            log=self.folder / f"{name}.log",
            cwd=ROOT,
            env=dict(os.environ),
        )
