"""Released controllers as processes of this machine, with webhooks on loopback.

A released manifest names a Service for its webhooks. The testbed gives Services no addresses, and the API server runs
on this machine. Each webhook therefore gets the URL of the local process, and the certificate authority of its server.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from tests.testbed import served
from tests.testbed.controlplane import ControlPlane

PATIENCE_SECONDS = 180.0
"""Seconds after which a controller counts as hanging, on a busy machine too."""
_NOT_HERE = ("Deployment", "APIService", "Secret", "ServiceMonitor")
"""Kinds that run a controller inside the cluster or expose it there."""
_FIRST = ("Namespace", "CustomResourceDefinition")


class ReleasedError(Exception):
    """A controller or its manifest does not work as expected. The message describes the state."""


def apply_manifest(plane: ControlPlane, folder: Path, port: int, authority: bytes) -> list[str]:
    """Apply the kustomize output of a folder, except objects that run the controller. Return the paths of its webhooks.

    ``port`` is the local port of its webhooks, including conversion webhooks. ``authority`` is a PEM certificate.
    """
    documents = [raw for raw in yaml.safe_load_all(plane.kubectl("kustomize", str(folder))) if raw is not None]
    documents = [raw for raw in documents if raw["kind"] not in _NOT_HERE]
    first = [_converted_on_loopback(raw, port, authority) for raw in documents if raw["kind"] in _FIRST]
    _apply(plane, first)
    definitions = [raw["metadata"]["name"] for raw in first if raw["kind"] == "CustomResourceDefinition"]
    served.wait_until_served(plane, definitions)
    hooks = [on_loopback(raw, port, authority) for raw in documents if is_webhooks(raw)]
    _apply(plane, [*[raw for raw in documents if raw["kind"] not in _FIRST and not is_webhooks(raw)], *hooks])
    return [hook["clientConfig"]["url"].partition(str(port))[2] for raw in hooks for hook in raw["webhooks"]]


def _apply(plane: ControlPlane, documents: Sequence[Mapping[str, Any]]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    # Validation fetches the description of the whole API first: a busy API server takes longer than kubectl waits.
    plane.kubectl("apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-", input=text)


def is_webhooks(document: Mapping[str, Any]) -> bool:
    """Return whether the document is a webhook configuration."""
    return str(document["kind"]).endswith("WebhookConfiguration")


def on_loopback(document: Mapping[str, Any], port: int, authority: bytes) -> dict[str, Any]:
    """Return a webhook configuration that points to a port of this machine."""
    webhooks = [
        {**webhook, "clientConfig": _client(webhook["clientConfig"], port, authority)}
        for webhook in document["webhooks"]
    ]
    return {**document, "webhooks": webhooks}


def _converted_on_loopback(document: dict[str, Any], port: int, authority: bytes) -> dict[str, Any]:
    webhook = (document["spec"].get("conversion") or {}).get("webhook") if "spec" in document else None
    if webhook:
        webhook["clientConfig"] = _client(webhook["clientConfig"], port, authority)
    return document


def _client(config: Mapping[str, Any], port: int, authority: bytes) -> dict[str, str]:
    url = f"https://127.0.0.1:{port}{config['service']['path']}"
    return {"url": url, "caBundle": base64.b64encode(authority).decode()}


def serves(port: int) -> bool:
    """Return whether the controller with this health port is ready."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def knows(port: int, path: str) -> bool:
    """Return whether the webhook server has this path. A controller reports readiness before that."""
    try:
        trusting = ssl._create_unverified_context()
        with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=trusting)) as connection:
            connection.request("POST", path, body=b"{}", headers={"Content-Type": "application/json"})
            return connection.getresponse().status != 404
    except (OSError, http.client.HTTPException):
        return False
