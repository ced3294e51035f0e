"""Kubernetes Nodes of the machines. Each Node is registered when its machine is Running, and silenced or deleted after
the machine's end.

The next step is a pure function of the machine, its group and the time. Finished steps are recorded durably, and a call
that failed is tried again. So nothing is lost while the API server is down, or if this process is killed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import aiohttp

from charterer.tools.fakecloud.cloud import FakeAccount
from charterer.tools.fakecloud.config import SECOND, GroupSpec, read_yaml
from charterer.tools.fakecloud.records import Machine, NodePhase

# How a Node shows its GPUs: by the device plugin and labels of the GPUs' maker, or by the maker's DRA driver
# (ResourceSlices).


DRIVER = "gpu.nvidia.com"
_UNITS = 7
"""Compute units of a GPU. The GPU's memory has one part more."""


def extended_resources(machine: Machine, spec: GroupSpec) -> Mapping[str, str]:
    """The resources that the device plugin adds to the Node's capacity."""
    cut = spec.cut
    if spec.jobs_per_gpu is not None:
        return {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": str(machine.gpus * spec.jobs_per_gpu)}
    if cut is None:
        return {spec.resource: str(machine.gpus)}
    slices = str(machine.gpus * cut.slices_per_gpu)
    match cut.published:
        case "single":
            return {"nvidia.com/gpu": slices}
        case "mixed":
            return {"nvidia.com/gpu": "0", f"nvidia.com/mig-{cut.profile}": slices}
        case "dra":
            return {}


def gpu_labels(machine: Machine, spec: GroupSpec) -> Mapping[str, str]:
    """The labels of NVIDIA's feature discovery, or of AMD's labeller. If slices are named like GPUs, the former counts
    them as GPUs.
    """
    if spec.resource != "nvidia.com/gpu":
        return {"amd.com/gpu.product-name": machine.gpu_type} if spec.resource == "amd.com/gpu" else {}
    cut, found = spec.cut, {"nvidia.com/gpu.present": "true"}
    if cut is None or cut.published != "single":
        return {**found, "nvidia.com/gpu.product": machine.gpu_type, "nvidia.com/gpu.count": str(machine.gpus)}
    return {
        **found,
        "nvidia.com/gpu.product": f"{machine.gpu_type}-MIG-{cut.profile}",
        "nvidia.com/gpu.count": str(machine.gpus * cut.slices_per_gpu),
    }


def resource_slices(machine: Machine, spec: GroupSpec, uid: str) -> Sequence[dict[str, Any]]:
    """The ResourceSlices of the machine's Node with this uid, or none if no DRA driver runs.

    The ResourceSlices have the counters of each GPU, and the slices that consume the counters. Counters and devices may
    not be in one ResourceSlice.
    """
    cut = spec.cut
    if cut is None or cut.published != "dra":
        return ()
    units = int(cut.profile[0])
    devices = []
    for gpu in range(machine.gpus):
        for at in range(cut.slices_per_gpu):
            attributes = {"type": "mig", "profile": cut.profile, "parentUUID": f"GPU-{machine.id}-{gpu}"}
            devices.append(
                {
                    "name": f"gpu-{gpu}-mig-{cut.profile.replace('.', '')}-{at}",
                    "attributes": {name: {"string": value} for name, value in attributes.items()},
                    "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"units": {"value": str(units)}}}],
                }
            )
    counters = [{"name": f"gpu-{gpu}", "counters": {"units": {"value": str(_UNITS)}}} for gpu in range(machine.gpus)]
    return [
        _resource_slice(machine, uid, "counters", {"sharedCounters": counters}),
        _resource_slice(machine, uid, "devices", {"devices": devices}),
    ]


def _resource_slice(machine: Machine, uid: str, part: str, content: Mapping[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": machine.id, "uid": uid}
    pool = {"name": machine.id, "generation": 1, "resourceSliceCount": 2}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{machine.id}-{part}", "ownerReferences": [owner]},
        "spec": {"driver": DRIVER, "nodeName": machine.id, "pool": pool, **content},
    }


# Access to the Kubernetes API server, by a kubeconfig or the service account of the pod, and raw calls.


_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """An API server and credentials for it. ``token_file`` is read again for every call, because the token rotates."""

    server: str
    tls: ssl.SSLContext | bool
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """The Authorization header, if there is a token."""
        token = self.token_file.read_text().strip() if self.token_file else self.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}


def in_cluster() -> KubeAccess:
    """The service account of the pod in which this process runs. Raises ValueError outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST is not set, so this process does not run in a pod; use --kubeconfig")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt"))
    return KubeAccess(f"https://{host}:{port}", tls, token_file=_SERVICE_ACCOUNT / "token")


def from_kubeconfig(path: Path) -> KubeAccess:
    """The current context of a kubeconfig, with certificates or tokens and without plug-ins.

    Raises ValueError if a part is missing.
    """
    try:
        config = read_yaml(path) or {}
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        server = cluster["server"].rstrip("/")
    except KeyError as error:
        raise ValueError(f"kubeconfig {path}: there is no {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no kubeconfig: {error}") from error
    token_file = user.get("tokenFile")
    if not any(key in user for key in ("token", "tokenFile", "client-certificate", "client-certificate-data")):
        raise ValueError(f"kubeconfig {path}: user {context['user']!r} has neither token nor client certificate")
    return KubeAccess(
        server, _tls(cluster, user, path.parent), user.get("token"), Path(token_file) if token_file else None
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "certificate-authority-data" in cluster:
        context.load_verify_locations(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    elif "certificate-authority" in cluster:
        context.load_verify_locations(cafile=str(folder / cluster["certificate-authority"]))
    if "client-certificate-data" in user or "client-certificate" in user:
        with tempfile.TemporaryDirectory() as scratch:
            certificate = _file(user, "client-certificate", folder, Path(scratch))
            context.load_cert_chain(certificate, _file(user, "client-key", folder, Path(scratch)))
    return context


def _file(user: dict[str, Any], key: str, folder: Path, scratch: Path) -> Path:
    if f"{key}-data" not in user:
        return folder / str(user[key])
    path = scratch / key
    path.write_bytes(base64.b64decode(user[f"{key}-data"]))
    return path


class KubeError(Exception):
    """The API server refused a call."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        super().__init__(f"{method} {path}: {status}: {text[:300]}")
        self.status = status


class Kube:
    """Raw calls. Raises KubeError if the server refuses, and aiohttp.ClientError or TimeoutError if it cannot be
    reached.
    """

    def __init__(self, access: KubeAccess) -> None:
        self._access = access
        self._session = aiohttp.ClientSession(
            timeout=_TIMEOUT, connector=aiohttp.TCPConnector(ssl=access.tls, limit=16)
        )

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Make one call. Returns the decoded answer."""
        headers = self._access.headers() | {"Content-Type": content_type}
        url = self._access.server + path
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            if answer.status >= 400:
                raise KubeError(method, path, answer.status, await answer.text())
            decoded: dict[str, Any] = await answer.json()
            return decoded

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


logger = logging.getLogger(__name__)

HEARTBEAT = "kwok.x-k8s.io/node"
"""The annotation by which kwok knows the Nodes whose kubelet it simulates. Its value is then ``fake``."""
SILENT = "fakecloud.charterer.dev/silent"
"""The label by which kwok drops Nodes if it runs with
``--manage-nodes-with-label-selector=!fakecloud.charterer.dev/silent``.

It is not enough to remove the annotation, because kwok 0.8 then still renews the Node's Lease.
"""

_CONCURRENT_CALLS = 8
_RETRY_SECONDS = (0.5, 5.0)


class NodeStep(StrEnum):
    """One call about a Node."""

    REGISTER = "register"
    SILENCE = "silence"
    DELETE = "delete"


def next_step(machine: Machine, spec: GroupSpec, now: int) -> tuple[NodeStep, int] | None:
    """The next step for a machine's Node, and when the step is due. None if nothing is left to do.

    A machine that ended before its registration was recorded may have a Node all the same. That Node is deleted too.
    """
    deletion = None if machine.ends is None else machine.ends + round(spec.node_deletion_seconds * SECOND)
    ended = machine.ended(now)
    match machine.node:
        case NodePhase.ABSENT if ended:
            return NodeStep.DELETE, now
        case NodePhase.ABSENT:
            return NodeStep.REGISTER, machine.runs
        case NodePhase.REGISTERED if machine.silenced or ended:
            return NodeStep.SILENCE, now
        case NodePhase.REGISTERED if machine.ends is not None:
            return NodeStep.SILENCE, machine.ends
        case NodePhase.SILENT if deletion is not None and not machine.stays:
            return NodeStep.DELETE, deletion
        case _:
            return None


def manifest(machine: Machine, spec: GroupSpec) -> dict[str, Any]:
    """The Node object that a GPU machine registers."""
    resources = {**spec.room, **extended_resources(machine, spec)}
    labels = {
        "kubernetes.io/hostname": machine.id,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": spec.instance_type,
        **gpu_labels(machine, spec),
        "topology.kubernetes.io/zone": machine.zone,
        **spec.labels,
    }
    own_taint = {"key": spec.resource, "value": "present", "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.id, "annotations": {HEARTBEAT: "fake"}, "labels": labels},
        "spec": {
            "providerID": machine.provider_id,
            "taints": [own_taint, *(taint.model_dump() for taint in spec.taints)],
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


class NodeKeeper:
    """Carries out the steps of Nodes, a few at a time."""

    def __init__(self, cloud: FakeAccount, kube: Kube) -> None:
        self._cloud = cloud
        self._kube = kube

    async def run(self, changed: asyncio.Event) -> None:
        """Keep the Nodes up to date until cancelled. ``changed`` is set when the cloud may have changed."""
        shortest, longest = _RETRY_SECONDS
        pause = shortest
        while True:
            changed.clear()
            if not await self._carry_out_due():
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
                continue
            pause = shortest
            next_at = min((at for _, _, at in self._steps(self._cloud.now())), default=None)
            with contextlib.suppress(TimeoutError):
                wait = None if next_at is None else max(0.0, (next_at - self._cloud.now()) / SECOND)
                async with asyncio.timeout(wait):
                    await changed.wait()

    def _steps(self, now: int) -> Iterator[tuple[Machine, NodeStep, int]]:
        for machine in self._cloud.machines():
            step = next_step(machine, self._cloud.group(machine.group).spec, now)
            if step is not None:
                yield machine, *step

    async def _carry_out_due(self) -> bool:
        """Carry out every step that is due. Returns False if one failed."""
        now = self._cloud.now()
        slots = asyncio.Semaphore(_CONCURRENT_CALLS)
        due = [(machine, step) for machine, step, at in self._steps(now) if at <= now]
        return all(await asyncio.gather(*(self._carry_out(slots, machine, step) for machine, step in due)))

    async def _carry_out(self, slots: asyncio.Semaphore, machine: Machine, step: NodeStep) -> bool:
        async with slots:
            try:
                phase = await self._call(machine, step)
            except (KubeError, aiohttp.ClientError, OSError) as error:
                logger.warning("Node %s: %s failed: %s; trying again", machine.id, step, error)
                return False
        logger.info("Node %s: %s", machine.id, phase.value)
        self._cloud.node_done(machine.id, phase)
        return True

    async def _call(self, machine: Machine, step: NodeStep) -> NodePhase:
        path = f"/api/v1/nodes/{machine.id}"
        try:
            match step:
                case NodeStep.REGISTER:
                    return await self._register(machine)
                case NodeStep.SILENCE:
                    patch = {"metadata": {"labels": {SILENT: "true"}}}
                    await self._kube.call("PATCH", path, patch, "application/merge-patch+json")
                    return NodePhase.SILENT
                case NodeStep.DELETE:
                    await self._kube.call("DELETE", path)
                    return NodePhase.GONE
        except KubeError as error:
            if error.status == 404:
                return NodePhase.GONE
            raise

    async def _register(self, machine: Machine) -> NodePhase:
        spec = self._cloud.group(machine.group).spec
        await self._create("/api/v1/nodes", manifest(machine, spec))
        if spec.cut is not None and spec.cut.published == "dra":
            uid = (await self._kube.call("GET", f"/api/v1/nodes/{machine.id}"))["metadata"]["uid"]
            for published in resource_slices(machine, spec, uid):
                await self._create("/apis/resource.k8s.io/v1/resourceslices", published)
        return NodePhase.REGISTERED

    async def _create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object, which may exist already."""
        try:
            await self._kube.call("POST", path, body)
        except KubeError as error:
            if error.status != 409:
                raise
