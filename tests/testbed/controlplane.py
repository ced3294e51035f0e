"""A real Kubernetes control plane on loopback that starts in seconds without Docker.

The programs are etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok. kwok simulates the kubelet of
every Node with the annotation ``kwok.x-k8s.io/node: fake``, by the Stages in ``stages/``. The head of each Stage file
names the pod annotations that make a pod end, fail or stop slowly. A Node created with ``nvidia.com/gpu`` in its status
gets GPU pods.

A Node stays Ready while kwok simulates its kubelet. The label ``fakecloud.charterer.dev/silent`` (any value) on the
Node stops the simulation at once for the Node and its pods. Its Lease is no longer renewed, and the controller manager
makes the Node NotReady after ``node_monitor_grace_seconds``. Removing the label restores the Node. Removing the
annotation has no such effect: kwok 0.8 gets no event and continues to renew the Lease. kwok matches that label in such
a way that it ignores a Node without any label, so give each Node ``kubernetes.io/hostname``, as real nodes have.

Only the API server listens on a port, on loopback unless real nodes must reach it. This process binds the port with
SO_REUSEPORT and keeps it, and the API server shares it (``--permit-port-sharing``), so no other process can take the
port in between. etcd listens on a Unix socket.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.testbed import build, credentials
from tests.testbed.build import Binaries
from tests.testbed.supervise import Supervisor

STAGES = Path(__file__).resolve().parent / "stages"
EXIT_CODE = "testbed.charterer.dev/exit-code"
"""Annotation of a pod. Its process ends with this exit code."""
NODE_ANNOTATION = "kwok.x-k8s.io/node"
SILENT_LABEL = "fakecloud.charterer.dev/silent"
LOOPBACK = "127.0.0.1"
_KUBERNETES_SERVICE = "10.96.0.1"
"""ClusterIP of the Service kubernetes, the first address of the range."""
_START_SECONDS = 180.0
_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 20.0
_DAY = 86_400
_GARBAGE_PERCENT = "300"
"""GOGC of the programs: garbage collection starts at four times the live heap instead of twice.

