"""The progress endpoint's certificate, in a Secret that all replicas share or in files, and its renewal."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NoReturn
from urllib.parse import urlsplit

from charterer.api.models.base import Json
from charterer.app.settings import Settings
from charterer.cluster.client import Client
from charterer.cluster.errors import AlreadyExists, ApiError, Conflict, NotFound
from charterer.cluster.paths import SECRETS
from charterer.server.tls import StoredSecret, TlsMaterial, UnusableSecret, ensure_tls, mounted_tls

_log = logging.getLogger(__name__)

_SECRET = "charterer-progress-tls"
_RENEWAL_CHECK_SECONDS = 86_400.0
"""Seconds between two checks whether the certificate must be renewed. A renewal is due weeks before the certificate
expires.
"""
_RETRY_SECONDS = 600.0
"""Seconds from a failed check to the next check."""


async def progress_certificate(client: Client, settings: Settings) -> TlsMaterial:
    """The certificate in the Secret, created or renewed if necessary. If the settings name a folder, the certificate in
    its files.

    Raises ApiError, UnusableSecret and RuntimeError.
    """
    if settings.progress_certificate is not None:
        return await asyncio.to_thread(mounted_tls, settings.progress_certificate, _names(settings)[0])
    secret = _CertificateSecret(client, settings.namespace)
    return await ensure_tls(secret.load, secret.save, _names(settings), datetime.now(UTC))


async def unshared_certificate(settings: Settings) -> TlsMaterial:
    """A certificate for this process alone. A dry run uses it, because it serves no pods."""

    async def nothing() -> None:
        return None

    async def kept(data: Mapping[str, bytes], version: str | None) -> bool:
        return True

    return await ensure_tls(nothing, kept, _names(settings), datetime.now(UTC))


def _names(settings: Settings) -> tuple[str, ...]:
    """The host names of the progress endpoint."""
    host = urlsplit(settings.url_for_pods).hostname or settings.progress_service
    service = settings.progress_service
    return tuple(dict.fromkeys((host, service, f"{service}.cluster.local", "charterer-progress")))


async def keep_renewed(client: Client, settings: Settings, context: ssl.SSLContext, ca_pem: str) -> NoReturn:
    """Renew the certificate in time and serve the new certificate, until cancelled.

    ``ca_pem``: the CA certificate that this process gives to pods. If the Secret was deleted, for example, another CA
    may have signed the certificate in it. The former certificate then stays in service, because no pod would accept the
    new one.
    """
    where = settings.progress_certificate or f"Secret {_SECRET}"
    pause = _RENEWAL_CHECK_SECONDS
    while True:
        await asyncio.sleep(pause)
        pause = _RETRY_SECONDS
        try:
            material = await progress_certificate(client, settings)
        except (ApiError, UnusableSecret, RuntimeError) as error:
            _log.warning("the progress endpoint's certificate could not be looked at: %s", error)
            continue
        if material.vouched_by(ca_pem):
            material.reload(context)
            pause = _RENEWAL_CHECK_SECONDS
        else:
            _log.error(
                "%s holds a certificate of another authority than running pods know, so the former one is "
                "served; restart the operator: pods that start then know it, and those that run do not report any more",
                where,
            )


class _CertificateSecret:
    """The Secret that holds the certificate and its key."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._path = SECRETS.one(_SECRET, namespace)

    async def load(self) -> StoredSecret | None:
        """The Secret's content, or None if there is no such Secret."""
        try:
            raw = await self._client.get(self._path)
        except NotFound:
            return None
        data = {key: base64.b64decode(value) for key, value in (raw.get("data") or {}).items()}
        return StoredSecret(data, raw["metadata"]["resourceVersion"])

    async def save(self, data: Mapping[str, bytes], version: str | None) -> bool:
        """Write the data over this version (None: create the Secret). Returns False if another replica wrote first."""
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
