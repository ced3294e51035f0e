"""Calls to the API server without an event loop, for the Lease's thread: nothing that blocks the loop can delay it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from purser.cluster.client import RawObject
from purser.cluster.credentials import Access
from purser.cluster.errors import READS, OutcomeUnknown, Unauthorized, Unreachable, classify
from purser.cluster.tokens import TokenFailed


class PlainClient:
    """One connection, kept between calls. For one thread at a time. Raises the classes of ``purser.cluster.errors``.

    ``timeout`` is for each turn at the socket, not for the whole call.
    """

    def __init__(self, access: Access, timeout: float) -> None:
        self._access = access
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: RawObject | None = None) -> RawObject:
        """The JSON object that answers."""
        connection = self._connected(method, path)
        try:
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, self._headers())
            response = connection.getresponse()
            answer = response.read()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            lost = Unreachable if method in READS else OutcomeUnknown
            raise lost(method, path, 0, "NoAnswer", f"no answer: {type(error).__name__} {error}".rstrip()) from error
        except TokenFailed as error:
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        if response.status >= 300:
            failure = classify(method, path, response.status, dict(response.headers), answer)
            if isinstance(failure, Unauthorized):
                self._access.token.refused()
            raise failure
        parsed: RawObject = json.loads(answer)
        return parsed

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "purser"}
        authorization = self._access.token.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _connected(self, method: str, path: str) -> http.client.HTTPConnection:
        if self._connection is not None:
            return self._connection
        connection = _connection(self._access, self._timeout)
        try:
            connection.connect()
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            raise Unreachable(method, path, 0, "NotConnected", f"not sent: {error}") from error
        self._connection = connection
        return connection


def _connection(access: Access, timeout: float) -> http.client.HTTPConnection:
    server = urlsplit(access.server)
    host, port = server.hostname or "", server.port or (443 if access.tls else 80)
    near = urlsplit(access.proxy) if access.proxy else None
    first = (near.hostname or "", near.port or 3128) if near else (host, port)
    connection: http.client.HTTPConnection
    if access.tls:
        connection = _TlsConnection(*first, timeout, access.ssl_context(), access.tls_server_name or host)
    else:
        connection = http.client.HTTPConnection(*first, timeout=timeout)
    if near:
        connection.set_tunnel(host, port)
    return connection


class _TlsConnection(http.client.HTTPConnection):
    """HTTPS where the name in the certificate may differ from the host that is connected to."""

    sock: Any

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout)
        self._context = context
        self._name = name

    def connect(self) -> None:
        super().connect()
        plain: socket.socket = self.sock
        self.sock = self._context.wrap_socket(plain, server_hostname=self._name)
