"""The HTTPS server in front of a subscription: what Azure's SDKs talk to when their ``base_url`` is this one."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Mapping
from email.utils import format_datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.clouds.azure.certificate import make_certificate
from tests.clouds.azure.operations import OPERATIONS, Entry
from tests.clouds.azure.protocol import Answer, Body, Call, Fault, check_query, wrong_with
from tests.clouds.azure.subscription import Subscription
from tests.clouds.faults import AnswerLost


@cache
def _certificate() -> tuple[Path, Path]:
    """One for the process, because making it takes time."""
    folder = Path(tempfile.mkdtemp(prefix="azure-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make_certificate(folder)


class AzureServer:
    """Serves ``subscription``; a test may put another one in its place.

    ``certificate``: the file that a client has to trust (``connection_verify``). Without ``tls``, plain HTTP.
    """

    def __init__(self, subscription: Subscription, *, tls: bool = True) -> None:
        self.subscription = subscription
        self.certificate, key = _certificate()
        self._http = _Threads(("127.0.0.1", 0), _handler(self))
        self._http.context = None
        if tls:
            self._http.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http.context.load_cert_chain(self.certificate, key)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(0.02), daemon=True)

    def __enter__(self) -> AzureServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def respond(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Answer:
        """The answer; AnswerLost when the connection is to break."""
        subscription, url = self.subscription, urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query, keep_blank_values=True))
        try:
            name, entry, args = _find(method, path)
            body = _checked_body(name, entry, raw)
            check_query(entry.route, query)
            call = Call({**args, "path": path}, query, body, headers, self.url)
            subscription.calls.append((name, args, query, body))
            with subscription.lock:
                _check_caller(subscription, entry, call)
                now = subscription.clock.now
                answer = subscription.faults.around(name, now, lambda: _act(subscription, name, entry, call))
            _check_answer(name, entry, answer)
            return answer
        except Fault as fault:
            return Answer({"error": {"code": fault.code, "message": fault.message}}, fault.status, fault.headers)


def _find(method: str, path: str) -> tuple[str, Entry, dict[str, str]]:
    for name, entry in OPERATIONS.items():
        match = entry.route.path.fullmatch(path)
        if match is not None and method == entry.route.method:
            return name, entry, match.groupdict()
    raise Fault(404, "InvalidResourceType", f"this server has no call {method} {path}")


def _checked_body(name: str, entry: Entry, raw: bytes) -> Body:
    if bool(raw) != bool(entry.takes):
        raise Fault(400, "InvalidRequestContent", f"{name}: a body is missing, or there should be none")
    if not raw:
        return {}
    if wrong := wrong_with(entry.provider, entry.takes, raw):
        raise Fault(400, "InvalidRequestContent", f"The request content was invalid: {wrong}")
    body: Body = json.loads(raw)
    return body


def _check_caller(subscription: Subscription, entry: Entry, call: Call) -> None:
    subscription.check_token(call.header("Authorization") or "")
    if call.args["subscription_id"].lower() != subscription.id:
        message = f"The subscription '{call.args['subscription_id']}' could not be found."
        raise Fault(404, "SubscriptionNotFound", message)
    subscription.check_action(entry.action, call.args["path"])
    group = call.args.get("resource_group_name")
    if group is not None and group.lower() not in {each.lower() for each in subscription.groups}:
        raise Fault(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.")


def _act(subscription: Subscription, name: str, entry: Entry, call: Call) -> Answer:
    subscription.witness("before", name)
    answer = entry.act(subscription, call)
    subscription.witness("after", name)
    return answer


def _check_answer(name: str, entry: Entry, answer: Answer) -> None:
    """The server's own answers follow the vendor's description as well."""
    if not entry.gives or answer.body is None:
        return
    bodies = answer.body["value"] if entry.rows else [answer.body]
    for body in bodies:
        wrong = wrong_with(entry.provider, entry.gives, json.dumps(body))
        assert not wrong, f"the answer of this server to {name} is not as described: {wrong}"


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None

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


def _handler(server: AzureServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                answer = server.respond(self.command, self.path, dict(self.headers.items()), raw)
            except AnswerLost:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)  # close() alone leaves the client waiting
                return
            data = b"" if answer.body is None else json.dumps(answer.body).encode()
            now = server.subscription.clock.now
            self.send_response_only(answer.status)
            self.send_header("Date", format_datetime(now, usegmt=True))
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
