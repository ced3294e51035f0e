"""The HTTP server in front of a project: what google-cloud-compute talks to when its api_endpoint is this one."""

from __future__ import annotations

import socket
import sys
import threading
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.clouds.faults import AnswerLost
from tests.clouds.gcp import operations, protocol
from tests.clouds.gcp.methods import METHODS, permissions
from tests.clouds.gcp.project import Project
from tests.clouds.gcp.protocol import Fault, Message
from tests.clouds.gcp.settle import settle
from tests.clouds.gcp.state import Operation

Answer = tuple[int, dict[str, str], str]
"""Status, headers and body."""


class GcpServer:
    """Serves ``project``; a test may put another project in its place."""

    def __init__(self, project: Project) -> None:
        self.project = project
        protocol.routes()
        self._http = _Threads(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(0.02), daemon=True)

    def __enter__(self) -> GcpServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def respond(self, verb: str, target: str, token: str, body: bytes) -> Answer:
        """The answer; AnswerLost when the connection is to break."""
        project = self.project
        try:
            route, data, request = protocol.request(verb, target, body)
            name = route.name
            project.calls.append((name, data))
            with project.lock:
                settle(project)
                needed = [(each, _resource(project, data)) for each in _needed(name, data)]
                project.check_caller(name, token, needed)
                _check_place(project, data)
                result = project.faults.around(name, project.clock.now, lambda: _act(project, name, data, request))
                return 200, {}, protocol.answer(result)
        except Fault as fault:
            return fault.status, fault.headers, protocol.error(fault)


def _needed(method: str, data: dict[str, Any]) -> list[str]:
    needed, body = list(permissions(method)), data.get("bulkInsertInstanceResourceResource", {})
    if body.get("sourceInstanceTemplate") or data.get("sourceInstanceTemplate"):
        needed.append("compute.instanceTemplates.useReadOnly")
    if body.get("instanceProperties", {}).get("labels") or data.get("instanceResource", {}).get("labels"):
        needed.append("compute.instances.setLabels")
    return needed


def _resource(project: Project, data: dict[str, Any]) -> str:
    """What a missing permission is for."""
    where = f"projects/{project.id}"
    for key, kind in (("instanceGroupManager", "instanceGroupManagers"), ("instance", "instances")):
        if key in data:
            return f"{where}/zones/{data['zone']}/{kind}/{data[key]}"
    return where


def _check_place(project: Project, data: dict[str, Any]) -> None:
    if data["project"] not in (project.id, str(project.number)):
        raise Fault(404, "notFound", f"The resource 'projects/{data['project']}' was not found")
    zone = data.get("zone")
    if zone is not None and zone not in project.zones:
        raise protocol.invalid("zone", zone, "Unknown zone.")
    if zone in project.unreachable:
        raise Fault(503, "backendError", f"The zone {zone} is unreachable.")


def _act(project: Project, method: str, data: dict[str, Any], request: Message) -> Message:
    """Do it, unless the same requestId did it before: then its operation is the answer."""
    if method not in METHODS:
        raise Fault(501, "notImplemented", f"this server has no {method}")
    key, now = (method, data.get("requestId", "")), project.clock.now
    since, before, known = project.remembered.get(key, (now, data, None))
    if known is not None and since + timedelta(seconds=project.remembers_seconds) > now:
        if before != data:
            raise protocol.invalid("requestId", key[1], "It was used with other parameters.")
        return operations.row(project, known)
    project.witness("before", method)
    result = METHODS[method](project, request)
    project.witness("after", method)
    if not isinstance(result, Operation):
        return result
    if key[1]:
        project.remembered[key] = (now, data, result)
    return operations.row(project, result)


class _Threads(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers that were killed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(server: GcpServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or the body waits for the acknowledgement of the headers: 40 ms a call

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            try:
                status, headers, text = server.respond(self.command, self.path, token, body)
            except AnswerLost:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)  # close() alone leaves the client waiting
                return
            data = text.encode()
            self.send_response_only(status)
            skew = timedelta(seconds=server.project.faults.clock_skew)
            date = format_datetime(server.project.clock.now + skew, usegmt=True)
            plain = {"Date": date, "Content-Type": "application/json; charset=UTF-8", "Content-Length": str(len(data))}
            for key, value in {**headers, **plain}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = handle_any

    return Handler
