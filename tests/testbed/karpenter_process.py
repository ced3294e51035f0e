"""A real Karpenter on the testbed's control plane, with control over the process and its cloud."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tests.testbed import ports, released
from tests.testbed.karpenter import KarpenterFiles
from tests.testbed.supervise import Supervisor

GPU = "nvidia.com/gpu"
ZONES = ("zone-a", "zone-b")
NODE_CLASS: Mapping[str, str] = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_ZONE, _CAPACITY = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"
_NAME = "karpenter"
_POLL_SECONDS = 0.05
_BATCH_IDLE_SECONDS, _BATCH_MOST_SECONDS = 1.0, 10.0
"""Karpenter's default batch times, which do not follow its adjustable clock."""


class KarpenterError(Exception):
    """Karpenter did not start. The message has the end of its log."""


class Plane(Protocol):
    """A control plane on which Karpenter runs, with an administrator's rights."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl and return its output."""


@dataclass(frozen=True, slots=True)
class CloudInstance:
    """A machine in the cloud behind Karpenter. Times are seconds since 1970. ``ended`` is None while it runs.

    ``offer`` is instance type, capacity type and zone, separated by slashes.
    """

    instance: str
    claim: str
    offer: str
    launched: float
    ended: float | None


def instance_type(name: str, gpus: int, *offers: tuple[str, str, float], resource: str = GPU) -> Mapping[str, object]:
    """Return an instance type of the cloud. An offer is a capacity type, a zone and dollars per hour.

    ``resource``: the extended resource of its GPUs.
    """
    offerings = [
        {
            "Price": price,
            "Available": True,
            "Requirements": [
                {"key": _CAPACITY, "operator": "In", "values": [capacity]},
                {"key": _ZONE, "operator": "In", "values": [zone]},
            ],
        }
        for capacity, zone, price in offers
    ]
    resources = {"cpu": "96", "memory": "1152Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {**resources, **({resource: str(gpus)} if gpus else {})},
        "offerings": offerings,
    }


def _everywhere(hourly: float, spot: float) -> list[tuple[str, str, float]]:
    return [(capacity, zone, price) for zone in ZONES for capacity, price in (("on-demand", hourly), ("spot", spot))]


INSTANCE_TYPES = (
    instance_type("p4d.24xlarge", 8, *_everywhere(32.77, 9.5)),
    instance_type("p5.48xlarge", 8, *_everywhere(98.32, 30.0)),
    instance_type("g6.12xlarge", 4, *_everywhere(4.6, 1.5)),
    instance_type("m7i.24xlarge", 0, *_everywhere(4.84, 1.6)),
    instance_type("mi300x-8x", 8, *_everywhere(48.0, 15.0), resource="amd.com/gpu"),
    instance_type("npu-8x", 8, *_everywhere(21.5, 7.0), resource="example.com/npu"),
)
"""Instance types of the tests' cloud in every zone: machines with eight, four and no GPUs, and with those of others."""


