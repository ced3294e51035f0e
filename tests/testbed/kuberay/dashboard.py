"""A server that answers KubeRay's calls to the dashboards of all RayClusters, because kwok's pods run no dashboard.

KubeRay reaches the server as its HTTP proxy. The answers follow Ray's Jobs API. A job is known once it is submitted,
and runs until a test ends it. Other calls get status 501 and are appended to ``unknown``.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_JOBS = ("api", "jobs")
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class Dashboard:
    """A server on ``port`` that runs until ``stop``."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._jobs: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._server.server_address[1])

    def submit(self, job: str) -> None:
        """Let the job with this submission id run, unless it is known."""
        self._job(job)

    def end(self, job: str, status: str) -> None:
        """End the job with this submission id as SUCCEEDED, FAILED or STOPPED."""
        self._job(job, status=status, end_time=_now())

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, object]:
        """Return the status and body of a response."""
        parts = tuple(part for part in urlsplit(url).path.split("/") if part)
        match method, parts[:2] == _JOBS, parts[2:]:
            case "GET", True, (job,):
                return (200, self._job(job)) if job in self._jobs else (404, {})
            case "GET", True, ():
                with self._lock:
                    return 200, list(self._jobs.values())
            case "POST", True, ():
                job = str(json.loads(body)["submission_id"])
                return 200, {"job_id": job, "submission_id": self._job(job)["submission_id"]}
            case "POST", True, (job, "stop"):
                self._job(job, status="STOPPED", end_time=_now())
                return 200, {"stopped": True}
            case "DELETE", True, (_,):
                return 200, {"deleted": True}
        self.unknown.append(f"{method} {url}")
        return 501, {}

    def _job(self, job: str, **changes: object) -> dict[str, Any]:
        """Apply the changes to the job if it has not ended, and return the job."""
        first = {"submission_id": job, "status": "RUNNING", "entrypoint": "python train.py", "start_time": _now()}
        with self._lock:
            known = self._jobs.setdefault(job, {**first, "message": "played"})
            if known["status"] not in _ENDED:
                known.update(changes)
            return dict(known)


def _handler(dashboard: Dashboard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = dashboard.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PUT = _respond

    return Handler


def _now() -> int:
    return int(time.time() * 1000)
