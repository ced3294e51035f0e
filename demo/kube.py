"""Calls to a Kubernetes API server over raw HTTP: lists, watches, patches, tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

Json = dict[str, Any]

_TIMEOUT = aiohttp.ClientTimeout(total=20)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=60)


class KubeError(Exception):
    """The API server refused a call. ``code`` is the HTTP status, ``reason`` the reason in the Status object."""

    def __init__(self, call: str, code: int, reason: str, message: str) -> None:
        super().__init__(f"{call}: {code} {reason}: {message}")
        self.code = code
        self.reason = reason


RETRIABLE = (aiohttp.ClientError, TimeoutError, OSError)
"""Exceptions of a call if the API server cannot be reached or does not answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address of the API server, and the caller's credentials."""

    url: str
    tls: ssl.SSLContext | None
    token: str | None

    @classmethod
    def of(cls, kubeconfig: Path) -> Access:
        """Read the current context of a kubeconfig. Credentials may be inline or in files."""
        config = yaml.safe_load(kubeconfig.read_text())

        def named(kind: str, name: str) -> Json:
            found: Json = next(entry[kind] for entry in config[f"{kind}s"] if entry["name"] == name)
            return found

        context = named("context", config["current-context"])
        cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
        tls = None
        if cluster["server"].startswith("https:"):
            tls = ssl.create_default_context(cadata=_material(cluster, "certificate-authority", kubeconfig))
            if certificate := _material(user, "client-certificate", kubeconfig):
                _load_client_certificate(tls, certificate, _material(user, "client-key", kubeconfig) or "")
        return cls(cluster["server"], tls, user.get("token"))


def _material(entry: Mapping[str, str], key: str, kubeconfig: Path) -> str | None:
    if inlined := entry.get(f"{key}-data"):
        return base64.b64decode(inlined).decode()
    return (kubeconfig.parent / entry[key]).read_text() if key in entry else None


def _load_client_certificate(tls: ssl.SSLContext, certificate: str, key: str) -> None:
    # The ssl module can load a client certificate only from a file.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + "\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


class Kube:
    """A client of one API server. Use it as an async context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        self._session = aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", **query: str
    ) -> Json:
        """Make one call. Raises KubeError if the server refuses it, and one of RETRIABLE without an answer."""
        assert self._session is not None
        async with self._session.request(
            method,
            self._access.url + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type} if body is not None else {},
            ssl=self._access.tls or True,
        ) as response:
            text = await response.text()
            try:
                answer: Json = json.loads(text)
            except ValueError:
                answer = {"reason": response.reason, "message": text[:200]}
            if response.status >= 400:
                raise KubeError(
                    f"{method} {path}", response.status, answer.get("reason", ""), answer.get("message", "")
                )
            return answer

    async def items(self, path: str, **query: str) -> list[Json]:
        """Return the items of a list."""
        items: list[Json] = (await self.call("GET", path, **query))["items"]
        return items

    async def merge_patch(self, path: str, body: Json) -> Json:
        """Apply a JSON merge patch."""
        return await self.call("PATCH", path, body, content_type="application/merge-patch+json")

    async def pod_token(self, pod: Json, audience: str) -> str:
        """Request a ServiceAccount token as in a pod's projected volume. The token is bound to this pod."""
        namespace = pod["metadata"]["namespace"]
        account = pod["spec"].get("serviceAccountName", "default")
        bound = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
        answer = await self.call(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound},
            },
        )
        token: str = answer["status"]["token"]
        return token

    async def watch(self, path: str, **query: str) -> AsyncIterator[dict[str, Json]]:
        """Yield all objects of a list by uid, at once and after each change, forever. Outages are retried.

        Each item is the same dictionary, so callers must copy what they need later.
        """
        objects: dict[str, Json] = {}
        while True:
            try:
                listed = await self.call("GET", path, **query)
                objects.clear()
                objects.update({item["metadata"]["uid"]: item for item in listed["items"]})
                yield objects
                async for kind, item in self._changes(path, listed["metadata"]["resourceVersion"], query):
                    if kind == "DELETED":
                        objects.pop(item["metadata"]["uid"], None)
                    else:
                        objects[item["metadata"]["uid"]] = item
                    yield objects
            except (*RETRIABLE, KubeError):
                await asyncio.sleep(0.5)

    async def _changes(self, path: str, since: str, query: Mapping[str, str]) -> AsyncIterator[tuple[str, Json]]:
        assert self._session is not None
        async with self._session.get(
            self._access.url + path,
            params={**query, "watch": "true", "resourceVersion": since, "timeoutSeconds": "50"},
            ssl=self._access.tls or True,
            timeout=_WATCH_TIMEOUT,
        ) as response:
            if response.status >= 400:
                raise KubeError(f"WATCH {path}", response.status, response.reason or "", await response.text())
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise KubeError(f"WATCH {path}", event["object"].get("code", 0), "", str(event["object"]))
                    yield event["type"], event["object"]
