"""The HTTP server in front of an account: what boto3 talks to when its endpoint is this one."""

from __future__ import annotations

import re
import socket
import sys
import threading
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.clouds.aws import protocol
from tests.clouds.aws.account import Account
from tests.clouds.aws.operations import OPERATIONS
from tests.clouds.faults import AnswerLost

_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")
_LATEST_SIGNATURE = 300.0
"""Seconds by which a signature's time may differ from the server's."""


class AwsServer:
    """Serves ``account``; a test may put another account in its place."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._http = _Threads(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(0.02), daemon=True)

    def __enter__(self) -> AwsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def respond(self, headers: Any, body: bytes) -> tuple[int, str]:
        """Status and body of the answer; AnswerLost when the connection is to break."""
        signed = _SCOPE.search(headers.get("Authorization", ""))
        assert signed is not None, "a request without a signature"
        key, region, service = signed.groups()
        account = self.account
        try:
            operation, params = protocol.request(service, headers, body)
            name = f"{service}:{operation.name}"
            account.calls.append((name, params))
            _check_time(headers["X-Amz-Date"], account)
            with account.lock:
                account.check_caller(name, key)
                result = account.faults.around(name, account.clock.now, lambda: _act(account, name, params, region))
            return 200, protocol.answer(operation, result or {})
        except protocol.Fault as fault:
            return fault.status, protocol.error(service, fault)


class _Threads(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _act(account: Account, name: str, params: protocol.Params, region: str) -> protocol.Params | None:
    if params.get("DryRun"):
        raise protocol.Fault("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    account.witness("before", name)
    result = OPERATIONS[name](account, params, region)
    account.witness("after", name)
    return result


def _check_time(signed: str, account: Account) -> None:
    at = datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if abs((datetime.now(UTC) - at).total_seconds() + account.faults.clock_skew) > _LATEST_SIGNATURE:
        raise protocol.Fault("RequestExpired", "Request has expired. Timestamp date is too far off.")


def _handler(server: AwsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are written apart, and the client acknowledges the first late

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, text = server.respond(self.headers, body)
            except AnswerLost:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)  # close() alone leaves the client waiting
                return
            data = text.encode()
            self.send_response_only(status)
            self.send_header("Date", format_datetime(server.account.clock.now, usegmt=True))
            self.send_header("Content-Type", "text/xml" if text.startswith("<") else "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