This saves a fifth of the API server's processor time for 200 MB.
"""


class ControlPlaneError(Exception):
    """The control plane did not start, or a command failed. The message has the program's output."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane. ``url`` is reachable from this machine only. ``kubeconfig`` is an administrator's."""

    directory: Path
    binaries: Binaries
    url: str
    ca_file: Path
    admin_token: str
    kubeconfig: Path
    supervisor: Supervisor
    _port: socket.socket

    @classmethod
    def start(
        cls, directory: Path, *, kwok: bool = True, node_monitor_grace_seconds: int = 8, address: str = LOOPBACK
    ) -> ControlPlane:
        """Start a control plane with its files in the empty folder ``directory``.

        Return once it serves and controllers act. ``address`` is the API server's listen address. Real kubelets and
        pods cannot reach loopback. A Node whose kubelet is silent for ``node_monitor_grace_seconds`` becomes NotReady
        (Unknown). Raises ControlPlaneError with the end of a log if a program dies or is not ready within three
        minutes, and build.MissingProgramsError if the programs have not been built.
        """
        binaries = build.locate()
        directory = directory.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ControlPlaneError(f"{directory} is not empty; give the control plane a folder of its own")
        port = socket.socket()
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        port.bind((address, 0))
        plane = cls(
            directory=directory,
            binaries=binaries,
            url=f"https://{address}:{port.getsockname()[1]}",
            ca_file=directory / "ca.crt",
            admin_token=secrets.token_urlsafe(24),
            kubeconfig=directory / "kubeconfig",
            supervisor=Supervisor(),
            _port=port,
        )
        try:
            plane._write_credentials()
            plane._start_programs(kwok, node_monitor_grace_seconds)
        except BaseException:
            plane.stop()
            raise
        return plane

    def stop(self) -> None:
        """End every program. Logs stay in ``directory``. May be repeated."""
        self.supervisor.stop()
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as an administrator and return its output. Raises ControlPlaneError with its stderr."""
        return self._run([str(self.binaries.kubectl), *arguments], input)

    def call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        """Call the API server without starting a program, as the owner of ``token`` or as an administrator.

        PATCH sends a JSON merge patch. Raises ControlPlaneError with the API server's message.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            data = None if body is None else json.dumps(body).encode()
            with self._open(method, path, data, kind, token or self.admin_token) as answer:
                decoded: dict[str, Any] = json.load(answer)
                return decoded
        except urllib.error.HTTPError as error:
            raise ControlPlaneError(f"{method} {path}: {json.load(error)['message']}") from error

    def warnings(self, method: str, path: str, body: Mapping[str, object]) -> list[str]:
        """Return the warnings (RFC 7234, 299) in the API server's response to an administrator."""
        with self._open(method, path, json.dumps(body).encode(), "application/json", self.admin_token) as answer:
            return answer.headers.get_all("Warning") or []

    def wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Poll until ``done``, because no program tells. Raises ControlPlaneError with the programs' logs."""
        deadline = time.monotonic() + _START_SECONDS
        while not done():
            for name, code in self.supervisor.exited().items():
                raise ControlPlaneError(f"{name} ended with code {code} before {what}; {self._tail(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(self._tail(name) for name in self.supervisor.pids)
                raise ControlPlaneError(f"waited {_START_SECONDS:.0f} s in vain until {what}\n{logs}")
            time.sleep(_POLL_SECONDS)

    def helm(self, *arguments: str) -> str:
        """Run helm as an administrator and return its output. Raises ControlPlaneError with its stderr."""
        return self._run([str(self.binaries.helm), *arguments], None)

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a token of this service account that is valid for a day."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        wanted = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": _DAY}}
        return str(self.call("POST", f"{account}/token", wanted)["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str, through_url: str | None = None) -> Path:
        """Write a kubeconfig with a token of this service account, valid for a day.

        ``through_url`` replaces the server's address, for a TCP proxy on 127.0.0.1 before the API server.
        """
        token = self.service_account_token(namespace, name)
        path = self.directory / f"{namespace}-{name}-{secrets.token_hex(4)}.kubeconfig"
        credentials.write_kubeconfig(
            path, url=through_url or self.url, ca_file=self.ca_file, token=token, namespace=namespace
        )
        return path

    def _run(self, command: list[str], input: str | None) -> str:
        done = subprocess.run(command, input=input, capture_output=True, text=True, env=self._environment())
        if done.returncode != 0:
            words = " ".join(["", *command[1:]])
            raise ControlPlaneError(f"{Path(command[0]).name}{words}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """Return an environment without the user's clusters, caches and settings."""
        home = str(self.directory / "home")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE", "XDG_"))}
        return {**kept, "HOME": home, "KUBECONFIG": str(self.kubeconfig), "GOGC": _GARBAGE_PERCENT}

    def _write_credentials(self) -> None:
        d = self.directory
        own = (str(urlsplit(self.url).hostname), _KUBERNETES_SERVICE)
        credentials.write_serving_certificate(self.ca_file, d / "serving.crt", d / "serving.key", own)
        credentials.write_signing_key(d / "service-accounts.key")
        (d / "tokens.csv").write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        credentials.write_kubeconfig(self.kubeconfig, url=self.url, ca_file=self.ca_file, token=self.admin_token)

    def _start_programs(self, kwok: bool, node_monitor_grace_seconds: int) -> None:
        self._start(self.binaries.etcd, _etcd_flags())
        self.wait_until(lambda: (self.directory / "etcd:0").exists(), "etcd opens its socket")
        self._start(self.binaries.kube_apiserver, _apiserver_flags(self.url))
        self.wait_until(lambda: self._get("/readyz"), "the API server is ready")
        self._start(self.binaries.kube_controller_manager, _controller_manager_flags(node_monitor_grace_seconds))
        self._start(self.binaries.kube_scheduler, _scheduler_flags())
        if kwok:
            self._start(self.binaries.kwok, _kwok_flags(node_monitor_grace_seconds))
        # The controller manager makes this ServiceAccount. A namespace without it refuses pods.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait_until(lambda: self._get(account), "the controllers act")

    def _start(self, program: Path, flags: list[str]) -> None:
        self.supervisor.start(
            program.name,
            [str(program), *flags],
            log=self.directory / f"{program.name}.log",
            cwd=self.directory,
            env=self._environment(),
        )

    def _get(self, path: str) -> bool:
        try:
            with self._open("GET", path, None, "application/json", self.admin_token) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _open(self, method: str, path: str, body: bytes | None, kind: str, token: str) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        return urllib.request.urlopen(request, timeout=_ANSWER_SECONDS, context=context)

    def _tail(self, name: str) -> str:
        log = self.directory / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"the end of {log}:", *lines])


def _etcd_flags() -> list[str]:
    return [
        "--name=testbed",
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        "--listen-client-urls=unix://etcd:0",
        "--advertise-client-urls=unix://etcd:0",
        "--listen-peer-urls=unix://peer:0",
        "--initial-advertise-peer-urls=unix://peer:0",
        "--initial-cluster=testbed=unix://peer:0",
        "--auto-compaction-mode=revision",
        "--auto-compaction-retention=1000",
        "--log-level=warn",
        # There are no peers that need the heartbeat, which by default is sent ten times a second.
        "--heartbeat-interval=1000",
        "--election-timeout=10000",
    ]


def _apiserver_flags(url: str) -> list[str]:
    address, port = url.removeprefix("https://").split(":")
    return [
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={port}",
        "--permit-port-sharing",
        *(["--endpoint-reconciler-type=none"] if address == LOOPBACK else []),
        "--kubelet-preferred-address-types=InternalIP",
        "--etcd-servers=unix://etcd:0",
        "--tls-cert-file=serving.crt",
        "--tls-private-key-file=serving.key",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-accounts.key",
        "--service-account-signing-key-file=service-accounts.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
    ]


def _controller_manager_flags(node_monitor_grace_seconds: int) -> list[str]:
    return [
        "--kubeconfig=kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--service-account-private-key-file=service-accounts.key",
        "--root-ca-file=ca.crt",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-job-syncs=20",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={node_monitor_grace_seconds}s",
        # The defaults are 0.1 and 0.01 nodes a second, which would make tests of lost nodes slow.
        "--node-eviction-rate=100",
        "--secondary-node-eviction-rate=100",
    ]


def _scheduler_flags() -> list[str]:
    return [
        "--kubeconfig=kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def _kwok_flags(node_monitor_grace_seconds: int) -> list[str]:
    return [
        "--kubeconfig=kubeconfig",
        f"--manage-nodes-with-annotation-selector={NODE_ANNOTATION}=fake",
        f"--manage-nodes-with-label-selector=!{SILENT_LABEL}",
        *(f"--config={stage}" for stage in sorted(STAGES.glob("*.yaml"))),
        # kwok renews a Lease at a quarter of its duration, so eight renewals fit into the grace period.
        f"--node-lease-duration-seconds={max(2, node_monitor_grace_seconds // 2)}",
        "--node-ip=127.0.0.1",
        "--v=WARN",
        "--cidr=10.0.0.0/16",
    ]
