"""The progress endpoint's certificate, in a Secret that all replicas share, and its renewal."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn
from urllib.parse import urlsplit

from charterer.api.models.base import Json
from charterer.app.settings import Settings
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, Conflict, NotFound
from charterer.cluster.paths import SECRETS
from charterer.server.tls import StoredSecret, TlsMaterial, ensure_tls

_SECRET = "charterer-progress-tls"
_RENEWAL_CHECK_SECONDS = 86_400.0
"""Seconds between two looks whether the certificate is to be renewed, which it is weeks before it expires."""


async def progress_certificate(client: Client, settings: Settings) -> TlsMaterial:
    """The certificate as the Secret has it, made or renewed where that is needed. Raises ApiError."""
    secret = _CertificateSecret(client, settings.namespace)
    host = urlsplit(settings.url_for_pods).hostname or settings.progress_service
    service = settings.progress_service
    names = dict.fromkeys((host, service, f"{service}.cluster.local", "charterer-progress"))
    return await ensure_tls(secret.load, secret.save, tuple(names), datetime.now(UTC))


async def keep_renewed(client: Client, settings: Settings, context: ssl.SSLContext) -> NoReturn:
    """Renew the certificate in time and serve the new one, until cancelled."""
    while True:
        await asyncio.sleep(_RENEWAL_CHECK_SECONDS)
        material = await progress_certificate(client, settings)
        material.reload(context)


class _CertificateSecret:
    """The Secret that holds the certificate and its key."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._path = SECRETS.one(_SECRET, namespace)

    async def load(self) -> StoredSecret | None:
        """What it holds; None where there is no such Secret."""
        try:
            raw = await self._client.get(self._path)
        except NotFound:
            return None
        data = {key: base64.b64decode(value) for key, value in (raw.get("data") or {}).items()}
        return StoredSecret(data, raw["metadata"]["resourceVersion"])

    async def save(self, data: Mapping[str, bytes], version: str | None) -> bool:
        """Write it over that version (None: create it). False when another replica wrote first."""
        body: Json = {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}
        metadata = {"name": _SECRET, "namespace": self._namespace}
        try:
            if version is None:
                whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", **body}
                await self._client.post(SECRETS.all(self._namespace), whole)
            else:
                await self._client.merge_patch(self._path, {"metadata": {"resourceVersion": version}, **body})
        except (AlreadyExists, Conflict):
            return False
        return True
