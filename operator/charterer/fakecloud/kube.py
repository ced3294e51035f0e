"""Access to the Kubernetes API server: a kubeconfig or the service account of the pod, and raw calls."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from charterer.fakecloud.base import read_yaml

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """An API server and credentials for it. ``token_file`` is read again for every call, because it rotates."""

    server: str
    tls: ssl.SSLContext | bool
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """The Authorization header, if there is a token."""
        token = self.token_file.read_text().strip() if self.token_file else self.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}


def in_cluster() -> KubeAccess:
    """The service account of the pod this process runs in; ValueError outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ValueError("KUBERNETES_SERVICE_HOST is not set, so this process does not run in a pod; use --kubeconfig")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt"))
    return KubeAccess(f"https://{host}:{port}", tls, token_file=_SERVICE_ACCOUNT / "token")


def from_kubeconfig(path: Path) -> KubeAccess:
    """The current context of a kubeconfig (certificates, tokens; no plug-ins); ValueError says what is missing."""
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
    """Raw calls. Raises KubeError for refusals, aiohttp.ClientError or TimeoutError when the server is not reached."""

    def __init__(self, access: KubeAccess) -> None:
        self._access = access
        self._session = aiohttp.ClientSession(
            timeout=_TIMEOUT, connector=aiohttp.TCPConnector(ssl=access.tls, limit=16)
        )

    async def call(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """One call; the decoded answer."""
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