class KarpenterProcess:
    """One Karpenter, which serves metrics at ``metrics_url``.

    Its cloud's instances survive ``kill`` and ``restart``.
    """

    def __init__(self, plane: Plane, files: KarpenterFiles, directory: Path, pace: int) -> None:
        self._plane = plane
        self._pace = pace
        self._files = files
        self._directory = directory
        self._supervisor = Supervisor()
        self._port = ports.reserve()
        self.metrics_url = f"http://127.0.0.1:{self._port}/metrics"
        self._bill = directory / "bill.jsonl"

    @classmethod
    def start(
        cls,
        plane: Plane,
        files: KarpenterFiles,
        directory: Path,
        *,
        types: Sequence[Mapping[str, object]] = INSTANCE_TYPES,
        pace: int = 1,
    ) -> KarpenterProcess:
        """Install CRDs and a node class, start Karpenter, and return once it acts.

        ``types`` are the cloud's instance types. ``pace`` divides Karpenter's waits, except two: it polls ending nodes
        every second, and it does not touch a node for 10 s after choosing the node for a pod. The timestamps that it
        writes are real.
        """
        directory.mkdir(parents=True, exist_ok=True)
        karpenter = cls(plane, files, directory, pace)
        plane.kubectl("apply", "--server-side", "-f", str(files.crds))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(files.crds))
        node_class = {
            "apiVersion": f"{NODE_CLASS['group']}/v1alpha1",
            "kind": NODE_CLASS["kind"],
            "metadata": {"name": NODE_CLASS["name"]},
            "spec": {"nodeRegistrationDelay": "0s"},
        }
        plane.kubectl("apply", "-f", "-", input=json.dumps(node_class))
        (directory / "types.json").write_text(json.dumps(types))
        karpenter.behave()
        try:
            karpenter.restart()
        except BaseException:
            karpenter.stop()
            raise
        return karpenter

    def behave(self, *offers: Mapping[str, object], advanced_seconds: float = 0, waited_seconds: float = 0) -> None:
        """Set how the cloud handles launches (see ``offer`` in go-karpenter/cloud.go).

        Without offers, all launches succeed. ``advanced_seconds`` sets Karpenter's clock ahead. ``waited_seconds``
        makes Karpenter believe that it has waited that much longer, but it writes true times. Karpenter reads its clock
        when an object changes.
        """
        partial = self._directory / ".cloud.partial"
        told = {"offers": offers, "advancedSeconds": advanced_seconds, "waitedSeconds": waited_seconds}
        partial.write_text(json.dumps(told))
        partial.replace(self._directory / "cloud.json")

    def instances(self, claims: Iterable[str] | None = None) -> list[CloudInstance]:
        """Return every machine ever launched, or those of these claims."""
        lines = self._bill.read_text().splitlines() if self._bill.exists() else []
        told: dict[str, dict[str, Any]] = {}
        for line in lines:
            entry = json.loads(line)
            told.setdefault(entry["instance"], {}).update(entry)
        names = None if claims is None else set(claims)
        return [
            CloudInstance(
                entry["instance"],
                entry["claim"],
                entry["offer"],
                entry["launched"] / 1e6,
                entry["ended"] / 1e6 if "ended" in entry else None,
            )
            for entry in told.values()
            if names is None or entry["claim"] in names
        ]

    def kill(self) -> None:
        """Send SIGKILL. No process acts on claims until ``restart``."""
        self._supervisor.kill(_NAME)

    def restart(self) -> None:
        """Start Karpenter (again), and return once it acts."""
        log = self._directory / "karpenter.log"
        flags = {
            "metrics-port": self._port,
            "health-probe-port": 0,
            "instance-types-file-path": self._directory / "types.json",
            "log-level": "debug",
            "batch-idle-duration": f"{_BATCH_IDLE_SECONDS / self._pace:.3f}s",
            "batch-max-duration": f"{_BATCH_MOST_SECONDS / self._pace:.3f}s",
        }
        environment = {
            "PATH": os.defpath,
            "KUBECONFIG": str(self._plane.kubeconfig),
            "SYSTEM_NAMESPACE": "kube-system",
            "KUBERNETES_MIN_VERSION": "1.26.0",
            "CLOUD_FILE": str(self._directory / "cloud.json"),
            "BILL_FILE": str(self._bill),
            "PACE": str(self._pace),
        }
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        argv = [str(self._files.program), "--disable-leader-election", *arguments]
        self._supervisor.start(_NAME, argv, log=log, cwd=self._directory, env=environment)
        deadline = time.monotonic() + released.PATIENCE_SECONDS
        while not self._serves():
            if _NAME in self._supervisor.exited() or time.monotonic() > deadline:
                raise KarpenterError(f"Karpenter does not serve its metrics: {self.tail()}")
            time.sleep(_POLL_SECONDS)

    @property
    def running(self) -> bool:
        """Whether Karpenter has been started and has not ended."""
        return _NAME in self._supervisor.pids and _NAME not in self._supervisor.exited()

    def stop(self) -> None:
        """Kill Karpenter for good."""
        self._supervisor.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def tail(self) -> str:
        """Return the end of the log."""
        return (self._directory / "karpenter.log").read_text(errors="replace")[-4000:]

    def _serves(self) -> bool:
        try:
            with urllib.request.urlopen(self.metrics_url, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
