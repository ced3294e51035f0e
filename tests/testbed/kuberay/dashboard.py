"""What KubeRay asks the dashboards of RayClusters, answered for all of them: nothing listens in the pods of kwok.

KubeRay reaches it as the HTTP proxy of its process. Its answers are those of Ray's API for jobs: a job runs until it is
told to have ended. What KubeRay has no reason to ask is answered with 501, and kept in ``unknown``.
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
    """Listens on ``port`` until ``stop``."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._jobs: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """Of 127.0.0.1."""
        return int(self._server.server_address[1])

    def end(self, job: str, status: str) -> None:
        """The job of this submission id ends: SUCCEEDED, FAILED or STOPPED."""
        self._job(job, status=status, end_time=_now())

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, object]:
        """The status and the body of an answer."""
        parts = tuple(part for part in urlsplit(url).path.split("/") if part)
        match method, parts[:2] == _JOBS, parts[2:]:
            case "GET", True, (job,):
                return 200, self._job(job)
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
        """The job with these changes, if it has not ended."""
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
