"""A real Kubernetes control plane on loopback, in seconds, without Docker.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and kwok, which plays the kubelet of every Node that
carries the annotation ``kwok.x-k8s.io/node: fake`` by the Stages in ``stages/`` (their heads tell the pod annotations
that make a pod end, fail or stop slowly). A Node with ``nvidia.com/gpu`` in its status at creation gets GPU pods.

A Node stays Ready for as long as kwok plays its kubelet. The label ``fakecloud.charterer.dev/silent`` (any value) on
the Node makes that kubelet fall silent: kwok lets go of the Node and its pods at once, nobody renews its Lease, and
the controller manager makes it NotReady after ``node_monitor_grace_seconds``. Without the label it comes back.
(Taking the annotation away does not do that: kwok 0.8 sees no event and goes on renewing the Lease. And because of
how it matches that label, it ignores a Node without any label: give it ``kubernetes.io/hostname``, as real ones have.)

Only the API server listens on a port, on loopback unless real nodes are to reach it. This process has bound it with
SO_REUSEPORT and keeps it bound, and the API server shares it (``--permit-port-sharing``), so that nobody can take it in
between. etcd listens on a Unix socket.
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
"""Annotation of a pod: its process ends with this code."""
NODE_ANNOTATION = "kwok.x-k8s.io/node"
SILENT_LABEL = "fakecloud.charterer.dev/silent"
LOOPBACK = "127.0.0.1"
_KUBERNETES_SERVICE = "10.96.0.1"
"""ClusterIP of the Service kubernetes: the first of the range."""
_START_SECONDS = 180.0
_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 20.0
_DAY = 86_400
_GARBAGE_PERCENT = "300"
"""GOGC of the programs: they collect at four times what is alive instead of twice, which spares the API server a fifth
of its processor time for 200 MB."""


class ControlPlaneError(Exception):
    """The control plane did not start or a command against it failed; the message has the program's own words."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane. ``url`` is reachable from this machine only; ``kubeconfig`` is an administrator's."""

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
        """Starts one with its files in the empty folder ``directory``; returns when it serves and its controllers act.

        ``address``: of this machine, where the API server listens; real kubelets and pods do not reach loopback.

        A Node whose kubelet is silent for ``node_monitor_grace_seconds`` becomes NotReady (Unknown). Raises
        ControlPlaneError with the end of a log when a program dies or is not ready within three minutes, and
        build.MissingProgramsError when the programs have not been built.
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
        """Ends every program; what they logged stays in ``directory``. May be repeated."""
        self.supervisor.stop()
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """What kubectl prints, run as an administrator; ControlPlaneError with its stderr when it fails."""
        return self._run([str(self.binaries.kubectl), *arguments], input)

    def call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        """What the API server answers who has ``token``, or an administrator: no program needs to start for that.

        PATCH sends a JSON merge patch. ControlPlaneError with the API server's words when it refuses.
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
        """The warnings (RFC 7234, 299) with which the API server answers an administrator."""
        with self._open(method, path, json.dumps(body).encode(), "application/json", self.admin_token) as answer:
            return answer.headers.get_all("Warning") or []

    def helm(self, *arguments: str) -> str:
        """What helm prints, run as an administrator; ControlPlaneError with its stderr when it fails."""
        return self._run([str(self.binaries.helm), *arguments], None)

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token of that service account, valid for a day."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
        wanted = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": _DAY}}
        return str(self.call("POST", f"{account}/token", wanted)["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str, through_url: str | None = None) -> Path:
        """A kubeconfig with a token of that service account, valid for a day.

        ``through_url`` replaces the server's address: a TCP proxy on 127.0.0.1 may stand before the API server.
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
        """Neither the user's clusters nor the user's caches and settings."""
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
        self._wait_until(lambda: (self.directory / "etcd:0").exists(), "etcd opens its socket")
        self._start(self.binaries.kube_apiserver, _apiserver_flags(self.url))
        self._wait_until(lambda: self._get("/readyz"), "the API server is ready")
        self._start(self.binaries.kube_controller_manager, _controller_manager_flags(node_monitor_grace_seconds))
        self._start(self.binaries.kube_scheduler, _scheduler_flags())
        if kwok:
            self._start(self.binaries.kwok, _kwok_flags(node_monitor_grace_seconds))
        # Made by the controller manager, and pods are refused in a namespace without.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait_until(lambda: self._get(account), "the controllers act")

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

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Asks again and again: none of the programs tells anyone that it has started."""
        deadline = time.monotonic() + _START_SECONDS
        while not done():
            for name, code in self.supervisor.exited().items():
                raise ControlPlaneError(f"{name} ended with code {code} before {what}; {self._tail(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(self._tail(name) for name in self.supervisor.pids)
                raise ControlPlaneError(f"waited {_START_SECONDS:.0f} s in vain until {what}\n{logs}")
            time.sleep(_POLL_SECONDS)

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
        # It has no peers that would hear its heart: by default it beats ten times a second.
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
        # A handful of nodes is a "large" cluster too, or a dead zone would stop all evictions.
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
