"""DNS for real nodes: Services and host names of their pods, by Kubernetes' specification.

https://github.com/kubernetes/dns/blob/master/docs/specification.md, sections 2.3 and 2.4, A records only. The server
reads from the API server only when it gets a query, so it costs nothing without queries. The server does not cache
missing names, whereas CoreDNS may cache them for up to 30 s.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.testbed.controlplane import ControlPlane

DOMAIN = "cluster.local"
_FRESH_SECONDS = 0.2
_TTL_SECONDS = 1
_A = 1
_NAME_ERROR = 3


class ClusterDns:
    """A server on UDP port 53 of ``address`` that runs until ``stop``."""

    def __init__(self, plane: ControlPlane, address: str) -> None:
        self._plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.ca_file))
        self._names: Mapping[str, list[str]] = {}
        self._read_at = float("-inf")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._thread = threading.Thread(target=self._serve, name="dns", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(4096)
            if not query:
                return
            try:
                answer = self._answer(query)
            except (IndexError, struct.error, OSError):  # no query, or no API server: the client repeats it
                continue
            self._socket.sendto(answer, peer)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode().lower())
            at += size + 1
        question = query[12 : at + 5]
        (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
        known = self._current().get(".".join(labels))
        addresses = known if known and kind == _A else []
        head = struct.pack(">HHHHH", 0x8580 | (_NAME_ERROR if known is None else 0), 1, len(addresses), 0, 0)
        record = struct.pack(">HHHIH", 0xC00C, _A, 1, _TTL_SECONDS, 4)
        return query[:2] + head + question + b"".join(record + socket.inet_aton(each) for each in addresses)

    def _current(self) -> Mapping[str, list[str]]:
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            self._names = names(self._list("/api/v1/services"), self._list("/apis/discovery.k8s.io/v1/endpointslices"))
            self._read_at = time.monotonic()
        return self._names

    def _list(self, path: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            self._plane.url + path, headers={"Authorization": f"Bearer {self._plane.admin_token}"}
        )
        with urllib.request.urlopen(request, timeout=5, context=self._context) as answer:
            items: list[dict[str, Any]] = json.load(answer)["items"]
        return items


def names(services: list[dict[str, Any]], slices: list[dict[str, Any]]) -> Mapping[str, list[str]]:
    """Return addresses by full name: of Services, and for headless ones also of each pod with a host name."""
    found: dict[str, list[str]] = {}
    headless: set[str] = set()
    for service in services:
        name, address = _full(service["metadata"]["name"], service), service["spec"].get("clusterIP")
        found[name] = [] if address in (None, "", "None") else [address]
        if not found[name]:
            headless.add(name)
    for part in slices:
        name = _full(part["metadata"].get("labels", {}).get("kubernetes.io/service-name", ""), part)
        for endpoint in part.get("endpoints") or () if name in headless else ():
            if (endpoint.get("conditions") or {}).get("ready", True):
                found[name] += endpoint["addresses"]
                if host := endpoint.get("hostname"):
                    found.setdefault(f"{host}.{name}", []).extend(endpoint["addresses"])
    return found


def _full(name: str, raw: Mapping[str, Any]) -> str:
    return f"{name}.{raw['metadata']['namespace']}.svc.{DOMAIN}"
