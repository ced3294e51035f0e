"""HTTPS on this machine, with a certificate of its own."""

from __future__ import annotations

import atexit
import ipaddress
import json
import shutil
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.clouds.azure.protocol import Answer
from tests.clouds.faults import AnswerLost

Respond = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""The answer to method, target, headers and body; raises AnswerLost when the connection is to break."""


@cache
def certificate() -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, as files; one for the process, because it takes time."""
    folder = Path(tempfile.mkdtemp(prefix="azure-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "clouds of tests")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(here, critical=False)
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    public, private = folder / "certificate.pem", folder / "key.pem"
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    public.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(encoding))
    private.write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return public, private


class HttpsServer:
    """Answers with ``respond``; ``now``: the time of its Date header. Without ``tls``, plain HTTP.

    ``certificate``: the file that a client has to trust (``connection_verify`` of Azure's SDKs).
    """

    def __init__(self, respond: Respond, now: Callable[[], datetime], *, tls: bool) -> None:
        self.certificate, key = certificate()
        self._http = _Threads(("127.0.0.1", 0), _handler(respond, now))
        if tls:
            self._http.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http.context.load_cert_chain(self.certificate, key)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(0.02), daemon=True)

    def start(self) -> None:
        """Serve, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no longer; nobody listens at the address any more."""
        self._http.shutdown()
        self._http.server_close()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The handshake happens in the thread of the connection, so that a slow client holds up nobody."""
        if self.context is not None:
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError:
                self.shutdown_request(request)
                return
        super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(respond: Respond, now: Callable[[], datetime]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two wait for an acknowledgement, 40 ms

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                answer = respond(self.command, self.path, dict(self.headers.items()), raw)
            except AnswerLost:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)  # close() alone leaves the client waiting
                return
            data = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response_only(answer.status)
            self.send_header("Date", format_datetime(now(), usegmt=True))
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("x-ms-request-id", "00000000-0000-0000-0000-000000000000")
            for key, value in answer.headers.items():
                self.send_header(key, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

    return Handler
